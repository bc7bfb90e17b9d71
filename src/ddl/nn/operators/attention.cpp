#include "ddl/nn/operators/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "ddl/nn/element_type.h"
#include "ddl/nn/gradient_edge.h"
#include "ddl/nn/kernels/attention.h"
#include "ddl/nn/kernels/small_products.h"
#include "ddl/nn/kernels/widen.h"
#include "ddl/nn/operators/autograd_node.h"
#include "ddl/nn/operators/product.h"
#include "ddl/nn/threads.h"

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

/// Features of one head in fp32: of place p `width` of them at `at` + p * `apart`.
struct Head {
  float* at;
  std::int64_t apart;

  float* from(std::int64_t place) const { return at + place * apart; }
  SmallFactor factor(std::int64_t place) const { return {from(place), apart, 1}; }
};

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

/// Fp32 to work in, as much for each thread.
class Scratch {
 public:
  explicit Scratch(std::int64_t elements) : elements_(elements), memory_(at::empty({at::get_num_threads() * elements}, at::TensorOptions(at::kFloat))), at_(memory_.mutable_data_ptr<float>()) {}
  float* of_thread() const { return at_ + at::get_thread_num() * elements_; }

 private:
  std::int64_t elements_;
  at::Tensor memory_;
  float* at_;
};

/// A thread's memory in parts of so many elements, each from a cache line's begin on.
template <std::size_t kParts>
struct Cut {
  std::array<std::int64_t, kParts> parts;

  static std::int64_t whole(std::int64_t elements) { return (elements + 15) / 16 * 16; }
  std::int64_t elements() const {
    return std::accumulate(parts.begin(), parts.end(), std::int64_t{0}, [](std::int64_t sum, std::int64_t part) { return sum + whole(part); });
  }
  std::array<float*, kParts> of(float* memory) const {
    std::array<float*, kParts> places{};
    for (std::size_t i = 0; i < kParts; memory += whole(parts[i++])) places[i] = memory;
    return places;
  }
};
template <typename... Sizes>
Cut(Sizes...) -> Cut<sizeof...(Sizes)>;

/// A head of a tensor [samples, places, features] in fp32, one after the other: where it lies or, of what is narrower, in memory of its own. Products of heads are small, and no faster in 16 bits.
template <typename T>
class WideHeads {
 public:
  static constexpr bool kNarrow = !std::is_same_v<T, float>;

  /// `offset`: of the first head's features.
  WideHeads(const Blocks& b, const at::Tensor& of, std::int64_t offset) : from_(places<T>(of) + offset), of_sample_(of.stride(0)), of_place_(of.stride(1)), places_(of.size(1)), width_(b.width), heads_(b.heads) {}

  /// Elements of memory that it needs of a thread's.
  std::int64_t needs() const { return kNarrow ? places_ * width_ : 0; }
  /// `number`: of the samples' heads.
  Head read(std::int64_t number, float* own) const {
    if constexpr (kNarrow)
      for (std::int64_t place = 0; place < places_; ++place) widen_elements(at(number) + place * of_place_, false, own + place * width_, width_);
    return place(number, own);
  }
  /// To be written, and then put.
  Head place(std::int64_t number, float* own) const {
    if constexpr (kNarrow)
      return {own, width_};
    else
      return {at(number), of_place_};
  }
  void put(std::int64_t number, const float* own) const {
    if constexpr (kNarrow)
      for (std::int64_t place = 0; place < places_; ++place) narrow_elements(own + place * width_, at(number) + place * of_place_, width_);
  }

 private:
  T* at(std::int64_t number) const { return from_ + number / heads_ * of_sample_ + number % heads_ * width_; }

  T* from_;
  std::int64_t of_sample_, of_place_, places_, width_, heads_;
};

/// `f(number)` for heads of samples, by all threads.
template <typename F>
void for_heads(const Blocks& b, F&& f) {
  share_out(b.samples * b.heads, b.places * b.seen, [&](std::int64_t begin, std::int64_t end) {
    for (auto number = begin; number < end; ++number) f(number);
  });
}

ScoreRows rows_of(const Blocks& b, const Block& block, std::int64_t sample, const at::Tensor& hidden) {
  return {1, block.places, block.keys, block.first, b.causal, hidden.defined() ? hidden.const_data_ptr<float>() + sample * b.seen : nullptr, b.scale};
}

/// 0 where it is seen, minus infinity where not.
at::Tensor hidden_of(const at::Tensor& visible, std::int64_t seen) {
  if (!visible.defined()) return {};
  return at::zeros({visible.size(0), seen}, at::kFloat).masked_fill_(visible.view({visible.size(0), seen}).logical_not(), -std::numeric_limits<double>::infinity());
}

std::int64_t offset_of_keys(const Attended& of) { return of.queries.is_same(of.keys_values) ? of.features : 0; }

template <typename T>
void attend(const Attended& of, const at::Tensor& hidden, const at::Tensor& out, const at::Tensor& log_sums) {
  const auto b = blocks_of(of);
  const auto at_keys = offset_of_keys(of), w = b.width;
  const WideHeads<T> queries(b, of.queries, 0), keys(b, of.keys_values, at_keys), values(b, of.keys_values, at_keys + of.features), answers(b, out, 0);
  const Cut cut{b.places_at_once * b.seen, b.places_at_once, b.seen * w, queries.needs(), keys.needs(), values.needs(), answers.needs()};
  const Scratch memory(cut.elements());
  auto* const all_sums = log_sums.mutable_data_ptr<float>();
  for_heads(b, [&](std::int64_t number) {
    const auto [shares, inverse, keys_across, own_query, own_key, own_value, own_answer] = cut.of(memory.of_thread());
    const auto query = queries.read(number, own_query), key = keys.read(number, own_key), value = values.read(number, own_value), to = answers.place(number, own_answer);
    transpose_small(b.seen, w, key.at, key.apart, keys_across);
    float* const sums = all_sums + number * b.places;
    for_blocks(b, [&](const Block& block) {
      const auto& [first, places, count, before] = block;
      multiply_small(places, count, w, query.factor(first), keys_across, b.seen, shares, count, false);
      soften_scores(rows_of(b, block, number / b.heads, hidden), shares, sums + first, b.places, inverse);
      multiply_small(places, w, count, {shares, count, 1}, value.at, value.apart, to.from(first), to.apart, false);
      for (std::int64_t place = 0; place < places; ++place)
        for (std::int64_t i = 0; i < w; ++i) to.from(first + place)[i] *= inverse[place];
    });
    answers.put(number, own_answer);
  });
}

/// From the gradient of what was answered to those of queries, and of keys and values: of another tensor or the same.
template <typename T>
void go_back(const Attended& of, const at::Tensor& hidden, const at::Tensor& log_sums, const at::Tensor& gradient, const at::Tensor& to_queries, const at::Tensor& to_keys) {
  const auto b = blocks_of(of);
  const auto at_keys = offset_of_keys(of), at_values = at_keys + of.features, w = b.width;
  const WideHeads<T> queries(b, of.queries, 0), keys(b, of.keys_values, at_keys), values(b, of.keys_values, at_values), answers(b, gradient, 0);
  const WideHeads<T> query_slopes(b, to_queries, 0), key_slopes(b, to_keys, at_keys), value_slopes(b, to_keys, at_values);
  const auto scores = b.places_at_once * b.seen, across = b.seen * w;
  const Cut cut{scores, scores, across, across, queries.needs(), keys.needs(), values.needs(), answers.needs(), query_slopes.needs(), key_slopes.needs(), value_slopes.needs()};
  const Scratch memory(cut.elements());
  const auto* const all_sums = log_sums.const_data_ptr<float>();
  for_heads(b, [&](std::int64_t number) {
    const auto [shares, slopes, keys_across, values_across, own_query, own_key, own_value, own_answer, own_to_query, own_to_key, own_to_value] = cut.of(memory.of_thread());
    const auto query = queries.read(number, own_query), key = keys.read(number, own_key), value = values.read(number, own_value), given = answers.read(number, own_answer);
    const auto to_query = query_slopes.place(number, own_to_query), to_key = key_slopes.place(number, own_to_key), to_value = value_slopes.place(number, own_to_value);
    transpose_small(b.seen, w, key.at, key.apart, keys_across);
    transpose_small(b.seen, w, value.at, value.apart, values_across);
    const float* const sums = all_sums + number * b.places;
    for_blocks(b, [&](const Block& block) {
      const auto& [first, places, count, before] = block;
      multiply_small(places, count, w, query.factor(first), keys_across, b.seen, shares, count, false);
      multiply_small(places, count, w, given.factor(first), values_across, b.seen, slopes, count, false);
      soften_backward(rows_of(b, block, number / b.heads, hidden), sums + first, b.places, shares, slopes);
      multiply_small(places, w, count, {slopes, count, 1}, key.at, key.apart, to_query.from(first), to_query.apart, false);
      // Keys that blocks before saw have a sum already.
      for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>(0, before), {before, count}}) {
        multiply_small(end - begin, w, places, {slopes + begin, 1, count}, query.from(first), query.apart, to_key.from(begin), to_key.apart, begin < before);
        multiply_small(end - begin, w, places, {shares + begin, 1, count}, given.from(first), given.apart, to_value.from(begin), to_value.apart, begin < before);
      }
    });
    query_slopes.put(number, own_to_query);
    key_slopes.put(number, own_to_key);
    value_slopes.put(number, own_to_value);
  });
}

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
    const auto to_queries = at::empty(of.queries.sizes(), plain_options(of.queries)), to_keys = itself ? to_queries : at::empty(of.keys_values.sizes(), plain_options(of.queries));
    with_single_type(of.queries, [&](auto zero) { go_back<decltype(zero)>(of, hidden, log_sums, gradient, to_queries, to_keys); });
    found[0] = to_queries;
    if (!itself) found[1] = to_keys;
    return found;
  }
};

}  // namespace

bool attends_by_blocks(const Attended& of, const NetworkOptions& options) {
  const auto& x = of.queries;
  const auto type = x.scalar_type();
  return options.kernels == Kernels::fast && x.is_cpu() && x.numel() > 0 && of.keys_values.scalar_type() == type &&
         (type == at::kBFloat16 || (type == at::kFloat && !at::autocast::is_autocast_enabled(at::kCPU))) && x.stride(2) == 1 && of.keys_values.stride(2) == 1 && of.keys_values.numel() > 0 && (!of.causal || of.keys_values.size(1) == x.size(1)) &&
         (!of.visible.defined() || (!of.causal && of.visible.sizes() == at::IntArrayRef({x.size(0), 1, 1, of.keys_values.size(1)})));
}

at::Tensor attend_by_blocks(const Attended& of) {
  const auto b = blocks_of(of);
  const auto options = plain_options(of.queries).dtype(at::kFloat);
  at::Tensor out, log_sums, hidden;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = at::empty({b.samples, b.places, of.features}, plain_options(of.queries));
    log_sums = at::empty({b.samples, b.heads, b.places}, options);
    hidden = hidden_of(of.visible, b.seen);
    with_single_type(out, [&](auto zero) { attend<decltype(zero)>(of, hidden, out, log_sums); });
  }
  if (!torch::autograd::compute_requires_grad(of.queries, of.keys_values)) return out;
  auto node = make_node<AttentionNode>();
  node->itself = of.queries.is_same(of.keys_values);
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
