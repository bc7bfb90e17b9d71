#include <ctime>
#include <type_traits>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ddl/measure/clock.h"
#include "ddl/nn/element_type.h"
#include "ddl/nn/kernels/gelu.h"
#include "ddl/nn/operators/operator.h"
#include "ddl/nn/operators/product.h"

namespace ddl {

at::Tensor relu(const OperatorContext& c) {
  auto from = c.inputs[0];
  return c.layer.in_place ? at::relu_(from) : at::relu(from);
}

/// Where its output is strictly between 0 and 6 so was its input: the output is all that backward needs, and the next
/// layer keeps it anyway. ATen's own keeps the input too, which is a third of what a MobileNet keeps.
struct LeanRelu6 : torch::autograd::Function<LeanRelu6> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor from, bool in_place) {
    const auto to = in_place ? at::hardtanh_(from, 0, 6) : at::hardtanh(from, 0, 6);
    if (in_place) context->mark_dirty({from});
    context->save_for_backward({to});
    return to;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, const torch::autograd::variable_list& gradients) {
    return {at::hardtanh_backward(gradients[0], context->get_saved_variables()[0], 0, 6), {}};
  }
};

at::Tensor relu6(const OperatorContext& c) {
  auto from = c.inputs[0];
  if (c.options.kernels == Kernels::fast) return LeanRelu6::apply(from, c.layer.in_place);
  return c.layer.in_place ? at::hardtanh_(from, 0, 6) : at::hardtanh(from, 0, 6);
}

/// One pass over memory each way. ATen's takes an error function and, backward, an exponential besides; here one exponential gives both.
struct FastGelu : torch::autograd::Function<FastGelu> {
  static constexpr std::int64_t kElementsOfAThread = 16384;

  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& from) {
    auto to = at::empty_like(from);
    with_value_type(from, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (!std::is_same_v<T, double>)
        at::parallel_for(0, from.numel(), kElementsOfAThread, [&](std::int64_t begin, std::int64_t end) { gelu_elements(elements<T>(from) + begin, places<T>(to) + begin, end - begin); });
    });
    context->save_for_backward({from});
    return to;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, const torch::autograd::variable_list& gradients) {
    const auto from = context->get_saved_variables()[0], gradient = gradients[0].contiguous();
    auto to = at::empty_like(gradient);
    with_value_type(from, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (!std::is_same_v<T, double>)
        at::parallel_for(0, from.numel(), kElementsOfAThread,
                         [&](std::int64_t begin, std::int64_t end) { gelu_gradient(elements<T>(from) + begin, elements<T>(gradient) + begin, places<T>(to) + begin, end - begin); });
    });
    return {to};
  }
};

at::Tensor gelu(const OperatorContext& c) {
  const auto& from = c.inputs[0];
  const bool ours = c.options.kernels == Kernels::fast && from.is_cpu() && (from.scalar_type() == at::kFloat || from.scalar_type() == at::kBFloat16) && from.is_contiguous();
  return ours ? FastGelu::apply(from) : at::gelu(from);
}
at::Tensor tanh(const OperatorContext& c) { return at::tanh(c.inputs[0]); }
at::Tensor sigmoid(const OperatorContext& c) { return at::sigmoid(c.inputs[0]); }

at::Tensor flatten(const OperatorContext& c) { return c.inputs[0].flatten(1); }

/// Sleeps most of the time and spins the rest: a sleeping thread is woken 50–100 us late.
static void pause(double milliseconds) {
  constexpr Nanoseconds kSpin = 300'000;
  const Nanoseconds until = now() + static_cast<Nanoseconds>(milliseconds * 1e6);
  const Nanoseconds wake = until - kSpin;
  if (wake > now()) {
    const timespec time{wake / 1'000'000'000, wake % 1'000'000'000};
    ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr);
  }
  while (now() < until) {
  }
}

struct WaitBothWays : torch::autograd::Function<WaitBothWays> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& from, double milliseconds, double backward) {
    context->saved_data["backward"] = backward;
    pause(milliseconds);
    return from;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, const torch::autograd::variable_list& gradients) {
    pause(context->saved_data["backward"].toDouble());
    return {gradients[0], {}, {}};
  }
};

at::Tensor linear(const OperatorContext& c) {
  // A tied weight follows the layer's own bias.
  const auto& own = c.own.parameters;
  auto weight = c.layer.borrowed.empty() ? own.front() : own.back();
  if (const double slow = c.layer.attributes.milliseconds; slow > 0 && c.training) weight = WaitBothWays::apply(weight, 0, slow);
  const auto bias = own.size() > 1 ? (c.layer.borrowed.empty() ? own.back() : own.front()) : at::Tensor();
  const auto input = narrowed(c.inputs[0], c.options);
  if (takes_product(input, weight, c.options)) return multiply(input, weight, bias, c.own.sharing, {}, c.rectifies);
  auto made = at::linear(input, weight, bias);
  return c.rectifies ? at::relu_(made) : made;
}

at::Tensor add(const OperatorContext& c) {
  auto from = c.inputs[0];
  const auto& other = c.inputs[1];
  // Under autocast the two may differ in type: the wider one is what the sum is kept in.
  return c.layer.in_place && from.scalar_type() == other.scalar_type() ? from.add_(other) : from.add(other);
}

at::Tensor concatenate(const OperatorContext& c) { return at::cat(at::TensorList(c.inputs.data(), c.inputs.size()), 1); }

at::Tensor scale(const OperatorContext& c) { return c.inputs[0].mul(c.layer.attributes.factor); }

at::Tensor wait(const OperatorContext& c) {
  const auto& how = c.layer.attributes;
  if (how.factor > 0) return WaitBothWays::apply(c.inputs[0], how.milliseconds, how.milliseconds * how.factor);
  pause(how.milliseconds);
  return c.inputs[0];
}

}  // namespace ddl
