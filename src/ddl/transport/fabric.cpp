#include "ddl/transport/fabric.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <sstream>

#include "ddl/core/error.h"
#include "ddl/core/text.h"

namespace ddl {
namespace {

constexpr const char* kBridge = "br0";
constexpr const char* kUplink = "eth0";
constexpr int kHubNumber = 254;

std::string port_of(int host) { return fmt::format("port{}", host); }

std::string in_network(const std::string& network, int number) {
  return network.substr(0, network.rfind('.') + 1) + std::to_string(number);
}

int next_number() {
  static std::atomic<int> next{0};
  return next++;
}

struct Range {
  std::uint32_t first = 0, last = 0;
};

/// `192.0.2.0/24` or `192.0.2.1`; empty for anything else.
std::optional<Range> parse_range(std::string_view text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  std::uint32_t address = 0;
  for (int part = 0; part < 4; ++part) {
    unsigned number = 0;
    const auto read = std::from_chars(at, end, number);
    if (read.ec != std::errc{} || number > 255) return std::nullopt;
    address = address << 8 | number;
    at = read.ptr;
    if (part < 3 && (at == end || *at++ != '.')) return std::nullopt;
  }
  unsigned bits = 32;
  if (at != end && (*at != '/' || std::from_chars(at + 1, end, bits).ec != std::errc{} || bits > 32))
    return std::nullopt;
  const std::uint32_t inside = bits == 32 ? 0 : ~std::uint32_t{0} >> bits;
  return Range{address & ~inside, address | inside};
}

}  // namespace

std::string free_network(std::string_view routes) {
  std::vector<Range> taken;
  std::istringstream lines{std::string(routes)};
  for (std::string line; std::getline(lines, line);) {
    // The destination is the first word, or the second after a kind of route such as `local`.
    std::istringstream words(line);
    std::string word;
    for (int i = 0; i < 2 && words >> word; ++i)
      if (const auto range = parse_range(word)) {
        taken.push_back(*range);
        break;
      }
  }
  for (int third = 0; third < 256; ++third) {
    const auto network = fmt::format("10.77.{}.0/24", third);
    const auto ours = *parse_range(network);
    if (std::none_of(taken.begin(), taken.end(),
                     [&](const Range& r) { return r.first <= ours.last && ours.first <= r.last; }))
      return network;
  }
  throw Error(Code::io,
              "[fabric] no free range of addresses; got routes into all of 10.77.0.0/16, expected one /24 without");
}

Fabric::Fabric(const FabricDescription& description)
    : description_((require_namespaces(), sweep_namespaces(), description)),
      network_(free_network(run_iproute2({"ip", "-o", "-4", "route", "show", "table", "all"}))),
      number_(next_number()),
      hub_(fmt::format("{}-hub", number_)) {
  const auto& hub = hub_.name();
  run_iproute2({"ip", "-n", hub, "link", "set", "lo", "up"});
  run_iproute2({"ip", "-n", hub, "link", "add", kBridge, "type", "bridge", "stp_state", "0", "mcast_snooping", "0"});
  run_iproute2({"ip", "-n", hub, "addr", "add", hub_address() + "/24", "dev", kBridge});
  run_iproute2({"ip", "-n", hub, "link", "set", kBridge, "addrgenmode", "none", "up"});
  hosts_.reserve(static_cast<std::size_t>(hosts()));
  for (int host = 0; host < hosts(); ++host) plug_in(host);
}

Fabric::~Fabric() = default;

void Fabric::plug_in(int host) {
  hosts_.emplace_back(fmt::format("{}-host{}", number_, host));
  const auto& hub = hub_.name();
  const auto& space = namespace_name(host);
  const auto port = port_of(host);
  // Both ends are born where they stay: not even for a moment is one in the machine's own network.
  run_iproute2({"ip", "-n", hub, "link", "add", port, "type", "veth", "peer", "name", kUplink, "netns", space});
  run_iproute2({"ip", "-n", space, "addr", "add", address(host) + "/24", "dev", kUplink});
  // The machine's own choice comes along into a namespace. It may be BBR, which takes a bucket's tokens for bandwidth
  // and then stays below it; beside it, Linux lets a namespace choose Reno only.
  set_in_namespace(hosts_.back().fd(), "/proc/sys/net/ipv4/tcp_congestion_control", "reno");
  shape(space, kUplink);
  shape(hub, port);
  // Without addresses of IPv6 there is no traffic but what the ranks send.
  run_iproute2({"ip", "-n", space, "link", "set", "lo", "up"});
  run_iproute2({"ip", "-n", space, "link", "set", kUplink, "addrgenmode", "none", "up"});
  run_iproute2({"ip", "-n", hub, "link", "set", port, "master", kBridge, "addrgenmode", "none", "up"});
}

void Fabric::shape(const std::string& space, const std::string& device) const {
  if (description_.bandwidth.value <= 0) return;
  const double rate = description_.bandwidth.value;
  // docs/decisions has what was measured with other lengths of these.
  constexpr double kPacketTime =
      262e-6;                       // of a packet on the wire: longer are less like a wire, shorter cost more CPU time
  constexpr double kCredit = 1e-3;  // what a timer that fires late may make up for
  constexpr double kPeak = 1.1;     // how fast it may, and with it whoever comes after a pause
  constexpr double kQueue = 50e-3;
  constexpr double kFrame = 1514;
  const double packet = std::clamp(rate / 8 * kPacketTime, 2 * kFrame, 65536.0);
  // tc counts the headers of every frame, a packet of the kernel's has them once.
  const double counted = packet * 1.06 + 128;
  const auto whole = [](double value) { return fmt::format("{:.0f}", value); };
  run_iproute2({"ip", "-n", space, "link", "set", device, "gso_max_size", whole(packet)});
  run_iproute2({"tc", "-n", space, "qdisc", "add", "dev", device, "root", "tbf", "rate", whole(rate) + "bit", "burst",
                whole(std::max(counted, rate / 8 * kCredit)), "peakrate", whole(rate * kPeak) + "bit", "mtu",
                whole(counted), "limit", whole(std::max(65536.0, rate / 8 * kQueue) + counted)});
}

std::string Fabric::address(int host) const {
  invariant(host >= 0 && host < hosts(), "a host of the fabric");
  return in_network(network_, host + 1);
}

std::string Fabric::hub_address() const { return in_network(network_, kHubNumber); }

const std::string& Fabric::namespace_name(int host) const {
  invariant(host >= 0 && host < hosts(), "a host of the fabric");
  return hosts_[static_cast<std::size_t>(host)].name();
}

int Fabric::namespace_fd(int host) const {
  invariant(host >= 0 && host < hosts(), "a host of the fabric");
  return hosts_[static_cast<std::size_t>(host)].fd();
}

void Fabric::enter(int host) const { enter_namespace(namespace_fd(host)); }

void Fabric::set_wire(int host, bool connected) const {
  invariant(host >= 0 && host < hosts(), "a host of the fabric");
  run_iproute2({"ip", "-n", hub_.name(), "link", "set", port_of(host), connected ? "up" : "down"});
}

TransportOptions Fabric::options(int host, TransportOptions from) const {
  from.host = address(host);
  from.latency = description_.latency;
  return from;
}

}  // namespace ddl
