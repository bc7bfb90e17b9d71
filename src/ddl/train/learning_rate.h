#pragma once

#include <cstdint>

#include "ddl/core/spec.h"

namespace ddl {

/// How the learning rate moves over a run: a pure function of the step.
///
///     constant                       the learning rate throughout
///     step[every=30epochs,factor=…]  times `factor` (0.1) after each `every` steps or epochs, counted from the run's start
///     cosine                         learning rate / 2 (1 + cos(pi t)), t from 0 to 1 over what is left after warm-up
///                                    (Loshchilov & Hutter, SGDR, ICLR 2017, without restarts)
///     inverse-sqrt[warmup=4000]      falls as 1/sqrt(step) from the end of warm-up, which it needs (Vaswani et al., Attention Is
///                                    All You Need, 2017, whose peak is 1/sqrt(model width * warmup))
///
/// Each takes warmup=STEPS or warmup=Nepochs: step s of w warm-up steps has (s + 1) / w of the learning rate (Goyal et al.,
/// Accurate, Large Minibatch SGD, 2017, starting from nothing).
class LearningRate {
 public:
  /// `peak`: the learning rate asked for. Errors: invalid_argument for an unknown name, option or value.
  LearningRate(const Spec& schedule, double peak, std::int64_t steps, std::int64_t steps_per_epoch);

  /// `step` counts optimizer steps from 0.
  double at(std::int64_t step) const;

 private:
  enum class Shape : std::uint8_t { constant, step, cosine, inverse_sqrt };
  Shape shape_;
  double peak_;
  double steps_;
  double warmup_ = 0;
  double every_ = 0;
  double factor_ = 0.1;
};

}  // namespace ddl
