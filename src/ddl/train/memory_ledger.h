#pragma once

#include <cstdint>

#include "ddl/core/json.h"
#include "ddl/plan/holdings.h"

namespace ddl {

class Device;

/// The most memory that one worker held, by the stretches of its life: LibTorch's allocator on the host, the device where that is
/// another, and the kernel's count. Bytes.
/// Threads: one, the worker's. Of several in a process each has an allocator's account of its own (allocator.h), and one counts what is the process's: the kernel's and the device's.
class MemoryLedger {
 public:
  /// `device` must outlive it. `counts`: what is the process's; false of all but one of its workers.
  explicit MemoryLedger(Device& device, bool counts = true) : device_(device), counts_(counts) {}

  /// From now on.
  void reset_peaks();
  /// What passed since the last call of any of these was training, or was between epochs: parameters gathered and digested, the test set evaluated.
  void note_training() { note(training_); }
  void note_evaluation() { note(evaluation_); }
  /// By tensors of the device, in what was noted as training.
  std::int64_t training_peak() const { return tensors(training_); }

  /// As records have it; `held` by tensors of the device, at most, where `holds` says by whom.
  Json json(const Holdings& holds, std::int64_t held) const;

 private:
  struct Peaks {
    std::int64_t host = 0, resident = 0;
    std::int64_t device = 0;  // 0 where that is the host
  };
  void note(Peaks& into);
  std::int64_t tensors(const Peaks& peaks) const;

  Device& device_;
  bool counts_;
  Peaks training_, evaluation_;
};

/// Who holds what, as records have it.
Json to_json(const Holdings& holds);

}  // namespace ddl
