#include "ddl/train/memory_ledger.h"

#include <algorithm>

#include "ddl/measure/memory.h"
#include "ddl/train/allocator.h"
#include "ddl/train/device.h"

namespace ddl {

void MemoryLedger::reset_peaks() {
  reset_allocator_peak();
  if (!counts_) return;
  reset_peak_resident();
  if (!device_.is_host()) device_.reset_peak();
}

void MemoryLedger::note(Peaks& into) {
  into.host = std::max(into.host, allocator_use().peak);
  if (counts_) into.resident = std::max(into.resident, kernel_memory().peak_resident);
  if (counts_ && !device_.is_host()) into.device = std::max(into.device, device_.memory().peak);
  reset_peaks();
}

std::int64_t MemoryLedger::tensors(const Peaks& peaks) const { return device_.is_host() ? peaks.host : peaks.device; }

Json MemoryLedger::json(const Holdings& holds, std::int64_t held) const {
  const auto kernel = kernel_memory();
  const auto evaluation = tensors(evaluation_);
  auto json = to_json(holds);
  json.update(Json{{"allocator_peak", std::max(training_.host, allocator_use().peak)},
                   {"device_peak", device_.is_host() || !counts_ ? Json(nullptr) : Json(held)},
                   {"evaluation_peak", evaluation > 0 ? Json(evaluation) : Json(nullptr)},
                   {"kernel_peak", std::max(training_.resident, kernel.peak_resident)},
                   {"kernel_shared", kernel.shared}});
  return json;
}

Json to_json(const Holdings& holds) {
  return {{"parameters", holds.parameters}, {"gradients", holds.gradients}, {"optimizer", holds.optimizer}, {"buckets", holds.buckets}, {"activations", holds.activations}};
}

}  // namespace ddl
