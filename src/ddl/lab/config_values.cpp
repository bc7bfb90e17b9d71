#include "ddl/lab/config_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>

#include "ddl/core/text.h"
#include "ddl/core/spec.h"
#include "ddl/lab/config.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/machine.h"

namespace ddl {
namespace {

constexpr std::int64_t kMostWorkers = 131072;  ///< that are predicted; fewer run (check_job())
constexpr std::int64_t kMostThreads = 1024;

[[noreturn]] void refuse(std::string_view what, std::string_view text, std::string_view expected) {
  throw Error(Code::invalid_argument, fmt::format("{}; got {}, expected {}", what, in_quotes(text), expected));
}

/// Bytes of the well-formed UTF-8 sequence that `text` starts with; 0 where it is broken.
std::size_t sequence(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  // Overlong forms, surrogates, and beyond U+10FFFF: the second byte tells.
  if (first == 0xE0 && byte(1) < 0xA0) return 0;
  if (first == 0xED && byte(1) > 0x9F) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

bool is_control(std::string_view piece) {
  const auto first = static_cast<unsigned char>(piece[0]);
  if (piece.size() == 1) return first < 0x20 || first == 0x7F;
  return piece.size() == 2 && first == 0xC2 && static_cast<unsigned char>(piece[1]) < 0xA0;  // the C1 controls
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string shown = "'";
  for (std::size_t i = 0; i < text.size();) {
    if (i >= kMost) {
      shown += "…";
      break;
    }
    const std::size_t length = sequence(text.substr(i));
    if (length == 0 || is_control(text.substr(i, length))) {
      const std::size_t count = std::max<std::size_t>(length, 1);
      for (std::size_t k = 0; k < count; ++k)
        shown += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(text[i + k])));
      i += count;
    } else {
      shown += text.substr(i, length);
      i += length;
    }
  }
  return shown + "'";
}

std::string parse_text(std::string_view text) {
  if (text.size() > 4096) refuse("too long", text, "at most 4096 bytes");
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = sequence(text.substr(i));
    if (length == 0) refuse("not UTF-8", text, "printable text");
    if (is_control(text.substr(i, length))) refuse("control character", text, "printable text");
    i += length;
  }
  return std::string(text);
}

std::int64_t parse_integer(std::string_view text, std::int64_t low, std::int64_t high) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = end == text.data() + text.size() && !text.empty();
  if (whole && error == std::errc{} && value >= low && value <= high) return value;
  refuse(whole ? "out of range" : "wrong type", text, fmt::format("an integer from {} to {}", low, high));
}

double parse_number(std::string_view text, double low, double high) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = end == text.data() + text.size() && !text.empty() && std::isfinite(value);
  if (whole && error == std::errc{} && value >= low && value <= high) return value;
  refuse(whole ? "out of range" : "wrong type", text, fmt::format("a number from {} to {}", low, high));
}

bool parse_boolean(std::string_view text) {
  for (const auto* yes : {"true", "on", "yes", "True", "TRUE", "On", "ON", "Yes", "YES"})
    if (text == yes) return true;
  for (const auto* no : {"false", "off", "no", "False", "FALSE", "Off", "OFF", "No", "NO"})
    if (text == no) return false;
  refuse("wrong type", text, "true or false");
}

std::string parse_choice(std::string_view text, const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return std::string(text);
  throw Error(Code::invalid_argument, fmt::format("unknown choice; got {}{}, expected one of: {}", in_quotes(text),
                                                  did_you_mean(text.substr(0, 80), choices), join(choices, " ")));
}

namespace {

constexpr std::string_view kEmulated = "emulated:";

/// `emulated:V100[slow=2]` -> emulated:v100, by the name under which its profile is found, or the path of a file. Errors: those of find_machine().
WorkerSpec emulated_worker(const Spec& spec) {
  require_options(spec, {"slow", "threads", "device"});
  WorkerSpec worker{spec.name};
  const auto name = spec.name.substr(kEmulated.size());
  const auto path = machine_file(name);
  const auto profile = read_machine(path);
  if (const auto threads = spec.options.find("threads"); threads != spec.options.end() && !is_measured(profile))
    throw Error(Code::invalid_argument, fmt::format("{} is a datasheet, of all that a device has; got threads={}, expected none, or a profile that ddlbench probe compute --threads {} wrote", profile.value("name", name), threads->second, threads->second));
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(name, ignored)) worker.device = std::string(kEmulated) + std::filesystem::path(path).stem().string();
  if (const auto device = spec.options.find("device"); device != spec.options.end()) {
    if (!is_measured(profile)) throw Error(Code::invalid_argument, fmt::format("{} is a datasheet, of one device; got device={}, expected none, or a profile that ddlbench probe compute wrote", profile.value("name", name), device->second));
    worker.stands_for = parse_choice(device->second, {"cpu", "cuda"});
  }
  if (const auto slow = spec.options.find("slow"); slow != spec.options.end()) worker.slow = parse_number(slow->second, 1e-3, 1e3);
  return worker;
}

}  // namespace

Spec parse_strategy(const std::string& text) {
  auto spec = parse_spec(text);
  if (spec.name != "heterogeneous") return spec;
  if (!spec.options.contains("shares"))
    throw Error(Code::invalid_argument, fmt::format("[heterogeneous] in what proportions workers share the batch; got no shares in '{}', expected a number for each worker, as heterogeneous[shares=3/1] (ddlbench advise finds the fastest)", text));
  spec.name = "data";
  return spec;
}

std::vector<WorkerSpec> parse_workers(const std::string& text) {
  static constexpr std::string_view kForm = "a number, or devices as in cpu:2,cuda:1, cpu[threads=2]:2, cpu[slow=2]:1, cuda[index=0]:2 or emulated:v100:8";
  std::vector<WorkerSpec> workers;
  std::map<std::string, int> next_of;
  for (const auto& part : split_outside_brackets(text)) {
    std::string_view device = trim(part);
    std::int64_t count = 1;
    const auto digits = [](std::string_view word) { return word.find_first_not_of("0123456789") == std::string_view::npos; };
    // That after `emulated` is no number's.
    const bool emulated = device.starts_with(kEmulated) || device == "emulated";
    auto colon = device.rfind(':');
    if (emulated && colon != std::string_view::npos && (colon < kEmulated.size() || !digits(device.substr(colon + 1)))) colon = std::string_view::npos;
    if (!device.empty() && digits(device)) {
      count = parse_integer(device, 1, kMostWorkers);
      device = "cpu";
    } else if (colon != std::string_view::npos && device.find(']', colon) == std::string_view::npos) {
      const auto number = device.substr(colon + 1);
      if (number.empty() || !digits(number)) refuse("no number of workers after ':'", text, kForm);
      count = parse_integer(number, 1, kMostWorkers);
      device = device.substr(0, colon);
    }
    if (device.empty()) refuse("no device", text, kForm);
    const Spec spec = parse_spec(device);
    if (emulated && spec.name.size() <= kEmulated.size()) refuse("no profile after 'emulated:'", text, "a machine's name (ddlbench list machines) or file, as in emulated:v100:8");
    if (spec.name != "cpu" && spec.name != "cuda" && !emulated) {
      const std::vector<std::string> known{"cpu", "cuda", "emulated"};
      refuse(fmt::format("unknown device {}{}", in_quotes(spec.name), did_you_mean(spec.name, known)), text, kForm);
    }
    if (!emulated) require_options(spec, spec.name == "cuda" ? std::vector<std::string>{"threads", "index"} : std::vector<std::string>{"threads", "slow"});
    auto worker = emulated ? emulated_worker(spec) : WorkerSpec{spec.name};
    // A processor can be made slower than it is.
    if (const auto slow = spec.options.find("slow"); !emulated && slow != spec.options.end()) worker.slow = parse_number(slow->second, 1, 1e3);
    std::optional<std::int64_t> index;
    if (const auto given = spec.options.find("index"); given != spec.options.end()) index = parse_integer(given->second, 0, kMostWorkers - 1);
    if (const auto threads = spec.options.find("threads"); threads != spec.options.end())
      worker.threads = static_cast<int>(parse_integer(threads->second, 1, kMostThreads));
    if (static_cast<std::int64_t>(workers.size()) + count > kMostWorkers)
      refuse("too many workers", text, fmt::format("at most {}", kMostWorkers));
    for (std::int64_t i = 0; i < count; ++i) {
      workers.push_back(worker);
      if (spec.name == "cuda") workers.back().device = fmt::format("{}:{}", spec.name, index ? *index : next_of[spec.name]++);
    }
  }
  return workers;
}

std::string to_string(const std::vector<WorkerSpec>& workers) {
  std::map<std::string, int> next_of;
  // Devices that come in order need no index, as parse_workers() counts them.
  const auto kind = [&](const WorkerSpec& worker) {
    Spec spec{worker.emulated() ? worker.device : worker.device.substr(0, worker.device.find(':')), {}};
    if (worker.threads != 1) spec.options["threads"] = std::to_string(worker.threads);
    if (!worker.stands_for.empty()) spec.options["device"] = worker.stands_for;
    if (worker.slow != 1) spec.options["slow"] = fmt::format("{}", worker.slow);
    if (spec.name == "cpu" || worker.emulated()) return to_string(spec);
    if (worker.device == fmt::format("{}:{}", spec.name, next_of[spec.name]))
      ++next_of[spec.name];
    else
      spec.options["index"] = worker.device.substr(spec.name.size() + 1);
    return to_string(spec);
  };
  std::vector<std::pair<std::string, int>> runs;
  for (const auto& worker : workers) {
    const auto name = kind(worker);
    if (runs.empty() || runs.back().first != name)
      runs.emplace_back(name, 1);
    else
      ++runs.back().second;
  }
  std::vector<std::string> parts;
  for (const auto& [name, count] : runs) parts.push_back(fmt::format("{}:{}", name, count));
  return join(parts, ",");
}

Error prefixed(const std::string& prefix, const Error& error) {
  return Error(error.code(), prefix + ": " + error.what(), error.where());
}

}  // namespace ddl
