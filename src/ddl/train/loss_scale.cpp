#include "ddl/train/loss_scale.h"

#include <cmath>

namespace ddl {

void LossScale::observe(bool finite) {
  if (!finite) {
    value_ = static_cast<double>(static_cast<float>(value_ * rule_.backoff));
    good_ = 0;
    ++skipped_;
    return;
  }
  if (++good_ < rule_.interval) return;
  // The scale is a float to the operators that it is multiplied in by.
  const auto grown = static_cast<float>(value_ * rule_.growth);
  if (std::isfinite(grown)) value_ = static_cast<double>(grown);
  good_ = 0;
}

}  // namespace ddl
