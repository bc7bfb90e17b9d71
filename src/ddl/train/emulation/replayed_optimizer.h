#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "ddl/measure/timed_waits.h"
#include "ddl/train/optimizer.h"

namespace ddl {

/// In the place of any optimizer, of a server of parameters: parameters stay as they are, and an update waits for as long as it would take.
class ReplayedOptimizer final : public Optimizer {
 public:
  ReplayedOptimizer(std::vector<at::Tensor> parameters, double seconds_per_byte, WaitClock clock) : Optimizer("replayed", std::move(parameters), 0), seconds_per_byte_(seconds_per_byte), waits_(std::move(clock)) {}

 private:
  void apply(const Update& update) override { wait(update.parameter); }
  void apply_aten(Updates& updates) override {
    for (const auto& parameter : updates.parameters) wait(parameter);
  }
  void wait(const at::Tensor& parameter) {
    waits_.begin();
    waits_.charge(seconds_per_byte_ * static_cast<double>(parameter.nbytes()));
    waits_.end();
  }

  double seconds_per_byte_;
  TimedWaits waits_;
};

}  // namespace ddl
