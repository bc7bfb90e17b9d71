#include "ddl/predict/datasheet/gpt_memory.h"

#include <algorithm>
#include <cmath>

#include "ddl/predict/datasheet/gpt_step.h"
#include "ddl/predict/datasheet/library.h"

namespace ddl {
namespace {

class GptMemory {
 public:
  GptMemory(const GptStep& step, const GptKept& kept, double recomputes, bool flash)
      : w_(step), kept_(kept), full_(step.recompute == GptStep::Recompute::full ? recomputes : 0), flash_(flash), rows_(step.micro_batch * step.sequence), wide_(step.value_bytes > 2) {}

  std::vector<GptStageBytes> run() const {
    std::vector<GptStageBytes> out;
    const auto blocks = layers_of_stages(w_);
    for (std::size_t stage = 0; stage < blocks.size(); ++stage) out.push_back({tensors(static_cast<double>(stage), blocks[stage]), cached(static_cast<double>(stage), blocks[stage])});
    return out;
  }

 private:
  bool last(double stage) const { return stage + 1 == w_.pipeline; }

  double words_here() const { return std::ceil(w_.vocabulary / w_.tensor / 128) * 128; }
  double key_share() const { return (w_.key_heads > 0 ? w_.key_heads : w_.heads) / w_.heads; }

  double parameters(double stage, double blocks) const {
    const double h = w_.hidden, t = w_.tensor, f = w_.ffn, keys = key_share(), table = words_here() * h;
    double sum = blocks * ((2 + 2 * keys) * h * h / t + (1 + 2 * keys) * h / t + h + 2 * f * h / t + f / t + h + 4 * h);
    if (stage == 0) sum += table + w_.sequence * h;
    if (last(stage)) sum += 2 * h + (kept_.output_layer && (w_.pipeline > 1 || untied()) ? table : 0);
    return sum;
  }

  bool untied() const { return kept_.untied || w_.untied; }

  /// Of one parameter: weight and gradient (in 32 bits unless told), 32-bit masters where weights have 16, two moments.
  double state() const {
    const double own = wide_ ? 8 : 2 + kept_.gradient_bytes, optimizer = wide_ ? 8 : 12;
    return own + optimizer / (w_.shards_optimizer ? w_.data : 1);
  }

  double value() const { return w_.value_bytes; }

  double scores() const { return flash_ ? 0 : w_.heads * w_.sequence * rows_ / w_.tensor; }

  /// Of a layer whose activations are all kept.
  double whole_layer() const {
    const double spread = w_.sequence_parallel ? w_.tensor : 1, split = 2 + 2 * key_share() + kept_.mlp_values * w_.ffn / w_.hidden;
    return rows_ * w_.hidden * ((kept_.whole_values * value() + kept_.whole_masks) / spread + split * value() / w_.tensor) + scores() * (kept_.score_values * value() + kept_.score_masks);
  }

  double layer() const {
    if (full_ > 0) return rows_ * w_.hidden * value() / (w_.sequence_parallel ? w_.tensor : 1);
    return whole_layer() - (w_.recompute == GptStep::Recompute::selective ? scores() * (kept_.score_values * value() + kept_.score_masks) : 0);
  }

  /// Micro-batches whose activations a stage holds at once, of all its layers. Of interleaved chunks those that warm up (Narayanan et al. 2021), and one.
  double alive(double stage) const {
    const double p = w_.pipeline, v = w_.chunks, micro_batches = w_.global_batch / (w_.data * w_.micro_batch);
    if (v <= 1) return std::min(p - stage, micro_batches);
    return std::min((2 * (p - stage - 1) + (v - 1) * p + 1) / v, micro_batches);
  }

  double cached(double stage, double blocks) const {
    return parameters(stage, blocks) * 4 * kept_.gradient_copies + (w_.tensor > 1 ? blocks * kept_.held_values * rows_ * w_.hidden * value() : 0);
  }

  double tensors(double stage, double blocks) const {
    const double hidden = rows_ * w_.hidden * value();
    double sum = parameters(stage, blocks) * state() + alive(stage) * blocks * layer() + full_ * whole_layer() + kept_.scores_made * scores() * value();
    sum += alive(stage) * kept_.edge_values * hidden * ((stage > 0 && kept_.edge_given ? 1 : 0) + (last(stage) ? 0 : 1));
    if (last(stage)) {
      const double each = kept_.logits * 4 + (wide_ ? 0 : 2);
      sum += kept_.output_layer ? rows_ * words_here() * each + hidden : rows_ * w_.hidden * each;
    }
    return sum;
  }

  const GptStep& w_;
  const GptKept& kept_;
  double full_;
  bool flash_;
  double rows_;
  bool wide_;  ///< values of 32 bits, which need no masters
};

}  // namespace

GptKept gpt_kept(const Json& memory) {
  GptKept out;
  const auto number = [&](const char* key) { return term(memory, key); };
  out.whole_values = number("whole_values");
  out.whole_masks = number("whole_masks");
  out.mlp_values = number("mlp_values");
  out.score_values = number("score_values");
  out.score_masks = number("score_masks");
  out.scores_made = number("scores_made");
  out.edge_values = number("edge_values");
  out.edge_given = memory.value("edge_given", true);
  out.logits = number("logits");
  out.output_layer = memory.value("output_layer", true);
  out.untied = memory.value("untied", false);
  out.gradient_bytes = term_or(memory, "gradient_bytes", 4);
  out.gradient_copies = number("gradient_copies");
  out.held_values = number("held_values");
  out.context = number("context_bytes");
  return out;
}

std::vector<GptStageBytes> gpt_stage_bytes(const GptStep& step, const GptKept& kept, double recomputes, bool flash) { return GptMemory(step, kept, recomputes, flash).run(); }

}  // namespace ddl
