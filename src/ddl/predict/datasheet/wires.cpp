#include "ddl/predict/datasheet/wires.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/predict/datasheet/library.h"

namespace ddl {
namespace {

/// As files write them: small letters, spaces and underscores as hyphens.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : trim(text)) out += c == '_' || c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool says_nothing(const std::string& word) { return word.empty() || word == "-" || word == "none"; }

/// A number at the beginning; what follows it remains.
std::optional<double> take_number(std::string_view& text) {
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (failed != std::errc{} || !std::isfinite(value) || value <= 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

/// "200Gbps", "25Gb/s", "300GB/s", "100GbE", "10GigE": bytes/s. A small b is a bit, a capital B a byte.
std::optional<double> rate(std::string_view text) {
  const auto value = take_number(text);
  if (!value) return std::nullopt;
  const auto unit = trim(text);
  if (unit.empty()) return std::nullopt;
  const char prefix = static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0])));
  const double scale = prefix == 'M' ? 1e6 : prefix == 'G' ? 1e9 : prefix == 'T' ? 1e12 : 0;
  const auto rest = unit.substr(1);
  if (scale > 0 && (rest == "B/s" || rest == "Bps")) return *value * scale;
  if (scale > 0 && (rest == "b/s" || rest == "bps" || rest == "bit/s" || rest == "bit" || rest == "b" || rest == "bE" || rest == "be" || rest == "igE")) return *value * scale / 8;
  return std::nullopt;
}

/// "8x…": the count before a word; 1 where there is none.
double take_count(std::string_view& word) {
  auto rest = word;
  const auto count = take_number(rest);
  if (!count || rest.size() < 2 || (rest[0] != 'x' && rest[0] != 'X')) return 1;
  word = trim(rest.substr(1));
  return *count;
}

/// "nvlink-3.0", "pcie gen4" as nvlink3, pcie4; switches of NVLink as it; other words as they are.
std::string generation(const std::string& word) {
  if (word == "nvswitch") return "nvlink";
  for (const std::string_view family : {"nvlink", "pcie"}) {
    if (!word.starts_with(family)) continue;
    auto rest = word.substr(family.size());
    if (rest.starts_with("-")) rest.erase(0, 1);
    if (rest.starts_with("gen")) rest.erase(0, 3);
    if (rest.starts_with("-")) rest.erase(0, 1);
    for (const std::string_view end : {"x16", "-", ".0"})
      if (rest.ends_with(end)) rest.resize(rest.size() - end.size());
    return std::string(family) + rest;
  }
  return word;
}

std::string family_of(const std::string& word) {
  std::string out;
  for (const char c : word) {
    if (std::isalpha(static_cast<unsigned char>(c)) == 0) break;
    out += c;
  }
  return out;
}

std::vector<std::string> words_of(const Json& document, const char* part) {
  std::vector<std::string> known;
  for (const auto& [word, value] : document.at(part).items()) known.push_back(word);
  return known;
}

[[noreturn]] void unknown(const char* column, const std::string& got, std::vector<std::string> known, const char* rates) {
  throw Error(Code::invalid_argument, fmt::format("{}; got '{}'{}, expected one of: {}, or a rate, {}", column, got, did_you_mean(plain(got), known), join(known, " "), rates));
}

void read_inside(Wires& out, const Json& known, const std::string& text, const std::string& own) {
  const auto word = generation(plain(text));
  if (says_nothing(word) || word == own) return;
  const auto& inside = known.at("inside");
  if (inside.contains(word)) {
    out.bus = term(inside[word], "bus_bandwidth");
  } else if (word == family_of(own)) {
    return;  // "nvlink", where the profile says which
  } else {
    std::string_view rest = trim(text);
    const double count = take_count(rest);
    const auto each = rate(rest);
    if (!each) unknown("link_intra", text, words_of(known, "inside"), "300GB/s");
    out.bus = term(known, "reached") * count * *each;
    out.notes.push_back(fmt::format("link_intra '{}': taken for what a device's wires carry each way, of which collectives reach {}", text, term(known, "reached")));
  }
  out.inside = word;
  out.nvlink = word.starts_with("nvlink");
}

/// What is left of a word of a network without its family ("infiniband", "ethernet"), which may stand before or after.
std::string without_family(const Json& known, std::string_view text, std::string& family) {
  std::string out, part;
  const auto end = [&] {
    const auto word = plain(part) == "ib" ? std::string("infiniband") : plain(part);
    if (std::find(known.at("families").begin(), known.at("families").end(), word) != known.at("families").end()) family = word;
    else out += part;
    part.clear();
  };
  for (const char c : text) {
    if (part.empty() || (c != '-' && c != '_' && c != ' ')) part += c;
    else end();
  }
  end();
  return out;
}

void read_between(Wires& out, const Json& known, const std::string& text, const std::string& own) {
  if (says_nothing(plain(text))) return;
  std::string_view rest = trim(text);
  const double count = take_count(rest);
  std::string family;
  const auto word = without_family(known, rest, family);
  out.between = plain(text);
  const auto& between = known.at("between");
  if (const auto each = rate(word)) {
    out.network = count * *each;
    return;
  }
  for (const auto& name : {plain(word), "infiniband-" + plain(word)})
    if (between.contains(name)) {
      out.network = count * between[name].get<double>() * 1e9 / 8;
      return;
    }
  if (!word.empty()) unknown("link_inter", text, words_of(known, "between"), "25Gbps");
  if (own.find(family) != std::string::npos) return;
  // Another sort of network than the profile's, of any rate.
  if (!own.empty() && std::isalpha(static_cast<unsigned char>(own[0])) != 0)
    throw Error(Code::invalid_argument, fmt::format("link_inter; got '{}', expected it with its rate, {}-25Gbps: the profile's is {}", text, family, own));
  out.notes.push_back(fmt::format("link_inter '{}' names no rate; the profile's {} is taken", text, own.empty() ? "network" : own));
}

}  // namespace

double wires_of_node(const std::string& word) {
  std::string_view rest = trim(word);
  return std::max(1.0, take_count(rest));
}

Wires wires_of(const Json& machine, const std::string& inside, const std::string& between) {
  const auto node = machine.contains("node") && machine["node"].is_object() ? machine["node"] : Json::object();
  const auto link = node.value("link", std::string());
  const auto known = find_stack("wires");
  Wires out;
  out.nvlink = link.starts_with("nvlink");
  read_inside(out, known, inside, link);
  read_between(out, known, between, node.value("network", std::string()));
  return out;
}

std::vector<std::string> join(Gpu& gpu, const Wires& wires, int devices) {
  std::vector<std::string> others;
  const auto take = [&](double& own, double told, bool used, const char* what) {
    if (told <= 0) return;
    if (used && std::abs(told / own - 1) > 0.01)
      others.push_back(fmt::format("{}: {:.4g} GB/s, not the {:.4g} of the profile of {}; nothing was fitted over such wires", what, told * 1e-9, own * 1e-9, gpu.name));
    own = told;
  };
  take(gpu.bus, wires.bus, devices > 1, "wires in a node");
  take(gpu.network, wires.network / gpu.per_node, devices > gpu.per_node, "wires between nodes, of each device");
  if (wires.bus > 0) gpu.link = wires.inside;
  if (wires.network > 0) gpu.wires = wires.between;
  return others;
}

}  // namespace ddl
