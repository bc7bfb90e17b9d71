#pragma once

#include <cstdint>

namespace ddl {

/// What the loss is multiplied with before backward, so that gradients too small for fp16 are not lost: halved when a
/// gradient is not finite, doubled after 2,000 good steps in a row.
///
/// The rule and its constants are torch.amp.GradScaler's, and a test holds it against LibTorch's _amp_update_scale_. A
/// plain number rather than that operator: every rank sees the same reduced gradients, so every rank draws the same
/// conclusion on its own, without a tensor to keep or to wait for.
/// Source:  Micikevicius et al., Mixed Precision Training, ICLR 2018, section 3.2.
class LossScale {
 public:
  struct Rule {
    double initial = 65536, growth = 2, backoff = 0.5;
    std::int64_t interval = 2000;
  };
  explicit LossScale(Rule rule) : rule_(rule), value_(rule.initial) {}

  double value() const { return value_; }
  /// After each step: whether all its gradients were finite.
  void observe(bool finite);
  std::int64_t skipped() const { return skipped_; }

 private:
  Rule rule_;
  double value_;
  std::int64_t good_ = 0;     ///< steps in a row
  std::int64_t skipped_ = 0;  ///< steps whose gradients were not finite
};

}  // namespace ddl
