#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

namespace ddl {

/// Whether it says that there was too little memory, the processor's or a GPU's. TorchScript's interpreter makes an exception of its own of
/// whatever was thrown in it.
bool is_out_of_memory(const std::exception& error);

/// A network that a user exported from PyTorch (torch.jit.save): images in, logits out.
/// Errors: not_found where there is no such file, corrupt where it does not load, invalid_argument where it does not compute
/// [n, classes] from images, each with LibTorch's own reason.
class ScriptModule {
 public:
  ScriptModule(const std::string& file, at::Device device, at::ScalarType type);
  ~ScriptModule();

  struct Named {
    std::string name;
    at::Tensor tensor;
  };
  /// Those that require gradients and those that do not, each tensor once.
  std::vector<Named> parameters(bool trainable) const;
  /// Running statistics: its buffers of floating-point numbers.
  std::vector<at::Tensor> statistics() const;
  at::Tensor forward(const at::Tensor& images, bool training);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddl
