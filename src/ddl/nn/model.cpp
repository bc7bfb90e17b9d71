#include "ddl/nn/model.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include "ddl/core/error.h"
#include "ddl/nn/graph_builder.h"
#include "ddl/nn/networks/common.h"
#include "ddl/nn/plugins.h"
#include "ddl/nn/script.h"

namespace ddl {
namespace {

/// With one thread: workers are forked from a process that asked, and a pool of OpenMP's does not survive that.
at::Tensor alone(ScriptModule& module, const at::Tensor& images) {
  const c10::NoGradGuard guard;
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  try {
    auto logits = module.forward(images, false);
    at::set_num_threads(threads);
    return logits;
  } catch (...) {
    at::set_num_threads(threads);
    throw;
  }
}

/// One opaque layer: what is inside, and what it costs, is not known.
ModelGraph script_graph(const Spec& spec, const SampleShape& shape) {
  require_options(spec, {});
  auto net = for_images(spec.name, shape);
  ScriptModule module(spec.name, at::kCPU, at::kFloat);
  std::vector<ParameterSpec> parameters;
  for (const bool trainable : {true, false})
    for (const auto& [name, tensor] : module.parameters(trainable))
      parameters.push_back({name, tensor.sizes().vec(), {Initialiser::Kind::file, 0}, trainable});
  if (parameters.empty() || !parameters.front().trainable)
    throw Error(Code::invalid_argument, fmt::format("[script] '{}' has no parameters to train; got {}, expected some that require gradients",
                                                    spec.name, parameters.empty() ? "none at all" : "frozen ones alone"));
  constexpr std::int64_t kTrial = 2;
  const auto logits = alone(module, at::zeros({kTrial, shape.channels, shape.height, shape.width}));
  if (logits.sizes() != at::IntArrayRef{kTrial, shape.classes})
    throw Error(Code::invalid_argument, fmt::format("[script] '{}' does not give a logit for every class; got {} for {} images, expected {}x{}",
                                                    spec.name, to_string(logits.sizes().vec()), kTrial, kTrial, shape.classes));
  net.script("script", GraphBuilder::kInput, spec.name, std::move(parameters), shape.classes);
  return std::move(net).finish();
}

}  // namespace

bool is_script(const std::string& name) { return name.ends_with(".pt") || name.ends_with(".pth"); }

ModelGraph make_model(const Spec& spec, const SampleShape& shape) {
  if (is_script(spec.name)) return script_graph(spec, shape);
  return all_models().at(spec.name).make(spec, shape);
}

}  // namespace ddl
