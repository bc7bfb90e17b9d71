#include "ddl/predict/machine_terms.h"

#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/predict/machine.h"

namespace ddl {
namespace {

enum class Sort { number, number_or_null, word, object, list };

struct Term {
  const char* key;
  Sort sort = Sort::number;
  std::vector<Term> within = {};  ///< of an object, or of each of a list
  bool optional = false;
};

/// What each entry of a part needs. `when`: the word of `what` that it is for; empty: any.
struct Needed {
  const char* part;
  const char* when;
  std::vector<Term> terms;
};

const std::vector<Needed>& needed() {
  static const std::vector<Term> pieces{{"from_bytes"}, {"to_bytes"}, {"alpha_us"}, {"overhead_us"}, {"beta_ns_per_byte"}, {"copy_ns_per_byte"}, {"gamma_ns_per_byte"}, {"local_ns_per_byte"}};
  static const std::vector<Term> layers{{"sort", Sort::word}, {"family", Sort::word}, {"flops", Sort::number_or_null}, {"elements", Sort::number_or_null}, {"parameters", Sort::number_or_null}, {"count", Sort::number_or_null},
                                        {"forward_us", Sort::number_or_null}, {"backward_input_us", Sort::number_or_null}, {"backward_weight_us", Sort::number_or_null}, {"spread", Sort::number_or_null}};
  static const auto history = [](const char* key) { return Term{"history", Sort::list, {{key}}, true}; };
  static const std::vector<Needed> all{
      {"communication", "",
       {{"transport", Sort::word}, {"ranks"}, {"memory", Sort::word}, {"rounds", Sort::list, pieces}, {"one_shot", Sort::list, pieces},
        {"best", Sort::list, {{"collective", Sort::word}, {"from_bytes"}, {"to_bytes"}, {"algorithm", Sort::word}}}}},
      {"compute", "",
       {{"network", Sort::word}, {"batch"}, {"correction"}, {"step", Sort::object, {{"load_ms"}, {"copy_ms"}}}, {"loader_us"}, {"layers", Sort::list, layers},
        {"parts", Sort::list, {{"layers", Sort::list, layers}}, true}, {"pass_ms", Sort::number, {}, true}, {"parameter_bytes", Sort::number, {}, true}, history("pass_ms")}},
      {"optimizer", "", {{"bytes"}, {"update_us"}}},
      {"memory", "", {{"what", Sort::word}, {"bytes"}, {"bytes_per_s"}}},
      {"memory", "triad", {{"threads"}}},
      {"compression", "", {{"compression", Sort::word}, {"ranks"}, {"bytes"}, {"own_us"}}},
      {"contention", "", {{"what", Sort::word}, {"workers"}, {"slowdown"}, history("slowdown")}},
      {"contention", "steps", {{"network", Sort::word}}},
      {"contention", "collective", {{"collective_slowdown"}}},
      {"jitter", "", {{"network", Sort::word}, {"median_ms"}, {"p95_ms"}, {"sigma_log"}}},
      {"loader", "", {{"dataset", Sort::word}, {"sample_us"}}}};
  return all;
}

/// The probe that measures an entry again, and puts it in this one's place.
std::string probe_of(const std::string& part, const Json& entry) {
  const auto flag = [&](const char* key, const char* name) {
    const auto found = entry.find(key);
    if (found == entry.end() || found->is_null() || (found->is_string() && found->get<std::string>().empty())) return std::string();
    return fmt::format(" --{} {}", name, found->is_string() ? found->get<std::string>() : found->dump());
  };
  if (part == "communication") return "ddlbench probe comm" + flag("transport", "transport") + flag("ranks", "ranks");
  if (part == "loader") return "ddlbench probe loader" + flag("dataset", "dataset");
  const auto device = entry.value("device", Json("cpu")) == "cpu" ? flag("threads", "threads") : flag("device", "device");
  return "ddlbench probe compute" + flag("network", "model") + flag("dataset", "dataset") + flag("optimizer", "optimizer") + flag("compression", "compression") + device + flag("precision", "precision") + flag("kernels", "kernels");
}

/// What it is told apart by, as far as it says.
std::string called(const std::string& part, const Json& entry) {
  std::vector<std::string> words;
  for (const auto& key : entry_keys(part))
    if (const auto found = entry.find(key); found != entry.end() && !found->is_null()) words.push_back(fmt::format("{} {}", key, found->is_string() ? found->get<std::string>() : found->dump()));
  return words.empty() ? "an entry of no name" : join(words, ", ");
}

bool is(const Json& value, Sort sort) {
  switch (sort) {
    case Sort::number: return value.is_number();
    case Sort::number_or_null: return value.is_number() || value.is_null();
    case Sort::word: return value.is_string();
    case Sort::object: return value.is_object();
    case Sort::list: return value.is_array();
  }
  return false;
}

std::string_view words(Sort sort) {
  switch (sort) {
    case Sort::number: return "a number";
    case Sort::number_or_null: return "a number or null";
    case Sort::word: return "a word";
    case Sort::object: return "an object";
    case Sort::list: return "a list";
  }
  return "?";
}

/// The first term that is not as it should be.
struct Wrong {
  std::string term;  ///< with what it lies in: layers.forward_us
  const Json* got = nullptr;
  Sort expected = Sort::number;
};

bool find_wrong(const Json& value, const std::vector<Term>& terms, const std::string& within, Wrong& wrong) {
  for (const auto& term : terms) {
    const auto path = within + term.key;
    const auto found = value.is_object() ? value.find(term.key) : value.end();
    if (found == value.end()) {
      if (term.optional) continue;
      wrong = {path, nullptr, term.sort};
      return true;
    }
    if (!is(*found, term.sort)) {
      wrong = {path, &*found, term.sort};
      return true;
    }
    if (term.sort == Sort::object && find_wrong(*found, term.within, path + ".", wrong)) return true;
    if (term.sort == Sort::list && !term.within.empty())
      for (const auto& each : *found)
        if (find_wrong(each, term.within, path + ".", wrong)) return true;
  }
  return false;
}

}  // namespace

void require_terms(const Json& machine, const std::string& path) {
  for (const auto& [part, when, terms] : needed()) {
    const auto& all = entries(machine, part);
    for (std::size_t number = 0; number < all.size(); ++number) {
      const auto& entry = all[number];
      if (!entry.is_object()) throw Error(Code::corrupt, fmt::format("[machine] {}: {}, entry {}: got {}, expected an object", path, part, number, entry.dump().substr(0, 80)));
      if (*when != '\0' && entry.value("what", Json()) != when) continue;
      Wrong wrong;
      if (!find_wrong(entry, terms, "", wrong)) continue;
      const auto got = wrong.got == nullptr ? std::string("nothing") : wrong.got->dump().substr(0, 80);
      throw Error(wrong.got == nullptr ? Code::not_found : Code::corrupt,
                  fmt::format("[machine] {}: {}, entry {} ({}): {}; got {}, expected {}; {} measures it again", path, part, number, called(part, entry), wrong.term, got, words(wrong.expected), probe_of(part, entry)));
    }
  }
}

}  // namespace ddl
