#pragma once

#include <vector>

#include "ddl/core/json.h"

namespace ddl {

struct GptStep;

/// What a training package keeps from forward to backward, counted tensor by tensor from its code: "gpt.memory" of a `ddlbench.stack/1`. A value is a number in the precision of
/// training, a mask one byte. Sizes of a layer: samples x seq x hidden of whole tensors, which every tensor parallel worker has, and its part of what is split.
struct GptKept {
  double whole_values = 4, whole_masks = 2;  ///< of a layer: what norms and column-split products were given; dropout's masks
  double mlp_values = 2;                     ///< of ffn's width, split: what the activation was given and what it gave
  double score_values = 2, score_masks = 1;  ///< of heads x seq x seq, split, without flash attention
  double scores_made = 0;                    ///< more of those, while one layer's backward runs
  double edge_values = 0;                    ///< whole tensors that a micro-batch holds beside its layers' where a stage is given one, and where it sends one
  bool edge_given = true;                    ///< whether what a stage is given counts there; where its first norm keeps it, it is in whole_values
  double logits = 2;                         ///< copies in 32 bits while the loss runs; one more in 16 bits where training has those
  bool output_layer = true;                  ///< otherwise the loss is of the last norm's output, as Sailor's GPT-Neo has it
  bool untied = false;                       ///< the output layer has weights of its own
  double gradient_bytes = 4;                 ///< of a gradient in 16-bit training
  double gradient_copies = 0;                ///< of all gradients, flat, once a step: too large for what activations leave, so that the allocator's cache has them beside those
  double held_values = 0;                    ///< whole tensors of each of a stage's layers that wait for their all-reduce among tensor parallel workers: the host is ahead, and the cache cannot use them again
  double context = 2.5e9;                    ///< bytes of the driver, of kernels and communicators: no tensors
};

GptKept gpt_kept(const Json& memory);

struct GptStageBytes {
  double tensors = 0;  ///< weights, gradients and Adam's state; activations of the micro-batches in flight; the output layer's
  double cached = 0;   ///< what the allocator keeps beside them
};

/// The peak of a device of each stage under 1F1B, first to last, without GptKept::context.
/// `recomputes`: share of full recomputation that is done (GptStack). Docs: docs/model.md, "Memory of a GPT".
/// Errors: invalid_argument for `stages` that are not as many as the pipeline has, or do not add up to the layers, with or without embedding and output layer.
std::vector<GptStageBytes> gpt_stage_bytes(const GptStep& step, const GptKept& kept, double recomputes, bool flash);

}  // namespace ddl
