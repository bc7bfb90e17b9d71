#include "ddl/train/autocast.h"

#include <ATen/autocast_mode.h>

namespace ddl {

Autocast::Autocast(at::DeviceType device, const std::string& precision)
    : device_(device), active_(precision == "bf16" || precision == "fp16") {
  if (!active_) return;
  before_ = at::autocast::is_autocast_enabled(device_);
  type_before_ = at::autocast::get_autocast_dtype(device_);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, precision == "bf16" ? at::kBFloat16 : at::kHalf);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!active_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, before_);
  at::autocast::set_autocast_dtype(device_, type_before_);
}

}  // namespace ddl
