#include "ddl/nn/operators/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "ddl/nn/element_type.h"
#include "ddl/nn/gradient_edge.h"
#include "ddl/nn/kernels/attention.h"
#include "ddl/nn/kernels/small_products.h"
#include "ddl/nn/operators/product.h"

namespace ddl {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// How it is cut: scores of a head and of so many places at once.
struct Blocks {
  std::int64_t samples, places, seen, heads, width;  ///< width: features of a head
  bool causal;
  std::int64_t places_at_once;
  float scale;
};

Blocks blocks_of(const Attended& of) {
  // Scores of a block, and backward their gradients, stay in a core's cache.
  constexpr std::int64_t kScores = std::int64_t{1} << 16, kFewest = 16, kMost = 64;
  Blocks b{of.queries.size(0), of.queries.size(1), of.keys_values.size(1), of.heads, of.features / of.heads, of.causal, 0, 0};
  b.places_at_once = std::min(b.places, std::clamp(kScores / b.seen, kFewest, kMost));
  b.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(b.width)));
  return b;
}

/// Features of one head: of place p `width` of them at `at` + p * `apart`.
struct Head {
  float* at;
  std::int64_t apart;

  float* from(std::int64_t place) const { return at + place * apart; }
  SmallFactor factor(std::int64_t place) const { return {from(place), apart, 1}; }
};

Head head_of(const at::Tensor& sample, std::int64_t offset) { return {sample.mutable_data_ptr<float>() + offset, sample.stride(0)}; }

/// Some places of one head, which see the first `keys`; before them `before` were seen.
struct Block {
  std::int64_t first, places, keys, before;
};

template <typename F>
void for_blocks(const Blocks& b, F&& f) {
  std::int64_t before = 0;
  for (std::int64_t first = 0; first < b.places; first += b.places_at_once) {
    const auto places = std::min(b.places_at_once, b.places - first), keys = b.causal ? std::min(b.seen, first + places) : b.seen;
    f(Block{first, places, keys, before});
    before = keys;
  }
}

/// Each sample of a tensor by itself, [places, …] in fp32: where it lies or, of what is narrower, in memory of its own. Products of heads are small, and no faster in 16 bits.
class WideSample {
 public:
  explicit WideSample(at::Tensor of) : of_(std::move(of)) {
    if (of_.scalar_type() != at::kFloat) own_ = at::empty({of_.size(1), of_.size(2)}, plain_options(of_).dtype(at::kFloat));
  }
  at::Tensor read(std::int64_t sample) const { return own_.defined() ? own_.copy_(of_[sample]) : of_[sample]; }
  /// To be written, and then put.
  at::Tensor place(std::int64_t sample) const { return own_.defined() ? own_ : of_[sample]; }
  void put(std::int64_t sample) const {
    if (own_.defined()) of_[sample].copy_(own_);
  }

 private:
  at::Tensor of_, own_;
};

/// Fp32 to work in.
class Scratch {
 public:
  explicit Scratch(std::int64_t elements) : memory_(at::empty({elements}, at::TensorOptions(at::kFloat))), at_(memory_.mutable_data_ptr<float>()) {}
  operator float*() const { return at_; }

 private:
  at::Tensor memory_;
  float* at_;
};

ScoreRows rows_of(const Blocks& b, const Block& block, std::int64_t sample, const at::Tensor& hidden) {
  return {1, block.places, block.keys, block.first, b.causal, hidden.defined() ? hidden.const_data_ptr<float>() + sample * b.seen : nullptr, b.scale};
}

/// 0 where it is seen, minus infinity where not.
at::Tensor hidden_of(const at::Tensor& visible, std::int64_t seen) {
  if (!visible.defined()) return {};
  return at::zeros({visible.size(0), seen}, at::kFloat).masked_fill_(visible.view({visible.size(0), seen}).logical_not(), -std::numeric_limits<double>::infinity());
}

std::int64_t offset_of_keys(const Attended& of) { return of.queries.is_same(of.keys_values) ? of.features : 0; }

/// Edges: queries, and keys with values where those are another tensor.
struct AttentionNode final : torch::autograd::Node {
  SavedVariable queries, keys_values;
  at::Tensor hidden, log_sums;
  Attended how{};  ///< without tensors
  bool itself = false;

  std::string name() const override { return "AttentionBackward"; }
  void release_variables() override {
    const std::lock_guard lock(mutex_);
    queries.reset_data();
    keys_values.reset_data();
    log_sums.reset();
  }

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard lock(mutex_);
    variable_list found(itself ? 1 : 2);
    if (!gradients[0].defined()) return found;
    auto of = how;
    of.queries = queries.unpack();
    of.keys_values = itself ? of.queries : keys_values.unpack();
    const auto gradient = gradients[0].contiguous();
    const auto b = blocks_of(of);
    const auto to_queries = at::empty(of.queries.sizes(), plain_options(of.queries)), to_keys = itself ? to_queries : at::empty(of.keys_values.sizes(), plain_options(of.queries));
    const WideSample asking(of.queries), known(of.keys_values), given_to(gradient), to_asking(to_queries), to_known(to_keys);
    const auto at_keys = offset_of_keys(of), at_values = at_keys + of.features, w = b.width;
    const Scratch shares(b.places_at_once * b.seen), slopes(b.places_at_once * b.seen), keys_across(b.seen * w), values_across(b.seen * w);
    for (std::int64_t sample = 0; sample < b.samples; ++sample) {
      const auto queries_of = asking.read(sample), keys_of = itself ? queries_of : known.read(sample), gradient_of = given_to.read(sample);
      const auto to_queries_of = to_asking.place(sample), to_keys_of = itself ? to_queries_of : to_known.place(sample);
      for (std::int64_t h = 0; h < b.heads; ++h) {
        const auto query = head_of(queries_of, h * w), key = head_of(keys_of, at_keys + h * w), value = head_of(keys_of, at_values + h * w), given = head_of(gradient_of, h * w);
        const auto to_query = head_of(to_queries_of, h * w), to_key = head_of(to_keys_of, at_keys + h * w), to_value = head_of(to_keys_of, at_values + h * w);
        transpose_small(b.seen, w, key.at, key.apart, keys_across);
        transpose_small(b.seen, w, value.at, value.apart, values_across);
        const float* const sums = log_sums.const_data_ptr<float>() + (sample * b.heads + h) * b.places;
        for_blocks(b, [&](const Block& block) {
          const auto& [first, places, count, before] = block;
          multiply_small(places, count, w, query.factor(first), keys_across, b.seen, shares, count, false);
          multiply_small(places, count, w, given.factor(first), values_across, b.seen, slopes, count, false);
          soften_backward(rows_of(b, block, sample, hidden), sums + first, b.places, shares, slopes);
          multiply_small(places, w, count, {slopes, count, 1}, key.at, key.apart, to_query.from(first), to_query.apart, false);
          // Keys that blocks before saw have a sum already.
          for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>(0, before), {before, count}}) {
            multiply_small(end - begin, w, places, {slopes + begin, 1, count}, query.from(first), query.apart, to_key.from(begin), to_key.apart, begin < before);
            multiply_small(end - begin, w, places, {shares + begin, 1, count}, given.from(first), given.apart, to_value.from(begin), to_value.apart, begin < before);
          }
        });
      }
      to_asking.put(sample);
      if (!itself) to_known.put(sample);
    }
    found[0] = to_queries;
    if (!itself) found[1] = to_keys;
    return found;
  }
};

}  // namespace

bool attends_by_blocks(const Attended& of, const NetworkOptions& options) {
  const auto& x = of.queries;
  const auto type = x.scalar_type();
  return options.kernels == Kernels::fast && at::get_num_threads() == 1 && x.is_cpu() && x.numel() > 0 && of.keys_values.scalar_type() == type &&
         (type == at::kBFloat16 || (type == at::kFloat && !at::autocast::is_autocast_enabled(at::kCPU))) && x.stride(2) == 1 && of.keys_values.stride(2) == 1 && of.keys_values.numel() > 0 && (!of.causal || of.keys_values.size(1) == x.size(1)) &&
         (!of.visible.defined() || (!of.causal && of.visible.sizes() == at::IntArrayRef({x.size(0), 1, 1, of.keys_values.size(1)})));
}

at::Tensor attend_by_blocks(const Attended& of) {
  const auto b = blocks_of(of);
  const auto options = plain_options(of.queries).dtype(at::kFloat);
  const bool itself = of.queries.is_same(of.keys_values);
  at::Tensor out, log_sums, hidden;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = at::empty({b.samples, b.places, of.features}, plain_options(of.queries));
    log_sums = at::empty({b.samples, b.heads, b.places}, options);
    hidden = hidden_of(of.visible, b.seen);
    const auto at_keys = offset_of_keys(of), at_values = at_keys + of.features, w = b.width;
    const Scratch shares(b.places_at_once * b.seen), inverse(b.places_at_once), keys_across(b.seen * w);
    const WideSample asking(of.queries), known(of.keys_values), answers(out);
    for (std::int64_t sample = 0; sample < b.samples; ++sample) {
      const auto queries_of = asking.read(sample), keys_of = itself ? queries_of : known.read(sample), out_of = answers.place(sample);
      for (std::int64_t h = 0; h < b.heads; ++h) {
        const auto query = head_of(queries_of, h * w), key = head_of(keys_of, at_keys + h * w), value = head_of(keys_of, at_values + h * w), to = head_of(out_of, h * w);
        transpose_small(b.seen, w, key.at, key.apart, keys_across);
        float* const sums = log_sums.mutable_data_ptr<float>() + (sample * b.heads + h) * b.places;
        for_blocks(b, [&](const Block& block) {
          const auto& [first, places, count, before] = block;
          multiply_small(places, count, w, query.factor(first), keys_across, b.seen, shares, count, false);
          soften_scores(rows_of(b, block, sample, hidden), shares, sums + first, b.places, inverse);
          multiply_small(places, w, count, {shares, count, 1}, value.at, value.apart, to.from(first), to.apart, false);
          for (std::int64_t place = 0; place < places; ++place)
            for (std::int64_t i = 0; i < w; ++i) to.from(first + place)[i] *= inverse[place];
        });
      }
      answers.put(sample);
    }
  }
  if (!torch::autograd::compute_requires_grad(of.queries, of.keys_values)) return out;
  auto node = c10::make_intrusive<AttentionNode>();
  node->itself = itself;
  node->add_next_edge(edge_of(of.queries));
  node->queries = SavedVariable(of.queries, false);
  if (!node->itself) {
    node->add_next_edge(edge_of(of.keys_values));
    node->keys_values = SavedVariable(of.keys_values, false);
  }
  node->how = {{}, {}, of.heads, of.features, of.causal, {}};
  node->hidden = hidden;
  node->log_sums = log_sums;
  torch::autograd::set_history(out, node);
  return out;
}

}  // namespace ddl
