#pragma once

#include <string>
#include <string_view>

#include "ddl/core/units.h"

namespace ddl {

/// A network of several hosts, as users write it: `hosts=4,bandwidth=1Gbps,latency=100us`.
struct FabricDescription {
  static constexpr int kMostHosts = 64;

  /// 2 to kMostHosts.
  int hosts = 2;
  /// Of each host's uplink, each way, in bits of Ethernet frames; 0: as fast as the machine.
  BitsPerSecond bandwidth{0};
  /// One way between any two hosts, beyond what the machine's own network code takes; 0: none.
  Seconds latency{0};

  bool operator==(const FabricDescription&) const = default;
};

/// `hosts` must be given; bandwidth is `unlimited` or at least 1 Mbps, latency at most 10 s.
/// Errors: invalid_argument: an unknown key with the nearest known, one given twice, or a value that cannot be.
FabricDescription parse_fabric(std::string_view text);

/// Of `bandwidth`, what TCP's payload can have at most: 1448 of every 1514 bytes. A full frame is 1500 bytes of IPv4
/// packet, 20 of them its header and 32 TCP's with time stamps, behind 14 of Ethernet. That is also what tc counts: no
/// preamble, check sum or gap, the further 24 bytes of a real Ethernet. 0 where the bandwidth is.
BitsPerSecond payload_bandwidth(const FabricDescription& description);

/// What no all-reduce on so many hosts can beat, each of which sends and receives at payload_bandwidth():
/// 2(P-1)/P * bytes / bandwidth; 0 s where that is unlimited.
/// Source: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
///         J. Parallel Distrib. Comput. 69(2), 2009.
Seconds all_reduce_bound(const FabricDescription& description, Bytes bytes);

/// On which of its hosts a rank is: neighbours share one where ranks outnumber hosts.
constexpr int host_of(int rank, int ranks, int hosts) { return ranks >= hosts ? rank * hosts / ranks : rank; }

/// The form that parses back to the same description.
std::string to_string(const FabricDescription& description);

}  // namespace ddl
