#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddl/transport/builtin.h"
#include "ddl/transport/fabric_description.h"
#include "ddl/transport/network_namespace.h"

namespace ddl {

/// Several hosts on this machine, for tests and experiments: each is a network namespace with one interface, `eth0`, to
/// a bridge in a namespace of its own. Nothing is added to the machine's own network, and hosts reach nothing but each
/// other:
///
///     host 0         host 1         host 2        a namespace each, 10.77.x.1, .2, .3
///      eth0           eth0           eth0         tbf: what the host sends
///       |              |              |           veth pairs
///      port0          port1          port2        tbf: what the host is sent
///       +------ br0 ---+--------------+           the hub, a namespace, 10.77.x.254
///
/// Bandwidth is kept by the kernel (tc tbf, on both ends of each host's uplink) for whatever runs inside; latency only
/// by our tcp, which is told by options(). How exactly: docs/decisions, "Test fabric".
///
/// A rank's process is forked, calls enter() with its host, and makes its transport with options(). Programs of others
/// are executed after enter(), or with `ip netns exec`.
///
/// The destructor removes all of it; so does a constructor that fails half way; what a killed process left is removed
/// by the next constructor in any process. Processes still inside keep their host until they end, nobody else can reach
/// it.
class Fabric {
 public:
  /// Errors: unsupported without root or iproute2; io with the command of `ip` or `tc` that failed and its words.
  explicit Fabric(const FabricDescription& description);
  explicit Fabric(std::string_view description) : Fabric(parse_fabric(description)) {}
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  const FabricDescription& description() const { return description_; }
  int hosts() const { return description_.hosts; }
  /// The IPv4 address of a host, of 0 to hosts()-1; invariant.
  std::string address(int host) const;
  /// For `ip netns exec`.
  const std::string& namespace_name(int host) const;
  /// For enter_namespace(), valid as long as this is. Closed on exec.
  int namespace_fd(int host) const;
  /// Takes this process to a host: for a forked child, before it executes a program or starts threads. Errors: io.
  void enter(int host) const;

  /// Unplugs a host from the bridge, and plugs it in again: for experiments with failures. Errors: io.
  void set_wire(int host, bool connected) const;

  /// Where a launcher that must reach all hosts runs (mpirun): the bridge's namespace, which has an address of its own.
  const NetworkNamespace& hub() const { return hub_; }
  std::string hub_address() const;
  /// The fabric's range: `10.x.y.0/24`.
  const std::string& network() const { return network_; }

  /// `from` for a rank on a host: its address and the latency.
  TransportOptions options(int host, TransportOptions from = {}) const;

 private:
  void plug_in(int host);
  void shape(const std::string& space, const std::string& device) const;

  FabricDescription description_;
  std::string network_;
  int number_;  ///< of the fabrics that this process has made
  NetworkNamespace hub_;
  std::vector<NetworkNamespace> hosts_;
};

/// The first range of 10.77.0.0/24, 10.77.1.0/24, … that no route of `routes` (the output of `ip -o -4 route show table
/// all`) touches, a default route apart. Errors: io where all 256 are taken.
std::string free_network(std::string_view routes);

}  // namespace ddl
