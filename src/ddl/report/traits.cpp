#include "ddl/report/traits.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "ddl/core/spec.h"
#include "ddl/core/text.h"

namespace ddl {
namespace {

struct Known {
  const char* key;
  const char* before;  ///< said before the value, where that does not speak for itself
};
constexpr std::array kKnown{Known{"model", ""},   Known{"dataset", ""},   Known{"strategy", ""}, Known{"workers", ""},    Known{"transport", ""},   Known{"collective", "collective "},
                            Known{"fabric", "fabric "}, Known{"batch", "batch "}, Known{"precision", ""}, Known{"kernels", "kernels "}, Known{"graphs", "graphs "}, Known{"pin", "pin "}, Known{"optimizer", "optimizer "}, Known{"accumulate", "accumulate "},
                            Known{"recompute", ""}, Known{"loader", "loader "}};

/// `cpu[threads=2]:2,cuda:1` -> `cpu[threads=2], cuda`: how many there are is told apart from it.
std::string devices(const std::string& workers) {
  std::vector<std::string> kinds;
  for (const auto& part : split_outside_brackets(workers)) {
    const auto kind = part.substr(0, part.find(':', part.rfind(']') == std::string::npos ? 0 : part.rfind(']')));
    if (kinds.empty() || kinds.back() != kind) kinds.push_back(kind);
  }
  return join(kinds, ", ");
}

bool moves_bytes(std::string_view key) { return key == "transport" || key == "collective" || key == "fabric"; }

std::string words_of(const Known& known, const Json& value) {
  const std::string key = known.key;
  if (value.is_boolean()) return (value.get<bool>() ? "" : "no ") + key;
  const auto text = as_text(value);
  if (key == "workers") return value.is_string() ? devices(text) : "";
  return text.empty() ? "" : known.before + text;
}

bool is_peer(const RunView& run) { return !run.subject.empty() && run.subject != "ddlbench"; }

std::vector<std::string> parts_of(const std::string& name) {
  auto parts = split_outside_brackets(name);
  for (auto& part : parts) part = trim(part);
  return parts;
}

/// Studies call devices with their number, `cpu[threads=2]:2`.
bool names(const RunView& view, const Trait& trait) {
  if (trait.key == "workers") return view.name.find(text_at(*view.record, {"config", "workers"})) != std::string::npos;
  const auto parts = parts_of(view.name);
  return std::find(parts.begin(), parts.end(), trait.words) != parts.end();
}

/// Repeats, and runs of the same case in several studies, are told apart by number.
void number_alike(std::vector<RunView>& views) {
  std::map<std::string, int> total, seen;
  for (const auto& view : views) ++total[view.label];
  for (auto& view : views)
    if (total[view.label] > 1) view.label += " #" + std::to_string(++seen[view.label]);
}

/// Passes are graphs of devices alone: of processors it says nothing what was asked for.
bool on_accelerators(const Json& record) {
  const auto* const ranks = find_at(record, {"ranks"});
  return ranks != nullptr && ranks->is_array() && std::any_of(ranks->begin(), ranks->end(), [](const Json& rank) { return find_at(rank, {"accelerator", "product"}) != nullptr; });
}

}  // namespace

std::vector<Trait> traits_of(const Json& record, int workers) {
  const auto subject = text_at(record, {"subject"});
  // A peer moves its bytes over a wire of its own; who is alone moves none.
  const bool moves = workers > 1 && (subject.empty() || subject == "ddlbench");
  std::vector<Trait> traits;
  for (const auto& known : kKnown)
    if (known.key == std::string_view("graphs") && !on_accelerators(record)) continue;
    else if (const auto* value = find_at(record, {"config", known.key}); value != nullptr && (moves || !moves_bytes(known.key)))
      if (auto words = words_of(known, *value); !words.empty()) traits.push_back({known.key, std::move(words)});
  return traits;
}

std::set<std::string> differing(const std::vector<const RunView*>& runs) {
  std::map<std::string, std::string> first;
  std::set<std::string> keys;
  for (const auto* run : runs)
    for (const auto& [key, words] : run->traits)
      if (const auto [place, fresh] = first.try_emplace(key, words); !fresh && place->second != words) keys.insert(key);
  return keys;
}

std::string said(const RunView& run, std::string_view key) {
  for (const auto& trait : run.traits)
    if (trait.key == key) return trait.words;
  return "";
}

void label_runs(std::vector<RunView>& views) {
  std::vector<const RunView*> all;
  for (const auto& view : views) all.push_back(&view);
  const auto told_apart = differing(all);
  for (auto& view : views) {
    view.label = view.name;
    if (is_peer(view) && view.label.find(view.subject) == std::string::npos) view.label += ", " + view.subject;
    for (const auto& trait : view.traits)
      if (told_apart.contains(trait.key) && !names(view, trait)) view.label += ", " + trait.words;
  }
  number_alike(views);
  for (auto& view : views) {
    const auto prefix = view.model + ", ";
    view.series = view.label.starts_with(prefix) ? view.label.substr(prefix.size()) : view.label;
  }
}

}  // namespace ddl
