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

/// The form that parses back to the same description.
std::string to_string(const FabricDescription& description);

}  // namespace ddl
