#include "ddl/train/deferred_statistics.h"

#include <utility>

#include <c10/core/GradMode.h>

#include "ddl/core/error.h"

namespace ddl {

DeferredStatistics::DeferredStatistics(Network& network) : network_(network) {
  const auto& layers = network.graph().layers;
  const auto& numbers = network.buffer_numbers();
  int number = 0;
  std::size_t next = 0;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    if (layers[layer].frozen || layers[layer].statistics.empty()) continue;
    invariant(layers[layer].kind == LayerKind::batch_norm2d && layers[layer].statistics.size() == 2, "statistics are a batch norm's mean and variance");
    if (next < numbers.size() && numbers[next] == number) {
      Norm norm{};
      norm.buffer = next;
      norm.layer = static_cast<int>(layer);
      norm.momentum = layers[layer].attributes.momentum;
      norm.places = layers[layer].shape[1] * layers[layer].shape[2];
      norms_.push_back(std::move(norm));
      next += 2;
    }
    number += 2;
  }
  invariant(next == numbers.size(), "all statistics of a network of layers are known");
}

/// Written without a new version: autograd has kept it of micro-batches that are on their way, although training does not read it.
at::Tensor DeferredStatistics::buffer(const Norm& norm, int which) const { return network_.buffers()[norm.buffer + static_cast<std::size_t>(which)].variable_data(); }

void DeferredStatistics::begin_step() {
  const c10::NoGradGuard guard;
  for (auto& norm : norms_) {
    for (const int which : {0, 1}) {
      // A step that failed left them open.
      if (!open_) norm.before[which] = buffer(norm, which).clone();
      buffer(norm, which).zero_();
    }
    norm.count = 0;
  }
  open_ = true;
}

void DeferredStatistics::take(int first, int last, std::int64_t samples) {
  const c10::NoGradGuard guard;
  for (auto& norm : norms_) {
    if (norm.layer < first || norm.layer >= last) continue;
    const auto count = static_cast<double>(samples * norm.places);
    const auto mean = buffer(norm, 0).to(at::kDouble).div(norm.momentum);
    // Of one value there is no variance.
    const auto squares = count > 1 ? buffer(norm, 1).to(at::kDouble).mul((count - 1) / norm.momentum) : at::zeros_like(mean);
    for (const int which : {0, 1}) buffer(norm, which).zero_();
    if (norm.count == 0) {
      norm.mean = mean;
      norm.squares = squares;
    } else {
      const auto all = norm.count + count;
      const auto apart = mean - norm.mean;
      norm.mean.add_(apart, count / all);
      norm.squares.add_(squares).add_(apart.square(), norm.count * count / all);
    }
    norm.count += count;
  }
}

void DeferredStatistics::end_step() {
  if (!open_) return;
  const c10::NoGradGuard guard;
  for (auto& norm : norms_) {
    buffer(norm, 0).copy_(norm.before[0]);
    buffer(norm, 1).copy_(norm.before[1]);
    if (norm.count == 0) continue;
    buffer(norm, 0).mul_(1 - norm.momentum).add_(norm.mean.to(norm.before[0].scalar_type()), norm.momentum);
    if (norm.count > 1) buffer(norm, 1).mul_(1 - norm.momentum).add_(norm.squares.div(norm.count - 1).to(norm.before[1].scalar_type()), norm.momentum);
  }
  open_ = false;
}

}  // namespace ddl
