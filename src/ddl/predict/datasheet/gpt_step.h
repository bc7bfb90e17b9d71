#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ddl/predict/datasheet/gpt_memory.h"
#include "ddl/predict/datasheet/gpu.h"
#include "ddl/predict/datasheet/overlap.h"

namespace ddl {

/// One way to train a gpt over tensor x pipeline x data, as Megatron does. Sizes in elements; batches in samples.
struct GptStep {
  double hidden = 0, ffn = 0, layers = 0, heads = 0, sequence = 0, vocabulary = 51200;
  double tensor = 1, pipeline = 1, data = 1, chunks = 1;
  double micro_batch = 1, global_batch = 1;
  double key_heads = 0;     ///< heads of keys and values; 0: as many as `heads`
  double value_bytes = 2;   ///< of activations and weights: 2, or 4 in 32 bits
  bool untied = false;      ///< the output layer has weights of its own
  std::vector<int> stages;  ///< layers of each; empty: even. With two more than `layers` the first counts the embedding, the last the output layer
  bool sequence_parallel = false, shards_optimizer = false, overlaps = false, flash = false;
  enum class Recompute { none, selective, full } recompute = Recompute::none;
};

/// Layers of each stage's own, embedding and output layer not counted. Errors: invalid_argument for stages that are not as many as `pipeline`, or not of all layers.
std::vector<double> layers_of_stages(const GptStep& step);

/// What the rows had that a package's constants were fitted to, or its sigma judged by: outside of it a prediction is less certain.
struct GptFitted {
  std::string device = "a100";  ///< how the names of its devices begin
  std::pair<double, double> hidden{1024, 25'600}, devices{1, 3072}, micro_batch{1, 16}, sequence{1024, 2048}, tensor{1, 8}, pipeline{1, 64}, layers{12, 128}, vocabulary{50'257, 256'000};
  std::pair<double, double> head{96, 160}, ffn{4, 4}, chunks{1, 3}, micro_batches{1, 512};  ///< features of a head; hidden features of the MLP over the model's; chunks of a stage; micro-batches of a step
  std::vector<std::string> precisions{"fp16", "bf16"}, recompute{"full"};  ///< words as tables have them
  bool sequence_parallel = false;
  bool overlap = false, sharded = false;  ///< as all rows of several devices had it
  bool grouped = false;  ///< fewer heads of keys and values than of queries
};

/// What a training package costs beside its kernels: "gpt" of a `ddlbench.stack/1`. Seconds, bytes, shares.
struct GptStack {
  std::string name;
  double kernel = 0;                        ///< each kernel's launch and gaps
  double host_forward = 0, host_backward = 0, host_tensor = 0, host_unfused_softmax = 0, host_stage = 0;  ///< of a layer; host_tensor by doubling of tensor parallelism; of a stage
  double update_bytes = 0, step = 0, message = 0;
  double tensor_message = 0, tensor_message_bytes = 1, tensor_bandwidth = 1;
  double loss_bytes = 0, misaligned_vocabulary = 1, gradient_bytes = 2;
  double recomputes = 1, gradients_hidden = 0;
  double gather_bytes = 0;                  ///< of a parameter, when a split optimizer's parts are gathered, layer by layer as gradients are reduced; 0: gradients are reduced at once, and gradients_hidden of that is hidden
  double accumulate_bytes = 0;              ///< of a parameter, read and written by each micro-batch that adds to its gradient
  double flash_efficiency_hopper = 0;       ///< of peak, there; 0: the kernels'
  double product_gain = 1;                  ///< how many times the share of peak that the kernels' fit says products of matrices reach: libraries get faster
  double slowdown_per_doubling = 0;         ///< of nodes; 0: the kernels'
  TensorOverlap tensor_overlap;             ///< of sequence parallel rows whose exchanges overlap
  bool interleaves = false;                 ///< a pipeline whose messages overlap is interleaved
  double vocabulary = 0;                    ///< the package's own where it is not what a table says; 0: none
  bool flash = false;
  double sigma = 0, sigma_of_known_shape = 0;  ///< of the logarithm of measured over predicted
  GptKept kept;
  GptFitted fitted;
  std::map<std::tuple<int, int, int>, double> shapes;  ///< by tensor, hidden, micro-batch: logarithm of what measured layers take over the formulae
};

/// Errors: not_found for a stack without one of these terms.
GptStack gpt_stack(const Json& stack);

/// Seconds of one step, term by term; they add up to `total`.
struct GptSeconds {
  double total = 0;
  double passes = 0;        ///< the slowest stage's passes over all micro-batches
  double exchange = 0;      ///< of `passes`: tensor parallel
  double send = 0;          ///< of `passes`: between stages
  double fill = 0;          ///< the pipeline's bubble
  double stragglers = 0;    ///< waiting for the slowest of all nodes
  double gradients = 0;     ///< exposed
  double tied = 0;          ///< the embedding's, of first and last stage
  double update = 0;
  double shape = 0;         ///< what a measured shape adds or takes away
  std::vector<GptStageBytes> stage_bytes;  ///< peak of a device of each stage; GptKept::context comes on top
  bool known_shape = false;
};

/// In closed form: docs/model.md, "GPT on GPUs". Errors: invalid_argument, naming the column, for sizes that are not positive, and for what does not divide: a batch into micro-batches of replicas, layers into
/// stages and chunks, heads and feed-forward columns into tensor parallel parts.
GptSeconds price_gpt(const GptStep& step, const Gpu& gpu, const GpuKernels& kernels, const GptStack& stack);

}  // namespace ddl
