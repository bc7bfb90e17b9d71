#include "ddl/nn/script.h"

#include <filesystem>
#include <new>
#include <string_view>

#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/api/module.h>

#include "ddl/core/error.h"

namespace ddl {
namespace {

/// What of LibTorch's message a person needs: TorchScript's own errors end in it, others begin with it.
std::string reason(const std::string& message) {
  const auto error = message.find("RuntimeError: ");
  const auto begin = error == std::string::npos ? 0 : error + 14;
  return message.substr(begin, message.find('\n', begin) - begin);
}

std::string reason(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  return reason(torch != nullptr ? torch->what_without_backtrace() : error.what());
}

torch::jit::Module load(const std::string& file, at::Device device) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored))
    throw Error(Code::not_found, fmt::format("[script] no such file; got '{}', expected one that torch.jit.save wrote", file));
  try {
    return torch::jit::load(file, device);
  } catch (const std::exception& error) {
    // What follows the first sentence is advice about other files.
    const auto why = reason(error);
    throw Error(Code::corrupt, fmt::format("[script] '{}' does not load as TorchScript: {}", file, why.substr(0, why.find(". "))));
  }
}

}  // namespace

bool is_out_of_memory(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr || dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         std::string_view(error.what()).find("std::bad_alloc") != std::string_view::npos;
}

struct ScriptModule::Impl {
  std::string file;
  torch::jit::Module module;
};

ScriptModule::ScriptModule(const std::string& file, at::Device device, at::ScalarType type)
    : impl_(std::make_unique<Impl>(Impl{file, load(file, device)})) {
  // Module::to(device, type) would make floating-point numbers of indices and masks, too.
  impl_->module.to(device);
  const auto convert = [&](at::Tensor tensor) {
    if (tensor.is_floating_point()) tensor.set_data(tensor.to(type));
  };
  for (const auto& parameter : impl_->module.parameters()) convert(parameter);
  for (const auto& buffer : impl_->module.buffers()) convert(buffer);
}

ScriptModule::~ScriptModule() = default;

std::vector<ScriptModule::Named> ScriptModule::parameters(bool trainable) const {
  std::vector<Named> all;
  for (const auto& [name, tensor] : impl_->module.named_parameters()) {
    const auto same = [&tensor = tensor](const Named& other) { return other.tensor.is_same(tensor); };
    if (tensor.requires_grad() == trainable && std::none_of(all.begin(), all.end(), same)) all.push_back({name, tensor});
  }
  return all;
}

std::vector<at::Tensor> ScriptModule::statistics() const {
  std::vector<at::Tensor> all;
  for (const auto& buffer : impl_->module.buffers())
    if (buffer.is_floating_point()) all.push_back(buffer);
  return all;
}

at::Tensor ScriptModule::forward(const at::Tensor& images, bool training) {
  if (impl_->module.is_training() != training) impl_->module.train(training);
  try {
    const auto result = impl_->module.forward({images});
    if (!result.isTensor())
      throw Error(Code::invalid_argument, fmt::format("[script] '{}' gives logits as one tensor; got {}", impl_->file, result.tagKind()));
    return result.toTensor();
  } catch (const Error&) {
    throw;
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) throw std::bad_alloc();
    throw Error(Code::invalid_argument, fmt::format("[script] '{}' does not compute images of {}x{}x{}: {}", impl_->file, images.size(1),
                                                    images.size(2), images.size(3), reason(error)));
  }
}

}  // namespace ddl
