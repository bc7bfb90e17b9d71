#pragma once

#include <string>

#include <ATen/ATen.h>

namespace ddl {

/// While it lives, this thread's operators compute in 16 bits where LibTorch's lists say that this is safe, as under
/// torch.autocast: with precision bf16 or fp16; with any other it does nothing. Parameters that were converted are kept
/// converted until it ends. Not for backward, which follows the types of forward.
class Autocast {
 public:
  Autocast(at::DeviceType device, const std::string& precision);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device_;
  bool active_;
  bool before_ = false;
  at::ScalarType type_before_ = at::kFloat;
};

}  // namespace ddl
