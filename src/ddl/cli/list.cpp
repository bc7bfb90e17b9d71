#include <filesystem>

#include "ddl/cli/command.h"
#include "ddl/cli/plan.h"
#include "ddl/collective/communicator.h"
#include "ddl/collective/compression.h"
#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/data/dataset.h"
#include "ddl/core/units.h"
#include "ddl/nn/plugins.h"
#include "ddl/predict/datasheet/collective_library.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/machine.h"
#include "ddl/strategy/builtin.h"
#include "ddl/subject/subject.h"
#include "ddl/train/device_list.h"
#include "ddl/train/optimizer_list.h"
#include "ddl/transport/builtin.h"

namespace ddl {
namespace {

struct ListOptions {
  Output output;
  std::string kind;
};

Json item(const std::string& name, const std::string& summary, const std::string& missing = "") {
  return {{"name", name}, {"available", missing.empty()}, {"reason", missing.empty() ? Json() : Json(missing)}, {"summary", summary}};
}

template <typename Factory>
Json items(const Registry<Factory>& registry) {
  Json all = Json::array();
  for (const auto& entry : registry.entries()) all.push_back(item(entry.name, entry.summary, entry.missing));
  return all;
}

Json shape_json(const SampleShape& shape) {
  const auto words = [](int source, int target) { return source > 0 ? Json{source, target} : Json{target}; };
  switch (shape.objective) {
    case Objective::classification: return {{"images", {shape.channels, shape.height, shape.width}}, {"classes", shape.classes}};
    case Objective::captioning:
      return {{"images", {shape.channels, shape.height, shape.width}}, {"words", words(0, shape.target_length)}, {"classes", shape.classes}};
    case Objective::language:
    case Objective::translation: return {{"words", words(shape.source_length, shape.target_length)}, {"classes", shape.classes}};
  }
  return nullptr;
}

/// Sizes are those on the samples that a network was published for.
Json models() {
  const auto registry = all_models();
  auto all = items(registry);
  for (auto& model : all) {
    model["parameters"] = model["flops"] = model["layers"] = model["samples"] = nullptr;
    if (!model["available"].get<bool>()) continue;
    const auto name = model["name"].get<std::string>();
    try {
      const auto shape = natural_shape(name);
      const auto graph = registry.at(name).make(Spec{name, {}}, shape);
      model["parameters"] = graph.parameters() + graph.frozen_parameters();
      model["flops"] = graph.flops();
      model["layers"] = graph.layers.size();
      model["samples"] = shape_json(shape);
    } catch (const Error& error) {
      model["summary"] = model["summary"].get<std::string>() + fmt::format(" ({})", error.what());
    }
  }
  return all;
}

std::string_view name(Objective objective) {
  switch (objective) {
    case Objective::classification: return "classification";
    case Objective::language: return "language";
    case Objective::translation: return "translation";
    case Objective::captioning: return "captioning";
  }
  return "?";
}

/// `available` says whether the real samples are here. Each can be made up.
Json datasets() {
  Json all = Json::array();
  for (const auto registry = builtin_datasets(); const auto& entry : registry.entries()) {
    const auto missing = entry.make.missing({});
    auto dataset = item(entry.name, entry.summary, missing.empty() ? "" : "only with --synthetic: " + missing);
    const auto shape = dataset_shape(entry.name);
    dataset["objective"] = name(shape.objective);
    dataset["synthetic"] = true;
    dataset["shape"] = {shape.channels, shape.height, shape.width};
    dataset["classes"] = shape.classes;
    dataset["source_length"] = shape.source_length;
    dataset["target_length"] = shape.target_length;
    all.push_back(std::move(dataset));
  }
  return all;
}

Json optimizers() {
  Json all = Json::array();
  for (const auto& [name, summary] : optimizer_list()) all.push_back(item(name, summary));
  return all;
}

Json devices() {
  Json all = Json::array();
  for (const auto& kind : device_kinds()) all.push_back(item(kind.name, kind.summary, kind.missing));
  return all;
}

Json studies() {
  Json all = Json::array();
  for (const auto& folder : study_folders()) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      if (entry.path().extension() != ".yaml") continue;
      try {
        const auto study = read_study(entry.path().string(), {});
        all.push_back(item(study.name, fmt::format("{} experiments, {}", study.experiments.size(), entry.path().string())));
      } catch (const Error& error) {
        all.push_back(item(entry.path().stem().string(), entry.path().string(), error.what()));
      }
    }
  }
  return all;
}

/// Profiles from datasheets, and this machine's own.
Json machines() {
  Json all = Json::array();
  for (const auto& name : shipped_machines()) {
    try {
      const auto machine = find_machine(name);
      all.push_back(item(name, fmt::format("{:.3g} TFLOP/s fp32, {} at {:.4g} GB/s, {} a node over {}, {}", term(machine, "device.peak_flops.fp32") * 1e-12,
                                           to_string(Bytes{static_cast<std::int64_t>(term(machine, "device.memory_bytes"))}), term(machine, "device.memory_bandwidth") * 1e-9,
                                           term(machine, "node.devices"), machine["node"].value("link", "?"), library_of(machine).name())));
    } catch (const Error& error) {
      all.push_back(item(name, "", error.what()));
    }
  }
  const auto own = default_machine_path();
  std::error_code ignored;
  if (!own.empty() && std::filesystem::exists(own, ignored)) all.push_back(item(own, "this machine, as ddlbench probe measured it"));
  return all;
}

using Lister = std::function<Json()>;

std::vector<std::pair<std::string, Lister>> kinds() {
  const auto nothing = [] { return Json::array(); };
  return {{"models", models},
          {"datasets", datasets},
          {"strategies", [] { return items(builtin_strategies()); }},
          {"optimizers", optimizers},
          {"collectives", [] { return items(builtin_collectives()); }},
          {"compressions", [] { return items(builtin_compressions()); }},
          {"transports", [] { return items(builtin_transports()); }},
          {"storages", nothing},
          {"formats", [] { return Json{item("idx", "MNIST's image and label files, plain or gzip")}; }},
          {"devices", devices},
          {"subjects", [] { return items(builtin_subjects()); }},
          {"studies", studies},
          {"machines", machines}};
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const auto& [name, list] : kinds()) names.push_back(name);
  return names;
}

void print(const std::string& kind, const Json& all, const Output& output) {
  if (all.empty()) return output.data(fmt::format("{}: none in this version\n", kind));
  std::vector<std::vector<std::string>> rows;
  const bool sizes = all.front().contains("parameters");
  rows.push_back(sizes ? std::vector<std::string>{"name", "parameters", "flops/sample", "layers", "summary"}
                       : std::vector<std::string>{"name", "summary"});
  for (const auto& one : all) {
    std::vector<std::string> row{one["name"].get<std::string>()};
    if (sizes)
      for (const auto* key : {"parameters", "flops", "layers"}) row.push_back(one[key].is_null() ? "-" : one[key].dump());
    const auto missing = one["reason"].is_string() ? " [missing: " + one["reason"].get<std::string>() + "]" : "";
    row.push_back(one["summary"].get<std::string>() + missing);
    rows.push_back(std::move(row));
  }
  output.data(columns(rows));
}

Exit act(const ListOptions& options) {
  for (const auto& [name, list] : kinds()) {
    if (name != options.kind) continue;
    const auto all = list();
    if (options.output.json)
      options.output.document({{"schema", "ddlbench.list/1"}, {"kind", name}, {"items", all}});
    else
      print(name, all, options.output);
    return Exit::ok;
  }
  const auto names = kind_names();
  throw Error(Code::invalid_argument, fmt::format("list: unknown kind; got '{}'{}, expected one of: {}", options.kind,
                                                  did_you_mean(options.kind, names), join(names, " ")));
}

}  // namespace

Command add_list(CLI::App& root) {
  auto options = std::make_shared<ListOptions>();
  auto* app = add_command(root, "list", "What there is of a kind, and what is missing with the reason.", options->output,
                          {"ddlbench list models", "ddlbench list transports --json"});
  app->add_option("kind", options->kind, "One of: " + join(kind_names(), " "))->type_name("KIND")->required();
  return {app, [options] { return act(*options); }};
}

}  // namespace ddl
