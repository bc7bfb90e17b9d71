#include "ddl/transport/fabric_description.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/core/text.h"

namespace ddl {
namespace {

const std::vector<std::string> kKeys{"hosts", "bandwidth", "latency"};

Error wrong(std::string_view what, std::string_view got, std::string_view expected) {
  return Error(Code::invalid_argument, fmt::format("[fabric] {}; got '{}', expected {}", what, got, expected));
}

int parse_hosts(std::string_view text) {
  int hosts = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), hosts);
  if (error != std::errc{} || end != text.data() + text.size() || hosts < 2 || hosts > FabricDescription::kMostHosts)
    throw wrong("hosts", text, fmt::format("2 to {}", FabricDescription::kMostHosts));
  return hosts;
}

BitsPerSecond parse_bandwidth(std::string_view text) {
  if (text == "unlimited") return {0};
  const auto rate = parse_bits_per_second(text);
  // Slower, one frame takes longer than the queue's 50 ms; faster, tc counts by halves of its clock's ticks.
  if (rate.value < 1e6 || rate.value > 100e9) throw wrong("bandwidth", text, "unlimited or 1Mbps to 100Gbps");
  return rate;
}

Seconds parse_latency(std::string_view text) {
  const auto latency = parse_seconds(text);
  if (latency.value < 0 || latency.value > 10) throw wrong("latency", text, "0s to 10s");
  return latency;
}

}  // namespace

FabricDescription parse_fabric(std::string_view text) {
  FabricDescription description;
  std::vector<std::string> given;
  for (const auto& part : split(text, ',')) {
    const auto equals = part.find('=');
    const std::string key(trim(std::string_view(part).substr(0, equals)));
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())
      throw Error(Code::invalid_argument, fmt::format("[fabric] unknown key '{}'{}; expected {}", key,
                                                      did_you_mean(key, kKeys), "hosts=N,bandwidth=RATE,latency=TIME"));
    if (equals == std::string::npos) throw wrong("a key without a value", part, key + "=VALUE");
    if (std::find(given.begin(), given.end(), key) != given.end()) throw wrong("a key given twice", text, "each once");
    given.push_back(key);
    const auto value = trim(std::string_view(part).substr(equals + 1));
    if (key == "hosts") description.hosts = parse_hosts(value);
    if (key == "bandwidth") description.bandwidth = parse_bandwidth(value);
    if (key == "latency") description.latency = parse_latency(value);
  }
  if (std::find(given.begin(), given.end(), "hosts") == given.end()) throw wrong("no number of hosts", text, "hosts=N");
  return description;
}

std::string to_string(const FabricDescription& description) {
  std::string text = fmt::format("hosts={}", description.hosts);
  // {} prints the shortest number that reads back as the same.
  if (description.bandwidth.value > 0) text += fmt::format(",bandwidth={}Mbps", description.bandwidth.value / 1e6);
  if (description.latency.value > 0) text += fmt::format(",latency={}us", description.latency.value * 1e6);
  return text;
}

}  // namespace ddl
