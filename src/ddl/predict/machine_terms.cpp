#include "ddl/predict/machine_terms.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/predict/machine.h"

namespace ddl {
namespace {

enum class Sort { number, above_zero, number_or_null, above_zero_or_null, correlation, word, object, object_or_null, list, time };

struct Term {
  const char* key;
  Sort sort = Sort::number;
  std::vector<Term> within = {};  ///< of an object, or of each of a list
  bool optional = false;
  const char* beside = "";        ///< a key of the entry: without it this one is optional, too
};

/// What each entry of a part needs. `when`: the word of `what` that it is for; empty: any.
struct Needed {
  const char* part;
  const char* when;
  std::vector<Term> terms;
};

const std::vector<Needed>& needed() {
  static const std::vector<Term> pieces{{"from_bytes"}, {"to_bytes"}, {"alpha_us"}, {"overhead_us"}, {"beta_ns_per_byte"}, {"copy_ns_per_byte"}, {"gamma_ns_per_byte"}, {"local_ns_per_byte"}};
  static const std::vector<Term> points{{"collective", Sort::word}, {"algorithm", Sort::word}, {"points", Sort::list, {{"bytes"}, {"time_us"}}}};
  static const std::vector<Term> layers{{"sort", Sort::word}, {"family", Sort::word}, {"flops", Sort::number_or_null}, {"elements", Sort::number_or_null}, {"parameters", Sort::number_or_null}, {"count", Sort::number_or_null},
                                        {"forward_us", Sort::number_or_null}, {"backward_input_us", Sort::number_or_null}, {"backward_weight_us", Sort::number_or_null}, {"spread", Sort::number_or_null}};
  // Where there are none it says why, and nothing else.
  static const std::vector<Term> graphs{{"correction", Sort::above_zero, {}, false, "steps"}, {"load_ms", Sort::number, {}, false, "steps"}, {"copy_ms", Sort::number, {}, false, "steps"}, {"update_ms", Sort::number, {}, false, "steps"}};
  static const auto history = [](const char* key) { return Term{"history", Sort::list, {{key}, {"measured", Sort::word, {}, true}, {"build", Sort::word, {}, true}}, true}; };
  static const std::vector<Needed> all{
      {"communication", "",
       {{"transport", Sort::word}, {"ranks", Sort::above_zero}, {"memory", Sort::word}, {"rounds", Sort::list, pieces}, {"one_shot", Sort::list, pieces},
        {"best", Sort::list, {{"collective", Sort::word}, {"from_bytes"}, {"to_bytes"}, {"algorithm", Sort::word}}},
        {"native", Sort::list, points, true},
        {"timed", Sort::list, points, true}}},
      {"compute", "",
       {{"network", Sort::word}, {"batch", Sort::above_zero}, {"correction", Sort::above_zero}, {"step", Sort::object, {{"load_ms"}, {"copy_ms"}}}, {"loader_us"}, {"layers", Sort::list, layers},
        {"parts", Sort::list, {{"layers", Sort::list, layers}, {"pass_ms", Sort::number, {}, true}}, true}, {"pass_ms", Sort::number, {}, true}, {"parameter_bytes", Sort::number, {}, true}, {"update_us", Sort::number, {}, false, "parameter_bytes"}, {"waited", Sort::number_or_null, {}, true}, {"graphs", Sort::object_or_null, graphs, true}, history("pass_ms")}},
      {"optimizer", "", {{"bytes", Sort::above_zero}, {"update_us"}}},
      {"memory", "", {{"what", Sort::word}, {"bytes", Sort::above_zero}, {"bytes_per_s", Sort::above_zero}}},
      {"memory", "triad", {{"threads", Sort::above_zero}}},
      {"compression", "", {{"compression", Sort::word}, {"ranks", Sort::above_zero}, {"bytes", Sort::above_zero}, {"own_us"}}},
      {"contention", "", {{"what", Sort::word}, {"workers", Sort::above_zero}, {"slowdown", Sort::above_zero}, history("slowdown")}},
      {"contention", "steps", {{"network", Sort::word}, {"strategy", Sort::word, {}, true}}},
      {"contention", "collective", {{"collective_slowdown", Sort::above_zero}}},
      {"jitter", "", {{"network", Sort::word}, {"median_ms"}, {"p95_ms"}, {"sigma_log"}, {"correlation", Sort::correlation, {}, true}}},
      {"launch", "", {{"harness_us", Sort::number_or_null, {}, true}, {"emulated_us", Sort::number_or_null, {}, true}, {"emulated_step_ms", Sort::above_zero_or_null, {}, true}, {"memory_bytes", Sort::above_zero, {}, true}}},
      {"storage", "", {{"bytes_per_s", Sort::above_zero}, {"read_us", Sort::number, {}, true}}},
      {"loader", "", {{"dataset", Sort::word}, {"sample_us"}}}};
  return all;
}

/// The probe that measures an entry again, and puts it in this one's place; whose place nothing takes since it does not say what it is of goes first.
std::string probe_of(const std::string& part, const Json& entry) {
  const auto flag = [&](const char* key, const char* name) {
    const auto found = entry.find(key);
    if (found == entry.end() || found->is_null() || (found->is_string() && found->get<std::string>().empty())) return std::string();
    return fmt::format(" --{} {}", name, found->is_string() ? found->get<std::string>() : found->dump());
  };
  if (part == "communication") return "ddlbench probe comm" + flag("transport", "transport") + flag("ranks", "ranks") + (entry.value("memory", Json("own")) == "own" ? "" : flag("memory", "memory"));
  if (part == "storage") return "ddlbench probe storage" + flag("folder", "data");
  if (part == "loader") return "ddlbench probe loader" + flag("dataset", "dataset") + (entry.value("synthetic", Json()) == true ? " --synthetic" : "");
  const auto device = entry.value("device", Json("cpu")) == "cpu" ? flag("threads", "threads") : flag("device", "device");
  return "ddlbench probe compute" + flag("network", "model") + flag("dataset", "dataset") + flag("batch", "batch") + flag("optimizer", "optimizer") + flag("compression", "compression") + device + flag("precision", "precision") + flag("kernels", "kernels") +
         (entry.value("strategy", Json()).is_string() && entry.value("workers", Json()).is_number() ? fmt::format(" --parts '{}:{}'", entry["strategy"].get<std::string>(), entry["workers"].dump()) : "");
}

/// What it is told apart by, as far as it says.
std::string called(const std::string& part, const Json& entry) {
  std::vector<std::string> words;
  for (const auto& key : entry_keys(part))
    if (const auto found = entry.find(key); found != entry.end() && !found->is_null()) words.push_back(fmt::format("{} {}", key, found->is_string() ? found->get<std::string>() : found->dump()));
  return words.empty() ? "an entry of no name" : join(words, ", ");
}

/// UTC in ISO 8601, or the beginning of it from a day on: of two entries the later by its words counts.
bool is_time(std::string_view text) {
  static const std::string day = "0000-00-00", second = day + "T00:00:00";
  std::string form(text);
  std::replace_if(form.begin(), form.end(), [](char each) { return each >= '0' && each <= '9'; }, '0');
  const bool has_fraction = form.starts_with(second + ".0") && form.find_first_not_of('0', second.size() + 1) == form.size() - 1 && form.back() == 'Z';
  if (form != day && form != second + "Z" && !has_fraction) return false;
  const auto within = [&](std::size_t from, std::string_view least, std::string_view most) { return text.size() < from + 2 || (text.substr(from, 2) >= least && text.substr(from, 2) <= most); };
  return within(5, "01", "12") && within(8, "01", "31") && within(11, "00", "23") && within(14, "00", "59") && within(17, "00", "60");
}

bool is(const Json& value, Sort sort) {
  switch (sort) {
    case Sort::number: return value.is_number() && value.get<double>() >= 0;
    case Sort::above_zero: return value.is_number() && value.get<double>() > 0;
    case Sort::number_or_null: return value.is_null() || is(value, Sort::number);
    case Sort::above_zero_or_null: return value.is_null() || is(value, Sort::above_zero);
    case Sort::correlation: return value.is_null() || (value.is_number() && std::abs(value.get<double>()) <= 1);
    case Sort::word: return value.is_string();
    case Sort::object: return value.is_object();
    case Sort::object_or_null: return value.is_null() || value.is_object();
    case Sort::list: return value.is_array();
    case Sort::time: return value.is_string() && is_time(value.get_ref<const std::string&>());
  }
  return false;
}

std::string_view words(Sort sort) {
  switch (sort) {
    case Sort::number: return "a number that is not negative";
    case Sort::above_zero: return "a number above 0";
    case Sort::number_or_null: return "a number that is not negative, or null";
    case Sort::above_zero_or_null: return "a number above 0, or null";
    case Sort::correlation: return "a number from -1 to 1, or null";
    case Sort::word: return "a word";
    case Sort::object: return "an object";
    case Sort::object_or_null: return "an object, or null";
    case Sort::list: return "a list";
    case Sort::time: return "a time as 2026-11-21T10:15:02.123Z";
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
      if (term.optional || (*term.beside != '\0' && !value.contains(term.beside))) continue;
      wrong = {path, nullptr, term.sort};
      return true;
    }
    if (!is(*found, term.sort)) {
      wrong = {path, &*found, term.sort};
      return true;
    }
    if (found->is_object() && find_wrong(*found, term.within, path + ".", wrong)) return true;
    if (term.sort == Sort::list && !term.within.empty())
      for (const auto& each : *found)
        if (find_wrong(each, term.within, path + ".", wrong)) return true;
  }
  return false;
}

/// What a datasheet says of devices and nodes, as far as it says it: whether a term is needed is asked where it is.
void require_datasheet(const Json& machine, const std::string& path) {
  const auto check = [&](const Json& within, const std::string& key, const std::string& called, Sort sort = Sort::above_zero) {
    if (const auto found = within.find(key); found != within.end() && !is(*found, sort)) throw Error(Code::corrupt, fmt::format("[machine] {}: {}; got {}, expected {}", path, called, found->dump().substr(0, 80), words(sort)));
  };
  if (const auto device = machine.find("device"); device != machine.end() && device->is_object()) {
    // What a processor has none of is 0 there.
    for (const auto* key : {"watts", "compute_capability", "operator_us"}) check(*device, key, fmt::format("device.{}", key), Sort::number);
    if (const auto does = device->find("multiplies_bf16"); does != device->end() && !does->is_boolean())
      throw Error(Code::corrupt, fmt::format("[machine] {}: device.multiplies_bf16; got {}, expected true or false", path, does->dump().substr(0, 80)));
  }
  for (const auto& [part, keys] : {std::pair("device", std::vector<const char*>{"memory_bytes", "cache_bytes", "memory_bandwidth", "multiprocessors", "loader_images_per_s"}),
                                   {"node", {"devices", "count", "bus_bandwidth", "network_bandwidth_per_device"}}})
    if (const auto found = machine.find(part); found != machine.end()) {
      if (!found->is_object()) throw Error(Code::corrupt, fmt::format("[machine] {}: {}; got {}, expected an object", path, part, found->dump().substr(0, 80)));
      for (const auto* key : keys) check(*found, key, fmt::format("{}.{}", part, key));
      if (const auto peaks = found->find("peak_flops"); peaks != found->end()) {
        if (!peaks->is_object()) throw Error(Code::corrupt, fmt::format("[machine] {}: {}.peak_flops; got {}, expected an object, by precision", path, part, peaks->dump().substr(0, 80)));
        for (const auto& [precision, value] : peaks->items()) check(*peaks, precision, fmt::format("{}.peak_flops.{}", part, precision));
      }
    }
}

/// Each is measured again in the place of the earlier: of two predictions would take some mean.
void require_each_once(const Json& machine, const std::string& path) {
  for (const auto& [part, keys] : parts_of_machines()) {
    const auto& all = entries(machine, part);
    std::map<std::vector<Json>, std::size_t> known;
    for (std::size_t number = 0; number < all.size(); ++number) {
      if (!all[number].is_object()) continue;
      std::vector<Json> own;
      for (const auto& key : keys) own.push_back(all[number].value(key, Json()));
      if (const auto [first, fresh] = known.try_emplace(own, number); !fresh)
        throw Error(Code::corrupt, fmt::format("[machine] {}: {}, entries {} and {} are of the same ({}); expected one of them", path, part, first->second, number, called(part, all[number])));
    }
  }
}

}  // namespace

void require_terms(const Json& machine, const std::string& path) {
  require_datasheet(machine, path);
  if (is_measured(machine)) {
    // How many may compute at once: without it each would have a core of its own.
    const auto cpu = machine.find("cpu");
    const auto cores = cpu != machine.end() && cpu->is_object() ? cpu->value("usable_cores", Json()) : Json();
    if (!is(cores, Sort::above_zero))
      throw Error(cores.is_null() ? Code::not_found : Code::corrupt,
                  fmt::format("[machine] {}: cpu.usable_cores; got {}, expected {}: how many cores what was measured had (any ddlbench probe into a new file writes it)", path, cores.is_null() ? "nothing" : cores.dump(), words(Sort::above_zero)));
  }
  require_each_once(machine, path);
  static const std::vector<Term> of_any{{"device", Sort::word, {}, true}, {"measured", Sort::time, {}, true}};
  for (const auto& [part, when, terms] : needed()) {
    const auto& all = entries(machine, part);
    for (std::size_t number = 0; number < all.size(); ++number) {
      const auto& entry = all[number];
      if (!entry.is_object()) throw Error(Code::corrupt, fmt::format("[machine] {}: {}, entry {}: got {}, expected an object", path, part, number, entry.dump().substr(0, 80)));
      if (*when != '\0' && entry.value("what", Json()) != when) continue;
      Wrong wrong;
      if (!find_wrong(entry, of_any, "", wrong) && !find_wrong(entry, terms, "", wrong)) continue;
      const auto& keys = entry_keys(part);
      const bool nameless = std::find(keys.begin(), keys.end(), wrong.term) != keys.end();
      const auto got = wrong.got == nullptr ? std::string("nothing") : wrong.got->dump().substr(0, 80);
      throw Error(wrong.got == nullptr ? Code::not_found : Code::corrupt,
                  fmt::format("[machine] {}: {}, entry {} ({}): {}; got {}, expected {}; {}{} measures it again", path, part, number, called(part, entry), wrong.term, got, words(wrong.expected), nameless ? "take the entry out, and " : "", probe_of(part, entry)));
    }
  }
}

}  // namespace ddl
