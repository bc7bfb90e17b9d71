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
#include "ddl/nn/multiplier.h"
#include "ddl/nn/operators/product.h"

namespace ddl {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// How it is cut: scores of so many heads and places at once.
struct Blocks {
  std::int64_t samples, places, seen, heads, width;  ///< width: features of a head
  bool causal;
  std::int64_t places_at_once, heads_at_once;
  float scale;
};

Blocks blocks_of(const Attended& of) {
  constexpr std::int64_t kScores = std::int64_t{1} << 17, kPlaces = 64;
  Blocks b{of.queries.size(0), of.queries.size(1), of.keys_values.size(1), of.heads, of.features / of.heads, of.causal, 0, 0, 0};
  b.places_at_once = std::min(b.places, kPlaces);
  b.heads_at_once = std::clamp<std::int64_t>(kScores / (b.places_at_once * b.seen), 1, b.heads);
  b.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(b.width)));
  return b;
}

/// Of a sample's place `first` on and head `head` on, from feature `offset` of each place: [heads, places, width], wherever they lie.
at::Tensor heads_of(const at::Tensor& projected, std::int64_t offset, const Blocks& b, std::int64_t head, std::int64_t heads, std::int64_t first, std::int64_t places) {
  const auto apart = projected.stride(0);
  return projected.as_strided({heads, places, b.width}, {b.width, apart, 1}, projected.storage_offset() + first * apart + offset + head * b.width);
}

/// A block: of one sample, some heads and some places, which see the first `keys`.
struct Block {
  std::int64_t sample, head, heads, first, places, keys;
};

template <typename F>
void for_blocks(const Blocks& b, std::int64_t sample, F&& f) {
  for (std::int64_t head = 0; head < b.heads; head += b.heads_at_once)
    for (std::int64_t first = 0; first < b.places; first += b.places_at_once) {
      const auto places = std::min(b.places_at_once, b.places - first);
      f(Block{sample, head, std::min(b.heads_at_once, b.heads - head), first, places, b.causal ? std::min(b.seen, first + places) : b.seen});
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

/// Memory of a block, which each takes the beginning of.
class Scratch {
 public:
  Scratch(std::int64_t elements, const at::TensorOptions& options) : memory_(at::empty({elements}, options)) {}
  at::Tensor of(at::IntArrayRef sizes) const { return memory_.narrow(0, 0, c10::multiply_integers(sizes)).view(sizes); }

 private:
  at::Tensor memory_;
};

ScoreRows rows_of(const Blocks& b, const Block& block, const at::Tensor& hidden) {
  return {block.heads, block.places, block.keys, block.first, b.causal, hidden.defined() ? hidden.const_data_ptr<float>() + block.sample * b.seen : nullptr, b.scale};
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
    const auto options = plain_options(log_sums);
    const auto to_queries = at::empty(of.queries.sizes(), plain_options(of.queries)), to_keys = itself ? to_queries : at::empty(of.keys_values.sizes(), plain_options(of.queries));
    const WideSample asking(of.queries), known_of(of.keys_values), given_to(gradient), to_asking(to_queries), to_known(to_keys);
    const auto at_keys = offset_of_keys(of), at_values = at_keys + of.features;
    const auto most = b.heads_at_once * b.places_at_once;
    const Scratch scores(most * b.seen, options), slopes(most * b.seen, options), part(most * b.width, options), keys(b.heads_at_once * b.seen * b.width, options), values(b.heads_at_once * b.seen * b.width, options);
    const auto backward = [&](const Block& block, const at::Tensor& queries_of, const at::Tensor& keys_of, const at::Tensor& gradient_of, const at::Tensor& to_queries_of, const at::Tensor& to_keys_of) {
      const auto& [sample, head, heads, first, places, count] = block;
      const auto seen_of = [&](std::int64_t offset) { return heads_of(keys_of, offset, b, head, heads, 0, count); };
      const auto asked = heads_of(queries_of, 0, b, head, heads, first, places), known = seen_of(at_keys), given = heads_of(gradient_of, 0, b, head, heads, first, places);
      auto shares = scores.of({heads, places, count}), slope = slopes.of({heads, places, count});
      multiply_into(shares, asked, known.transpose(1, 2));
      multiply_into(slope, given, seen_of(at_values).transpose(1, 2));
      soften_backward(rows_of(b, block, hidden), log_sums.const_data_ptr<float>() + (sample * b.heads + head) * b.places + first, b.places, shares.data_ptr<float>(), slope.data_ptr<float>());
      auto some = part.of({heads, places, b.width});
      multiply_into(some, slope, known);
      heads_of(to_queries_of, 0, b, head, heads, first, places).copy_(some);
      auto of_keys = keys.of({heads, b.seen, b.width}), of_values = values.of({heads, b.seen, b.width});
      if (first == 0 && count < b.seen) of_keys.zero_(), of_values.zero_();
      for (std::int64_t h = 0; h < heads; ++h) {
        auto k = of_keys[h].narrow(0, 0, count), v = of_values[h].narrow(0, 0, count);
        multiply_into(k, slope[h].t(), asked[h], first > 0);
        multiply_into(v, shares[h].t(), given[h], first > 0);
      }
      if (first + places < b.places) return;
      heads_of(to_keys_of, at_keys, b, head, heads, 0, b.seen).copy_(of_keys);
      heads_of(to_keys_of, at_values, b, head, heads, 0, b.seen).copy_(of_values);
    };
    for (std::int64_t sample = 0; sample < b.samples; ++sample) {
      const auto queries_of = asking.read(sample), keys_of = itself ? queries_of : known_of.read(sample), gradient_of = given_to.read(sample);
      const auto to_queries_of = to_asking.place(sample), to_keys_of = itself ? to_queries_of : to_known.place(sample);
      for_blocks(b, sample, [&](const Block& block) { backward(block, queries_of, keys_of, gradient_of, to_queries_of, to_keys_of); });
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
         (type == at::kBFloat16 || (type == at::kFloat && !at::autocast::is_autocast_enabled(at::kCPU))) && x.stride(2) == 1 && of.keys_values.stride(2) == 1 && of.keys_values.numel() > 0 &&
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
    const auto at_keys = offset_of_keys(of), at_values = at_keys + of.features, most = b.heads_at_once * b.places_at_once;
    const Scratch scores(most * b.seen, options), means(most * b.width, options), divisors(most, options);
    const WideSample asking(of.queries), known(of.keys_values), answers(out);
    const auto forward = [&](const Block& block, const at::Tensor& queries_of, const at::Tensor& keys_of, const at::Tensor& out_of) {
      const auto& [sample, head, heads, first, places, count] = block;
      auto shares = scores.of({heads, places, count}), mean = means.of({heads, places, b.width}), inverse = divisors.of({heads, places, 1});
      multiply_into(shares, heads_of(queries_of, 0, b, head, heads, first, places), heads_of(keys_of, at_keys, b, head, heads, 0, count).transpose(1, 2));
      soften_scores(rows_of(b, block, hidden), shares.data_ptr<float>(), log_sums.data_ptr<float>() + (sample * b.heads + head) * b.places + first, b.places, inverse.data_ptr<float>());
      multiply_into(mean, shares, heads_of(keys_of, at_values, b, head, heads, 0, count));
      auto to = heads_of(out_of, 0, b, head, heads, first, places);
      at::mul_out(to, mean, inverse);
    };
    for (std::int64_t sample = 0; sample < b.samples; ++sample) {
      const auto queries_of = asking.read(sample), keys_of = itself ? queries_of : known.read(sample), out_of = answers.place(sample);
      for_blocks(b, sample, [&](const Block& block) { forward(block, queries_of, keys_of, out_of); });
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
