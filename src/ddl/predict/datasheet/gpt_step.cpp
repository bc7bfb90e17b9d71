#include "ddl/predict/datasheet/gpt_step.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ddl/core/error.h"
#include "ddl/predict/datasheet/library.h"

namespace ddl {
namespace {

/// Two things that go on at once, the longer of which decides; smooth where they are alike.
double beside(double a, double b, double norm) {
  const double most = std::max({a, b, 1e-15});
  return most * std::pow(std::pow(a / most, norm) + std::pow(b / most, norm), 1 / norm);
}

/// Forward and backward.
struct Both {
  double forward = 0, backward = 0;
  double sum() const { return forward + backward; }
};

class GptPricing {
 public:
  GptPricing(const GptStep& step, const Gpu& gpu, const GpuKernels& kernels, const GptStack& stack)
      : w_(step), gpu_(gpu), k_(kernels), own_(stack), stages_(layers_of_stages(step)), longest_(*std::max_element(stages_.begin(), stages_.end())), rows_(step.micro_batch * step.sequence), value_(step.value_bytes * rows_ * step.hidden), flash_(step.flash || stack.flash), full_(step.recompute == GptStep::Recompute::full ? stack.recomputes : 0) {}

  GptSeconds run() const {
    const double micro_batches = w_.global_batch / (w_.data * w_.micro_batch), p = w_.pipeline, t = w_.tensor;
    const double layers = longest_;
    const bool alone = p == 1;
    const auto one = layer(), host = host_layer(), head = logits();
    const double embedding = embed();
    const auto stage = [&](double blocks, double more_forward, double more_backward) {
      return beside(blocks * one.forward + more_forward, blocks * host.forward + own_.host_stage, k_.host_norm) + beside(blocks * one.backward + more_backward, blocks * host.backward + own_.host_stage, k_.host_norm);
    };
    // Of a pipeline's inner stages the longest; where it has none, what an even one would be.
    const double middle = stage(p > 2 ? *std::max_element(stages_.begin() + 1, stages_.end() - 1) : w_.layers / p, 0, 0);
    const double last = stage(stages_.back(), head.forward + (alone ? embedding : 0), head.backward + (alone ? 0.5 * embedding : 0));
    const double first = alone ? last : stage(stages_.front(), 0, 0) + 1.5 * embedding;
    const double send = send_seconds();
    const double nodes = t * w_.data * p / gpu_.per_node;

    GptSeconds out;
    const double top = std::max({middle, last, first}) + 2 * send * w_.chunks;
    out.passes = micro_batches * top;
    out.exchange = micro_batches * layers * exchange_of_layer();
    out.send = micro_batches * 2 * send * w_.chunks;
    out.fill = alone ? 0 : (std::max(p - 2, 0.0) * middle + std::min(first, last)) / w_.chunks + 2 * send * (p - 1);
    out.stragglers = (out.passes + out.fill) * (own_.slowdown_per_doubling > 0 ? own_.slowdown_per_doubling : k_.slowdown_per_doubling) * std::log2(std::max(nodes, 1.0));
    out.gradients = gradients({layers * one.forward, layers * one.backward}, micro_batches);
    out.tied = tied();
    out.update = own_.update_bytes * parameters() / (w_.shards_optimizer ? w_.data : 1) / (gpu_.bandwidth * k_.update_bandwidth) + own_.step;
    out.total = out.passes + out.fill + out.stragglers + out.gradients + out.tied + out.update;
    const auto known = own_.shapes.find({static_cast<int>(t), static_cast<int>(w_.hidden), static_cast<int>(w_.micro_batch)});
    if (known != own_.shapes.end()) {
      out.known_shape = true;
      out.shape = out.total * (std::exp(known->second) - 1);
      out.total += out.shape;
    }
    out.stage_bytes = gpt_stage_bytes(as_stored(), own_.kept, own_.recomputes, flash_);
    return out;
  }

 private:
  double gemm(double rows, double columns, double inner, double batch = 1, double efficiency = 1) const { return k_.gemm(gpu_, rows, columns, inner, batch, own_.kernel, efficiency * own_.product_gain); }
  double pass(double bytes) const { return k_.pass(gpu_, bytes); }

  /// Megatron's fused softmax wants heads by samples in fours.
  bool unfused() const { return !flash_ && std::fmod(w_.micro_batch * w_.heads / w_.tensor, 4) != 0; }

  /// Whether tensor parallel workers do not fit a node.
  bool tensor_spans_nodes() const { return w_.tensor > gpu_.per_node; }

  /// An all-reduce among tensor parallel workers.
  double tensor_all_reduce(double bytes) const { return tensor_spans_nodes() ? k_.all_reduce_across(gpu_, bytes, w_.tensor, gpu_.per_node) : k_.all_reduce_in_node(gpu_, bytes, w_.tensor); }

  /// An all-reduce of a hidden tensor.
  double tensor_exchange() const {
    return tensor_all_reduce(value_) / (tensor_spans_nodes() ? 1 : own_.tensor_bandwidth) + (w_.tensor > 1 ? own_.tensor_message / (1 + std::pow(own_.tensor_message_bytes / value_, 4)) : 0);
  }

  bool overlaps_tensor() const { return own_.tensor_overlap && w_.tensor > 1 && w_.sequence_parallel && w_.overlaps; }

  /// A layer's products with its weights, and the exchanges among tensor parallel workers: two all-reduces each way. Sequence parallel they are four all-gathers and reduce-scatters forward and six
  /// backward (what products were given is gathered anew for the gradients of their weights), each beside a product. `exchange`: seconds of one, half an all-reduce; 0 leaves them out.
  Both linear(double exchange) const {
    const double h = w_.hidden, t = w_.tensor, f = w_.ffn / t, keys = w_.key_heads > 0 ? w_.key_heads / w_.heads : 1, qkv = (1 + 2 * keys) * h / t;
    const auto of_weights = [&](double rows, double columns) { return gemm(rows, columns, rows_) + rows * columns * own_.accumulate_bytes / (gpu_.bandwidth * k_.gemm_bandwidth); };
    if (!overlaps_tensor())
      return {gemm(rows_, qkv, h) + gemm(rows_, h, h / t) + gemm(rows_, f, h) + gemm(rows_, h, f) + 4 * exchange,
              gemm(rows_, h, qkv) + of_weights(h, qkv) + gemm(rows_, h / t, h) + of_weights(h / t, h) + gemm(rows_, h, f) + of_weights(h, f) + gemm(rows_, f, h) + of_weights(f, h) + 4 * exchange};
    const auto& over = own_.tensor_overlap;
    const auto gathered = [&](double product) { return over.gathered(product, exchange, t); };
    const auto scattered = [&](double product) { return over.scattered(product, exchange); };
    const auto beside_it = [&](double product) { return over.beside(product, exchange); };
    return {gathered(gemm(rows_, qkv, h)) + scattered(gemm(rows_, h, h / t)) + gathered(gemm(rows_, f, h)) + scattered(gemm(rows_, h, f)),
            beside_it(gemm(rows_, h, qkv)) + beside_it(of_weights(h, qkv)) + gathered(gemm(rows_, h / t, h)) + of_weights(h / t, h) + beside_it(gemm(rows_, h, f)) + beside_it(of_weights(h, f)) +
                gathered(gemm(rows_, f, h)) + of_weights(f, h)};
  }

  /// What exchanges add to a layer, recomputation included.
  double exchange_of_layer() const {
    const auto with = linear(tensor_exchange() / 2), without = linear(0);
    return with.sum() - without.sum() + full_ * (with.forward - without.forward);
  }

  double flash_efficiency() const { return own_.flash_efficiency_hopper > 0 && gpu_.compute_capability >= 9 ? own_.flash_efficiency_hopper : k_.flash_efficiency; }

  /// One layer on the GPU, its recomputation with backward.
  Both layer() const {
    const double h = w_.hidden, t = w_.tensor, s = w_.sequence, f = w_.ffn, each = h / w_.heads, products = w_.micro_batch * w_.heads / t;
    const double scores = flash_ ? 0 : w_.value_bytes * w_.heads * s * s * w_.micro_batch / t, part = w_.sequence_parallel ? 1 / t : 1;
    const auto weighted = linear(tensor_exchange() / 2);
    Both core;
    if (flash_) {
      core.forward = 2 * s * s * each * products / (gpu_.peak * flash_efficiency());  // causal: half of 4 s^2 d
      core.backward = 2.5 * core.forward;
    } else {
      const double both = gemm(s, s, each, products, k_.batched_gemm_efficiency) + gemm(s, each, s, products, k_.batched_gemm_efficiency);
      core.forward = both + pass((unfused() ? 12.5 : 4.5) * scores);
      core.backward = 2 * both + pass((unfused() ? 9.5 : 5.5) * scores);
    }
    const double pointwise = pass(11 * value_ * part + (2 * f / h + 3) * value_ / t) + 9 * own_.kernel;
    const double pointwise_back = pass(15 * value_ * part + (3 * f / h + 4) * value_ / t) + 20 * own_.kernel;
    Both out{weighted.forward + core.forward + pointwise, weighted.backward + core.backward + pointwise_back};
    const bool selective = w_.recompute == GptStep::Recompute::selective && !flash_;
    out.backward += full_ * out.forward + (selective ? (1 - full_) * core.forward : 0);
    return out;
  }

  Both host_layer() const {
    const double more = (unfused() ? own_.host_unfused_softmax : 0) + std::log2(w_.tensor) * own_.host_tensor;
    return {own_.host_forward + more, own_.host_backward + more + full_ * (own_.host_forward + more)};
  }

  /// The package's own where it is not the table's.
  double words() const { return own_.vocabulary > 0 ? own_.vocabulary : w_.vocabulary; }
  bool misaligned() const { return own_.vocabulary > 0 && w_.tensor == 1; }
  double words_here() const {
    return misaligned() ? words() : std::ceil(words() / w_.tensor / 128) * 128;
  }

  /// Logits and their loss.
  Both logits() const {
    const double here = words_here(), reached = misaligned() ? own_.misaligned_vocabulary : 1;
    // Sequence parallel workers gather what they multiply.
    const double gathered = w_.sequence_parallel ? 0.5 * tensor_all_reduce(value_) : 0;
    return {gemm(rows_, here, w_.hidden, 1, reached) + pass(0.6 * own_.loss_bytes * rows_ * here + 2 * value_) + 3 * tensor_all_reduce(4 * rows_) + gathered,
            gemm(rows_, w_.hidden, here, 1, reached) + gemm(here, w_.hidden, rows_, 1, reached) + pass(0.4 * own_.loss_bytes * rows_ * here + 3 * value_) + tensor_all_reduce(value_)};
  }

  double embed() const { return pass(10 * value_) + (w_.sequence_parallel ? 0.5 : 1) * tensor_all_reduce(value_); }

  /// Whether the group does not fit a node.
  bool spans_nodes() const { return w_.tensor * w_.data * w_.pipeline > gpu_.per_node; }

  double send_seconds() const {
    if (w_.pipeline <= 1) return 0;
    const double across = spans_nodes() ? std::min(w_.tensor * w_.data / gpu_.per_node, 1.0) : 0;
    // Sequence parallel workers have a part each, and need no more.
    const double inside = (w_.sequence_parallel ? value_ / w_.tensor : value_) / (0.5 * gpu_.bus);
    const double whole = w_.tensor > 1 && !w_.sequence_parallel ? 0.5 * tensor_all_reduce(value_) : 0;
    const double over_network = value_ / w_.tensor / (gpu_.network * k_.library.network_bandwidth()) + whole;
    return (own_.message + across * over_network + (1 - across) * inside) * (w_.chunks > 1 && w_.overlaps ? 0.2 : 1);
  }

  /// Of the stage that has most.
  double parameters() const {
    const double h = w_.hidden, keys = w_.key_heads > 0 ? w_.key_heads / w_.heads : 1;
    return longest_ * (((2 + 2 * keys) * h * h + 2 * w_.ffn * h) / w_.tensor + 9 * h) + (w_.untied && w_.pipeline == 1 ? 2 : 1) * words() * h / w_.tensor;
  }

  /// Of an all-reduce among data parallel workers.
  double data_exchange(double bytes) const {
    const double on_node = std::max(std::min(w_.data, gpu_.per_node / w_.tensor), 1.0);
    return w_.tensor * w_.data > gpu_.per_node ? k_.all_reduce_across(gpu_, bytes, w_.data, on_node) : k_.all_reduce_in_node(gpu_, bytes, std::min<double>(w_.data, gpu_.per_node));
  }

  /// Bytes of a gradient: what is told is of training in 16 bits.
  double gradient_bytes() const { return own_.gradient_bytes * w_.value_bytes / 2; }

  /// `stage`: its passes over one micro-batch.
  double gradients(const Both& stage, double micro_batches) const {
    if (w_.data <= 1) return 0;
    const double all = data_exchange(gradient_bytes() * parameters());
    if (own_.gather_bytes <= 0) {
      const double hidden = own_.gradients_hidden * (w_.pipeline == 1 || w_.overlaps ? 1 : 0);
      return all - std::min(hidden * all, 0.8 * stage.backward);
    }
    const double reduced = w_.shards_optimizer ? all / 2 : all, gathered = w_.shards_optimizer ? data_exchange(own_.gather_bytes * parameters()) / 2 : 0;
    if (!w_.overlaps) return reduced + gathered;
    // A layer's gradients are there once the last micro-batch's backward is through with it, a chunk's while the pipeline is in the last round of the others.
    if (w_.chunks <= 1) return exposed(reduced, stage.backward, longest_) + exposed(gathered, stage.forward, longest_);
    const double round = std::min(w_.pipeline, micro_batches) * (w_.chunks - 1) / w_.chunks;
    return exposed(reduced, round * stage.backward, w_.chunks) + exposed(gathered, round * stage.forward, w_.chunks);
  }

  double tied() const {
    if (w_.pipeline <= 1 || w_.untied) return 0;
    const double bytes = gradient_bytes() * words() * w_.hidden / w_.tensor;
    return spans_nodes() ? bytes / (gpu_.network * k_.library.network_bandwidth()) : k_.all_reduce_in_node(gpu_, bytes, 2);
  }

  /// As its memory sees it: with the package's own vocabulary.
  GptStep as_stored() const {
    auto step = w_;
    step.vocabulary = words();
    return step;
  }

  const GptStep& w_;
  const Gpu& gpu_;
  const GpuKernels& k_;
  const GptStack& own_;
  std::vector<double> stages_;  ///< layers of each
  double longest_;
  double rows_, value_;  ///< of every product; bytes of one hidden tensor
  bool flash_;
  double full_;
};

std::pair<double, double> range(const Json& fitted, const char* key, std::pair<double, double> otherwise) {
  return fitted.contains(key) ? std::pair(fitted[key].at(0).get<double>(), fitted[key].at(1).get<double>()) : otherwise;
}

std::vector<std::string> words(const Json& fitted, const char* key, std::vector<std::string> otherwise) { return fitted.contains(key) ? fitted[key].get<std::vector<std::string>>() : std::move(otherwise); }

GptFitted fitted_to(const Json& part) {
  GptFitted out;
  out.device = part.value("device", out.device);
  out.hidden = range(part, "hidden", out.hidden);
  out.devices = range(part, "devices", out.devices);
  out.micro_batch = range(part, "micro_batch", out.micro_batch);
  out.sequence = range(part, "seq", out.sequence);
  out.tensor = range(part, "tp", out.tensor);
  out.pipeline = range(part, "pp", out.pipeline);
  out.layers = range(part, "layers", out.layers);
  out.vocabulary = range(part, "vocab", out.vocabulary);
  out.head = range(part, "head", out.head);
  out.ffn = range(part, "ffn", out.ffn);
  out.chunks = range(part, "chunks", out.chunks);
  out.micro_batches = range(part, "micro_batches", out.micro_batches);
  out.precisions = words(part, "precisions", std::move(out.precisions));
  out.recompute = words(part, "recompute", std::move(out.recompute));
  out.sequence_parallel = part.value("sequence_parallel", false);
  out.overlap = part.value("overlap", false);
  out.sharded = part.value("sharded", false);
  out.grouped = part.value("grouped", false);
  return out;
}

void require_multiple(const char* what, double got, const char* of, double part) {
  if (std::fmod(got, part) != 0) throw Error(Code::invalid_argument, fmt::format("[predict] gpt: {}; got {}, expected a multiple of {}, {}", what, got, of, part));
}

void require(const GptStep& step) {
  for (const auto& [name, value] : {std::pair("hidden", step.hidden), {"layers", step.layers}, {"heads", step.heads}, {"seq", step.sequence}, {"tp", step.tensor}, {"pp", step.pipeline}, {"dp", step.data},
                                    {"micro_batch", step.micro_batch}, {"global_batch", step.global_batch}})
    if (!(value > 0)) throw Error(Code::invalid_argument, fmt::format("[predict] gpt: {}; got {}, expected a number above 0", name, value));
  if (step.global_batch < step.data * step.micro_batch)
    throw Error(Code::invalid_argument, fmt::format("[predict] gpt: a batch of {} is less than one micro-batch of {} for each of {} replicas", step.global_batch, step.micro_batch, step.data));
  require_multiple("global_batch", step.global_batch, "dp x micro_batch", step.data * step.micro_batch);
  require_multiple("hidden", step.hidden, "heads", step.heads);
  require_multiple("heads", step.heads, "tp", step.tensor);
  require_multiple("ffn", step.ffn, "tp", step.tensor);
  if (step.key_heads > 0) {
    require_multiple("heads", step.heads, "kv_heads", step.key_heads);
    // Fewer than workers are kept by several of them.
    if (step.key_heads >= step.tensor) require_multiple("kv_heads", step.key_heads, "tp", step.tensor);
    else require_multiple("tp", step.tensor, "kv_heads", step.key_heads);
  }
  if (step.chunks > 1 && step.pipeline <= 1) throw Error(Code::invalid_argument, fmt::format("[predict] gpt: interleave; got {}, expected 1 where pp is 1: a pipeline's stages have chunks", step.chunks));
  if (step.stages.empty()) require_multiple("layers", step.layers, step.chunks > 1 ? "pp x interleave" : "pp", step.pipeline * step.chunks);
  else if (step.chunks > 1) throw Error(Code::unsupported, "[predict] unsupported: gpt: stages of their own with interleaved chunks; expected one of the two");
}

}  // namespace

std::vector<double> layers_of_stages(const GptStep& step) {
  const auto count = static_cast<std::size_t>(step.pipeline);
  if (step.stages.empty()) return std::vector<double>(count, step.layers / step.pipeline);
  std::vector<double> layers(step.stages.begin(), step.stages.end());
  if (layers.size() != count) throw Error(Code::invalid_argument, fmt::format("[predict] gpt: stages; got {} of them, expected pp, {}", layers.size(), count));
  const double sum = std::accumulate(layers.begin(), layers.end(), 0.0);
  if (sum != step.layers && sum != step.layers + 2)
    throw Error(Code::invalid_argument, fmt::format("[predict] gpt: stages; got {} layers in all, expected {}, or {} with embedding and output layer", sum, step.layers, step.layers + 2));
  if (sum == step.layers + 2) {
    layers.front() -= 1;
    layers.back() -= 1;
  }
  return layers;
}

GptStack gpt_stack(const Json& stack) {
  const auto of = [&](const char* key) { return term(stack, fmt::format("gpt.{}", key)); };
  GptStack out;
  out.name = stack.value("name", "?");
  out.kernel = of("kernel_us") * 1e-6;
  out.host_forward = of("host_forward_ms") * 1e-3;
  out.host_backward = of("host_backward_ms") * 1e-3;
  out.host_tensor = of("host_tensor_ms") * 1e-3;
  out.host_unfused_softmax = of("host_unfused_softmax_ms") * 1e-3;
  out.host_stage = of("host_stage_ms") * 1e-3;
  out.update_bytes = of("update_bytes_per_parameter");
  out.step = of("step_ms") * 1e-3;
  out.message = of("message_ms") * 1e-3;
  out.tensor_message = of("tensor_message_ms") * 1e-3;
  out.tensor_message_bytes = of("tensor_message_bytes");
  out.tensor_bandwidth = of("tensor_bandwidth");
  out.loss_bytes = of("loss_bytes_per_logit");
  out.misaligned_vocabulary = of("misaligned_vocabulary_efficiency");
  out.gradient_bytes = of("gradient_bytes");
  out.recomputes = of("recomputes");
  out.gradients_hidden = of("gradients_hidden");
  const auto optional = [&](const char* key) { return term_or(stack, fmt::format("gpt.{}", key), 0); };
  out.gather_bytes = optional("gather_bytes");
  out.accumulate_bytes = optional("accumulate_bytes");
  out.flash_efficiency_hopper = optional("flash_efficiency_hopper");
  out.product_gain = term_or(stack, "gpt.product_gain", 1);
  out.slowdown_per_doubling = optional("slowdown_per_doubling_of_nodes");
  out.tensor_overlap = {optional("tensor_overlap.splits"), optional("tensor_overlap.taken")};
  out.interleaves = stack.at("gpt").value("interleaves", false);
  if (stack["gpt"].contains("fitted")) out.fitted = fitted_to(stack["gpt"]["fitted"]);
  out.vocabulary = of("vocabulary");
  out.sigma = of("sigma");
  out.sigma_of_known_shape = term_or(stack, "gpt.sigma_of_known_shape", out.sigma);
  out.flash = stack.at("gpt").value("flash", false);
  if (!stack["gpt"].contains("memory")) throw Error(Code::not_found, fmt::format("[machine] stack '{}' has no gpt.memory; expected what it keeps, as docs/model.md describes it", out.name));
  out.kept = gpt_kept(stack["gpt"]["memory"]);
  if (stack.at("gpt").contains("shapes"))
    for (const auto& shape : stack["gpt"]["shapes"])
      out.shapes[{shape.at("tensor").get<int>(), shape.at("hidden").get<int>(), shape.at("micro_batch").get<int>()}] = shape.at("log_multiplier").get<double>();
  return out;
}

GptSeconds price_gpt(const GptStep& step, const Gpu& gpu, const GpuKernels& kernels, const GptStack& stack) {
  require(step);
  auto as_trained = gpu;
  as_trained.value_bytes = step.value_bytes;
  return GptPricing(step, as_trained, kernels, stack).run();
}

}  // namespace ddl
