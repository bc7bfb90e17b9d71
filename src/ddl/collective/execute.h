#pragma once

#include <memory>
#include <vector>

#include "ddl/collective/operation.h"
#include "ddl/collective/prepare.h"
#include "ddl/collective/reduce.h"
#include "ddl/transport/transport.h"

namespace ddl {

/// A collective's buffer on one rank; it is read and written in place.
struct Buffer {
  std::byte* data = nullptr;
  std::size_t elements = 0;
  ElementType type = ElementType::fp32;
};

/// Runs schedules on one transport. An average divides in its final steps: each element once, on the rank that completes
/// it, before it is passed on. A weighted sum weights an element where it is first used.
/// One thread at a time.
class ScheduleExecutor {
 public:
  explicit ScheduleExecutor(Transport& transport) : transport_(transport), shared_(static_cast<std::size_t>(transport.size())) {}

  /// Errors: those of Transport::exchange(); unsupported for an average or a weighted sum by a schedule some step of
  /// which is final, or this rank's own input, only in part.
  void run(const Prepared& prepared, const Collective& what, const Buffer& buffer, const Signature& signature, Seconds timeout);

 private:
  /// What a step does with the pieces that come in.
  struct Reduction {
    ReduceOp op = ReduceOp::sum;
    ElementType type = ElementType::fp32;
    std::byte* ours = nullptr;
    Scaling scaling;
    bool replaces = false;

    static void take(void* context, std::size_t offset, std::span<const std::byte> piece, double factor);
  };

  void run_rounds(const Prepared& prepared, const Collective& what, const Buffer& buffer, const Signature& signature, Seconds timeout);
  void run_one_shot(const Prepared& prepared, const Collective& what, const Buffer& buffer, const Signature& signature, Seconds timeout);
  std::byte* scratch(std::size_t bytes);

  Transport& transport_;
  // Kept from call to call: a small collective allocates nothing.
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
  std::vector<Reduction> reductions_;
  std::vector<Shared> shared_;
  std::vector<std::byte*> places_;
  std::vector<double> factors_;
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_size_ = 0;
  std::span<std::byte> stage_;
};

}  // namespace ddl
