#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ddl/measure/timed_waits.h"
#include "ddl/train/optimizer.h"

namespace ddl {

/// Waits of a thread that another asks how they went.
class SharedWaits {
 public:
  explicit SharedWaits(WaitClock clock) : waits_(std::move(clock)) {}

  void wait(double seconds) {
    const std::lock_guard lock(mutex_);
    waits_.begin();
    waits_.charge(seconds);
    waits_.end();
  }
  TimedWaits::Report report() const {
    const std::lock_guard lock(mutex_);
    return waits_.report();
  }

 private:
  mutable std::mutex mutex_;
  TimedWaits waits_;
};

/// In the place of any optimizer, of a server of parameters: parameters stay as they are, and an update waits for as long as it would take.
class ReplayedOptimizer final : public Optimizer {
 public:
  ReplayedOptimizer(std::vector<at::Tensor> parameters, double seconds_per_byte, std::shared_ptr<SharedWaits> waits) : Optimizer("replayed", std::move(parameters), 0), seconds_per_byte_(seconds_per_byte), waits_(std::move(waits)) {}

 private:
  void apply(const Update& update) override { wait(update.parameter); }
  void apply_aten(Updates& updates) override {
    for (const auto& parameter : updates.parameters) wait(parameter);
  }
  void wait(const at::Tensor& parameter) { waits_->wait(seconds_per_byte_ * static_cast<double>(parameter.nbytes())); }

  double seconds_per_byte_;
  std::shared_ptr<SharedWaits> waits_;
};

}  // namespace ddl
