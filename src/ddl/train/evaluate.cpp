#include "ddl/train/evaluate.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

#include <c10/core/GradMode.h>

#include "ddl/plan/schedule.h"
#include "ddl/train/autocast.h"
#include "ddl/train/objective.h"
#include "ddl/train/score_sentences.h"
#include "ddl/train/tensor_buffer.h"

namespace ddl {
namespace {

constexpr std::int64_t kRoom = std::int64_t{256} << 20;

/// Training goes on with each worker's own: the caller puts back what this returns.
std::vector<at::Tensor> share_statistics(Network& network, Device& device, Communicator& communicator) {
  std::vector<at::Tensor> own;
  for (auto& buffer : network.buffers()) {
    own.push_back(buffer.clone());
    auto local = fetch(device, buffer).to(at::kDouble, false, true);
    communicator.all_reduce(buffer_of(local), ReduceOp::average).wait();
    buffer.copy_(device.upload(local));
  }
  return own;
}

/// What workers add up.
struct Sums {
  double counted = 0, top1 = 0, top5 = 0, loss = 0, stopped = 0;
  std::array<double, std::tuple_size_v<decltype(BleuCounts::values)>> sentences = {};
};

}  // namespace

std::int64_t evaluation_batch(const ModelGraph& graph, std::int64_t element_bytes, std::int64_t training) {
  // Of a TorchScript file nobody knows what its layers hold.
  const std::int64_t kept = graph.kept_elements() * element_bytes;
  return std::clamp<std::int64_t>(std::max(training, kept > 0 ? kRoom / kept : 0), 1, kLargestEvaluationBatch);
}

Evaluation evaluate(Network& network, Device& device, const Dataset& dataset, Communicator* communicator, const EvaluateOptions& options) {
  const c10::NoGradGuard guard;
  const int rank = communicator ? communicator->rank() : 0;
  const int ranks = communicator ? communicator->size() : 1;
  std::vector<at::Tensor> own;
  if (communicator) own = share_statistics(network, device, *communicator);

  const auto mine = part_of(static_cast<std::size_t>(dataset.size()), ranks, rank);
  const auto begin = static_cast<std::int64_t>(mine.begin), end = static_cast<std::int64_t>(mine.end);
  const std::int64_t batches = (end - begin + options.batch - 1) / options.batch;
  Loader loader(
      dataset,
      [&](std::int64_t step) {
        Share share;
        share.indices.resize(static_cast<std::size_t>(std::min(options.batch, end - begin - step * options.batch)));
        std::iota(share.indices.begin(), share.indices.end(), begin + step * options.batch);
        share.global_samples = static_cast<std::int64_t>(share.indices.size());
        return share;
      },
      0, batches, options.loading);

  const auto shape = dataset.shape();
  const auto* const sentences = sentences_of(dataset);
  ScoreSum scored;
  BleuCounts said;
  Sums sums;
  {
    const Autocast autocast(network.tensor_options().device().type(), options.precision);
    for (std::int64_t number = 0; number < batches; ++number) {
      if (options.stop && options.stop()) {
        sums.stopped = 1;
        break;
      }
      if (options.progress) options.progress(number, batches);
      const auto batch = loader.next();
      const auto given = example(*batch, shape, 0, batch->samples, network, device);
      scored.add(network.forward(given.input, false).logits, given.expected);
      if (sentences) said += score_sentences(network, device, given, shape, *sentences);
    }
  }
  const auto scores = scored.total(device);
  sums.counted = scores.counted;
  sums.top1 = scores.top1;
  sums.top5 = scores.top5;
  sums.loss = scores.loss;
  std::copy(said.values.begin(), said.values.end(), sums.sentences.begin());
  if (communicator)
    communicator->all_reduce({reinterpret_cast<std::byte*>(&sums), sizeof sums / sizeof(double), ElementType::fp64}, ReduceOp::sum).wait();
  for (std::size_t i = 0; i < own.size(); ++i) network.buffers()[i].copy_(own[i]);

  Evaluation result;
  result.complete = sums.stopped == 0;
  result.loss = sums.loss / sums.counted;
  if (shape.objective == Objective::classification) {
    result.top1 = sums.top1 / sums.counted;
    if (shape.classes > 5) result.top5 = sums.top5 / sums.counted;
  } else {
    result.tokens = sums.top1 / sums.counted;
    std::transform(sums.sentences.begin(), sums.sentences.end(), said.values.begin(), [](double sum) { return static_cast<std::int64_t>(sum); });
    if (sentences) result.bleu = bleu(said);
  }
  return result;
}

}  // namespace ddl
