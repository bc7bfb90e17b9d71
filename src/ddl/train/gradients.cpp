#include "ddl/train/gradients.h"

#include <cstring>
#include <memory>
#include <utility>

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "ddl/core/error.h"

namespace ddl {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

ElementType element_type(at::ScalarType type) {
  if (type == at::kFloat) return ElementType::fp32;
  if (type == at::kDouble) return ElementType::fp64;
  throw Error(Code::unsupported, fmt::format("[gradients] unsupported element type; got {}, expected fp32 or fp64", c10::toString(type)));
}

}  // namespace

struct GradientBuckets::Hook : torch::autograd::PostAccumulateGradHook {
  GradientBuckets* owner;
  int parameter;
  Hook(GradientBuckets* o, int p) : owner(o), parameter(p) {}
  void operator()(const torch::autograd::Variable&) override { owner->take(parameter); }
};

GradientBuckets::GradientBuckets(std::vector<at::Tensor> parameters, Transport& transport)
    : parameters_(std::move(parameters)), views_(parameters_.size()), bucket_of_(parameters_.size()), filled_(parameters_.size()), came_(parameters_.size()) {
  invariant(!parameters_.empty(), "buckets hold at least one parameter");
  type_ = element_type(parameters_[0].scalar_type());
  element_bytes_ = size_of(type_);
  std::size_t bytes = kAlignment;
  for (const auto& parameter : parameters_) bytes += aligned(parameter.nbytes());
  memory_ = transport.allocate(bytes);
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i], std::make_unique<Hook>(this, static_cast<int>(i)));
}

GradientBuckets::~GradientBuckets() {
  for (const auto& parameter : parameters_) torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
}

void GradientBuckets::arrange(const std::vector<Bucket>& buckets) {
  buffers_.clear();
  observed_.clear();
  std::size_t offset = 0;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    offset = aligned(offset);
    Buffer buffer{memory_.data() + offset, 0, type_};
    for (const int number : buckets[b].parameters) {
      const auto& parameter = parameters_[static_cast<std::size_t>(number)];
      views_[static_cast<std::size_t>(number)] =
          at::from_blob(memory_.data() + offset, parameter.sizes(), parameter.strides(), parameter.options().requires_grad(false));
      bucket_of_[static_cast<std::size_t>(number)] = static_cast<int>(b);
      buffer.elements += static_cast<std::size_t>(parameter.numel());
      offset += parameter.nbytes();
    }
    if (b + 1 == buckets.size()) {
      control_ = at::from_blob(memory_.data() + offset, {1}, parameters_[0].options().requires_grad(false));
      offset += element_bytes_;
      ++buffer.elements;
    }
    buffers_.push_back(buffer);
  }
  invariant(offset <= memory_.size(), "buckets fit their memory");
}

void GradientBuckets::begin_step(std::function<void(int)> ready, std::function<void(Nanoseconds, Nanoseconds)> copied) {
  ready_ = std::move(ready);
  copied_ = std::move(copied);
  last_pass_ = false;
  filled_.assign(parameters_.size(), false);
  came_.assign(parameters_.size(), false);
  observed_.clear();
  missing_.assign(buffers_.size(), 0);
  for (const int bucket : bucket_of_) ++missing_[static_cast<std::size_t>(bucket)];
}

void GradientBuckets::begin_pass(bool last) { last_pass_ = last; }

void GradientBuckets::take(int number) {
  const auto i = static_cast<std::size_t>(number);
  // A hook that fires outside of a step (somebody else's backward) leaves the gradient where it is.
  if (!ready_ || came_[i]) return;
  const auto begin = now();
  auto& gradient = parameters_[i].mutable_grad();
  const c10::NoGradGuard guard;
  auto& view = views_[i];
  if (filled_[i]) {
    view.add_(gradient);
  } else if (gradient.strides() == view.strides() && gradient.is_cpu()) {
    std::memcpy(view.data_ptr(), gradient.const_data_ptr(), view.nbytes());
  } else {
    view.copy_(gradient);
  }
  gradient.reset();
  filled_[i] = true;
  if (copied_) copied_(begin, now());
  if (!last_pass_) return;
  observed_.push_back(number);
  settle(number);
}

void GradientBuckets::settle(int number) {
  came_[static_cast<std::size_t>(number)] = true;
  const int bucket = bucket_of_[static_cast<std::size_t>(number)];
  if (--missing_[static_cast<std::size_t>(bucket)] == 0) ready_(bucket);
}

void GradientBuckets::complete_step() {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (!came_[i]) {
      if (!filled_[i]) std::memset(views_[i].data_ptr(), 0, views_[i].nbytes());
      observed_.push_back(static_cast<int>(i));
      settle(static_cast<int>(i));
    }
  ready_ = nullptr;
}

Buffer GradientBuckets::buffer(int bucket) const { return buffers_.at(static_cast<std::size_t>(bucket)); }

void GradientBuckets::set_control(double value) { control_.fill_(value); }
double GradientBuckets::control() const { return control_.item<double>(); }

}  // namespace ddl
