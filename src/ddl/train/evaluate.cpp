#include "ddl/train/evaluate.h"

#include <algorithm>
#include <numeric>

#include <c10/core/GradMode.h>

#include "ddl/core/error.h"
#include "ddl/plan/schedule.h"

namespace ddl {
namespace {

constexpr std::int64_t kBatch = 250;

/// Training goes on with each worker's own: the caller puts back what this returns.
std::vector<at::Tensor> share_statistics(Network& network, Communicator& communicator) {
  std::vector<at::Tensor> own;
  for (auto& buffer : network.buffers()) {
    auto local = buffer.to(at::kCPU, at::kDouble).contiguous();
    communicator
        .all_reduce({static_cast<std::byte*>(local.data_ptr()), static_cast<std::size_t>(local.numel()), ElementType::fp64},
                    ReduceOp::average)
        .wait();
    own.push_back(buffer.clone());
    buffer.copy_(local);
  }
  return own;
}

}  // namespace

Evaluation evaluate(Network& network, const Dataset& dataset, Communicator* communicator, LoaderOptions loading,
                    const std::function<bool()>& stop, const std::function<void(std::int64_t done, std::int64_t of)>& progress) {
  const c10::NoGradGuard guard;
  const int rank = communicator ? communicator->rank() : 0;
  const int ranks = communicator ? communicator->size() : 1;
  std::vector<at::Tensor> own;
  if (communicator) own = share_statistics(network, *communicator);

  const auto mine = part_of(static_cast<std::size_t>(dataset.size()), ranks, rank);
  const auto begin = static_cast<std::int64_t>(mine.begin), end = static_cast<std::int64_t>(mine.end);
  const std::int64_t batches = (end - begin + kBatch - 1) / kBatch;
  Loader loader(
      dataset,
      [&](std::int64_t step) {
        Share share;
        share.indices.resize(static_cast<std::size_t>(std::min(kBatch, end - begin - step * kBatch)));
        std::iota(share.indices.begin(), share.indices.end(), begin + step * kBatch);
        share.global_samples = static_cast<std::int64_t>(share.indices.size());
        return share;
      },
      0, batches, loading);

  const auto shape = dataset.shape();
  double sums[3] = {0, 0, 0};  // right answers, loss, workers that stopped
  for (std::int64_t number = 0; number < batches; ++number) {
    if (stop && stop()) {
      sums[2] = 1;
      break;
    }
    if (progress) progress(number, batches);
    const auto batch = loader.next();
    const auto images = at::from_blob(const_cast<float*>(batch->images.data()),
                                      {batch->samples, shape.channels, shape.height, shape.width}, at::kFloat)
                            .to(network.parameters()[0].options().requires_grad(false), false, false, network.memory_format());
    const auto labels =
        at::from_blob(const_cast<std::int64_t*>(batch->labels.data()), {batch->samples}, at::kLong).to(images.device());
    const auto logits = network.forward({images}, false).logits;
    sums[0] += static_cast<double>(logits.argmax(1).eq(labels).sum().item<std::int64_t>());
    sums[1] += at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum).item<double>();
  }
  if (communicator)
    communicator->all_reduce({reinterpret_cast<std::byte*>(sums), 3, ElementType::fp64}, ReduceOp::sum).wait();
  for (std::size_t i = 0; i < own.size(); ++i) network.buffers()[i].copy_(own[i]);
  const auto total = static_cast<double>(dataset.size());
  return {sums[2] == 0, sums[0] / total, sums[1] / total};
}

}  // namespace ddl
