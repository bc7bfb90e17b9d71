#include "ddl/transport/fabric_description.h"

#include <algorithm>
#include <charconv>
#include <cmath>
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
  // Slower, a frame takes longer than people wait for; faster, no machine's memory follows.
  if (rate.value < 1e6 || rate.value > 100e9) throw wrong("bandwidth", text, "unlimited or 1Mbps to 100Gbps");
  return {std::round(rate.value)};
}

Seconds parse_latency(std::string_view text) {
  const auto latency = parse_seconds(text);
  if (latency.value < 0 || latency.value > 10) throw wrong("latency", text, "0s to 10s");
  // In whole nanoseconds, which is what the clock counts: so 100us and 0.1ms are the same, and are written alike.
  return {std::round(latency.value * 1e9) / 1e9};
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

BitsPerSecond payload_bandwidth(const FabricDescription& description) {
  constexpr double kPacket = 1500, kIp = 20, kTcp = 32, kEthernet = 14;
  return {description.bandwidth.value * (kPacket - kIp - kTcp) / (kPacket + kEthernet)};
}

Seconds all_reduce_bound(const FabricDescription& description, Bytes bytes) {
  if (description.bandwidth.value <= 0) return {0};
  const double hosts = description.hosts;
  return {2 * (hosts - 1) / hosts * static_cast<double>(bytes.value) * 8 / payload_bandwidth(description).value};
}

std::string to_string(const FabricDescription& description) {
  std::string text = fmt::format("hosts={}", description.hosts);
  // {} prints the shortest number that reads back as the same.
  if (description.bandwidth.value > 0) text += fmt::format(",bandwidth={}Mbps", description.bandwidth.value / 1e6);
  if (description.latency.value > 0)
    text += fmt::format(",latency={}us", std::round(description.latency.value * 1e9) / 1e3);
  return text;
}

}  // namespace ddl
