#include "ddl/cli/experiment_flags.h"

#include <algorithm>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/lab/config_values.h"

namespace ddl {
namespace {

std::string shape_of(const Key& key) {
  switch (key.type) {
    case KeyType::integer: return "N";
    case KeyType::number: return "X";
    case KeyType::bytes: return "SIZE";
    case KeyType::seconds: return "TIME";
    case KeyType::spec: return "NAME[OPTIONS]";
    case KeyType::workers: return "WORKERS";
    case KeyType::choice: return join(key.choices, "|");
    default: return "TEXT";
  }
}

}  // namespace

std::string flag_of(const std::string& key) {
  auto name = "--" + key;
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

ExperimentFlags::ExperimentFlags(CLI::App& app) {
  flags_.reserve(experiment_keys().size());  // CLI11 keeps references to the values
  for (const auto& key : experiment_keys()) {
    auto& flag = flags_.emplace_back(Flag{key.name, flag_of(key.name), "", nullptr});
    if (key.type == KeyType::boolean) {
      flag.option = app.add_flag_function(fmt::format("{0},!--no-{1}", flag.name, flag.name.substr(2)),
                                          [&flag](std::int64_t count) { flag.value = count > 0 ? "true" : "false"; },
                                          fmt::format("{} [{}]", key.help, key.standard));
    } else {
      flag.option = app.add_option(flag.name, flag.value, key.help)->type_name(shape_of(key))->default_str(key.standard);
    }
    flag.option->group("Experiment");
  }
  app.add_option("--set", sets_, "A key and its value, as in a file; again for more.")
      ->type_name("KEY=VALUE")->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->group("Experiment");
}

Settings ExperimentFlags::settings() const {
  Settings settings;
  for (const auto& flag : flags_)
    if (flag.option->count() > 0) set(settings, flag.key, flag.value, flag.name);
  for (const auto& text : sets_) {
    const auto equals = text.find('=');
    if (equals == std::string::npos)
      throw Error(Code::invalid_argument, fmt::format("--set: no '='; got {}, expected key=value", in_quotes(text)));
    set(settings, text.substr(0, equals), text.substr(equals + 1), "--set");
  }
  return settings;
}

}  // namespace ddl
