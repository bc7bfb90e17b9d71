#pragma once

#include <cstddef>
#include <vector>

#include "ddl/core/element.h"
#include "ddl/core/units.h"
#include "ddl/transport/transport.h"

namespace ddl {

/// A collective that a library under a transport has of its own. Where ranks have parts of the buffer, `counts` elements of
/// each, one after the other, are given by rank.
struct NativeCall {
  enum class Kind : std::uint8_t { all_reduce, broadcast, barrier, reduce, reduce_scatter, all_gather, gather, scatter, all_to_all };
  Kind kind = Kind::barrier;
  ReduceOp op = ReduceOp::sum;  ///< sum, max or min; where the library scales() also average and weighted_sum
  double factor = 1;            ///< of this rank's elements, in a weighted sum
  ElementType type = ElementType::fp32;
  int root = 0;
  std::byte* data = nullptr;  ///< in place, as Goal says
  std::size_t elements = 0;
  std::vector<std::size_t> counts = {};
};

/// The optional power of a transport whose library has collectives. Results may differ in their last bits from run to run.
class NativeCollectives {
 public:
  /// For element types that the library cannot reduce: inout[i] = op(inout[i], in[i]).
  using Reducer = void (*)(ReduceOp op, ElementType type, std::byte* inout, const std::byte* in, std::size_t elements);

  virtual ~NativeCollectives() = default;
  /// Whether the library weights and averages itself; the caller cannot where the memory is a device's.
  virtual bool scales() const { return false; }
  /// `meets`: first all ranks meet, with `signature`, which names who does not come or is at something else, within
  /// `timeout`. Without, only the launcher ends a wait for a rank that does not come.
  /// Errors: those of Transport::exchange(); unsupported for a size or type that the library has no call for.
  /// A rank that is lost inside the library's own call cannot be left: after `timeout` this process says so and ends the job.
  virtual void run(const NativeCall& call, Reducer reducer, bool meets, Seconds timeout, const Signature& signature) = 0;
};

/// Before a library's own collective: every round doubles whom a rank has heard of. Who finds another signature says so and goes no further,
/// so that nobody comes through. Errors: those of Transport::exchange().
void meet(Transport& transport, Seconds timeout, const Signature& signature);

}  // namespace ddl
