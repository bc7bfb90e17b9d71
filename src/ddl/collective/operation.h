#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ddl/core/element.h"
#include "ddl/plan/schedule.h"
#include "ddl/transport/transport.h"

namespace ddl {

/// What a rank asks its group for. All ranks must ask for the same, but for their own factor.
struct Collective {
  Goal goal = Goal::all_reduce;
  ReduceOp op = ReduceOp::sum;
  /// A name of builtin_collectives(), for goals other than all-reduce without the goal before it, and its options:
  /// "ring[segment=64KiB]", "binomial"; or "auto", or "native", the transport's own (native.h).
  std::string_view algorithm = "auto";
  double factor = 1;  ///< of this rank's elements, in a weighted sum
  int root = 0;       ///< of goals that have one
  int peer = 0;       ///< of point_to_point: who receives from the root
};

/// Stands for the transport's own collective among the places of algorithms.
inline constexpr int kNativeAlgorithm = 255;

/// The n-th collective of a group in the words that its messages carry: what is done, in which order, on how much.
struct Operation {
  Goal goal = Goal::all_reduce;
  ReduceOp op = ReduceOp::sum;
  ElementType type = ElementType::fp32;
  int algorithm = 0;  ///< its place in builtin_collectives()
  int root = 0;
  int peer = 0;
  /// Of the group's collectives; of point_to_point, which only two ranks know of, among the messages from the one to the other,
  /// modulo 2^24.
  std::uint64_t number = 0;
  std::uint64_t elements = 0;  ///< of point_to_point modulo 2^40
  int options = 0;  ///< a digest of the algorithm's, 12 bits; 0 without any

  bool operator==(const Operation&) const = default;
};

Signature pack(const Operation& operation);
/// Takes any bits: they may come from elsewhere.
Operation unpack(const Signature& signature);
/// "#12 all-reduce (ring, sum) of 1024 fp32".
std::string to_string(const Operation& operation);
/// to_string() of what was packed.
std::string describe_operation(const Signature& signature);

}  // namespace ddl
