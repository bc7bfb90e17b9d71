#include "ddl/train/recompute.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ddl/core/error.h"
#include "ddl/train/autocast.h"

namespace ddl {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

/// Layers [first, last), what they read of earlier ones, and what later ones read of them.
struct Segment {
  Network& network;
  NetworkInput input;
  std::string precision;
  std::size_t first, last;
  std::vector<std::size_t> reads = {}, leaves = {};
  std::vector<at::Tensor> parameters = {};

  variable_list run(const variable_list& given) const {
    std::vector<at::Tensor> values(network.graph().layers.size());
    for (std::size_t i = 0; i < reads.size(); ++i) values[reads[i]] = given[i];
    const Autocast autocast(network.tensor_options().device().type(), precision);
    network.forward_layers(first, last, values, input, true);
    variable_list left;
    for (const auto layer : leaves) left.push_back(values[layer]);
    return left;
  }
};

/// The same values at the beginning of a graph of their own.
variable_list detached(const variable_list& values) {
  variable_list own;
  for (const auto& value : values) own.push_back(value.detach().requires_grad_(value.requires_grad()));
  return own;
}

/// One segment as a node of autograd. Its parameters are inputs of the node, so that a gradient is complete once, also
/// where segments share a parameter.
struct Recomputed : torch::autograd::Function<Recomputed> {
  static variable_list forward(AutogradContext* context, const std::shared_ptr<Segment>& segment, at::TensorList given) {
    context->saved_data["reads"] = static_cast<std::int64_t>(segment->reads.size());
    variable_list kept(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(segment->reads.size()));
    // As backward will run it again: some operators (LSTM) take other kernels, with other bits, where no gradient is wanted.
    variable_list left;
    {
      const c10::AutoGradMode on(true);
      for (const auto& value : segment->run(detached(kept))) left.push_back(value.detach());
    }
    context->save_for_backward(kept);
    context->saved_data["segment"] = c10::IValue::make_capsule(c10::make_intrusive<Holder>(segment));
    return left;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto holder = context->saved_data["segment"].toCapsule();
    const auto& segment = *static_cast<Holder*>(holder.get())->segment;
    const auto given = detached(context->get_saved_variables());
    // Forward has updated the running statistics already; running it again must not. They are put back once the operators'
    // backward, which holds on to them, is over.
    std::vector<at::Tensor> statistics;
    for (const auto& buffer : segment.network.buffers()) statistics.push_back(buffer.clone());
    const auto left = [&] {
      const c10::AutoGradMode on(true);
      return segment.run(given);
    }();
    variable_list wanted, results(1 + given.size() + segment.parameters.size());
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < given.size() + segment.parameters.size(); ++i) {
      const auto& tensor = i < given.size() ? given[i] : segment.parameters[i - given.size()];
      if (!tensor.requires_grad()) continue;
      wanted.push_back(tensor);
      places.push_back(1 + i);  // the first result is that of the segment itself, none
    }
    variable_list outputs, weights;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (!left[i].requires_grad() || !gradients[i].defined()) continue;
      outputs.push_back(left[i]);
      weights.push_back(gradients[i]);
    }
    const auto found = torch::autograd::grad(outputs, wanted, weights, false, false, true);
    for (std::size_t i = 0; i < found.size(); ++i) results[places[i]] = found[i];
    const c10::NoGradGuard guard;
    for (std::size_t i = 0; i < statistics.size(); ++i) segment.network.buffers()[i].copy_(statistics[i]);
    return results;
  }

 private:
  struct Holder : torch::CustomClassHolder {
    explicit Holder(std::shared_ptr<Segment> of) : segment(std::move(of)) {}
    std::shared_ptr<Segment> segment;
  };
};

std::shared_ptr<Segment> segment_of(Network& network, std::size_t first, std::size_t last, const NetworkInput& input, const std::string& precision) {
  auto segment = std::make_shared<Segment>(Segment{network, input, precision, first, last});
  const auto& layers = network.graph().layers;
  for (std::size_t layer = first; layer < last; ++layer) {
    for (const int from : layers[layer].inputs) {
      const auto number = static_cast<std::size_t>(from);
      if (number < first && std::find(segment->reads.begin(), segment->reads.end(), number) == segment->reads.end()) segment->reads.push_back(number);
    }
    for (const auto& parameter : network.parameters_of(layer))
      if (std::none_of(segment->parameters.begin(), segment->parameters.end(), [&](const at::Tensor& other) { return other.is_same(parameter); }))
        segment->parameters.push_back(parameter);
    if (network.last_use(layer) >= last) segment->leaves.push_back(layer);
  }
  return segment;
}

}  // namespace

NetworkOutput forward_with_recompute(Network& network, const std::vector<std::size_t>& cuts, const NetworkInput& input, const std::string& precision) {
  invariant(cuts.size() >= 2 && cuts.front() == 0 && cuts.back() == network.graph().layers.size(), "segments cover the network");
  std::vector<at::Tensor> values(network.graph().layers.size());
  for (std::size_t k = 0; k + 2 < cuts.size(); ++k) {
    const auto segment = segment_of(network, cuts[k], cuts[k + 1], input, precision);
    variable_list given;
    for (const auto layer : segment->reads) given.push_back(values[layer]);
    given.insert(given.end(), segment->parameters.begin(), segment->parameters.end());
    const auto left = Recomputed::apply(segment, at::TensorList(given));
    for (std::size_t i = 0; i < left.size(); ++i) values[segment->leaves[i]] = left[i];
    for (std::size_t layer = 0; layer < cuts[k + 1]; ++layer)
      if (network.last_use(layer) < cuts[k + 1]) values[layer].reset();
  }
  const Autocast autocast(network.tensor_options().device().type(), precision);
  network.forward_layers(cuts[cuts.size() - 2], cuts.back(), values, input, true);
  const auto auxiliary = network.graph().auxiliary;
  return {values.back(), auxiliary < 0 ? at::Tensor() : values[static_cast<std::size_t>(auxiliary)]};
}

}  // namespace ddl
