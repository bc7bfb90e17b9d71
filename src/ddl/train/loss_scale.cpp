#include "ddl/train/loss_scale.h"

#include <ATen/ATen.h>

namespace ddl {

LossScale::LossScale(Rule rule)
    : rule_(rule), value_(at::full({}, rule.initial, at::kFloat)), good_(at::zeros({}, at::kInt)), found_(at::zeros({}, at::kFloat)) {}

double LossScale::value() const { return *value_.const_data_ptr<float>(); }

void LossScale::observe(bool finite) {
  *found_.mutable_data_ptr<float>() = finite ? 0.0F : 1.0F;
  at::_amp_update_scale_(value_, good_, found_, rule_.growth, rule_.backoff, rule_.interval);
  skipped_ += finite ? 0 : 1;
}

}  // namespace ddl
