#include <algorithm>
#include <cmath>
#include <numeric>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/images/steps.h"

namespace ddl {
namespace {

using Recompute = FillDrainStep::Recompute;

/// A stage's passes over one micro-batch, and the copy of what leaves it. Seconds.
struct StageCosts {
  double forward = 0, backward = 0, copy = 0;
};

void require_all_layers(const FillDrainStep& step) {
  const auto sum = std::accumulate(step.stages.begin(), step.stages.end(), std::size_t{0}, [](std::size_t a, int b) { return a + static_cast<std::size_t>(b); });
  if (sum == step.network.size()) return;
  std::vector<std::string> words;
  for (const int each : step.stages) words.push_back(std::to_string(each));
  throw Error(Code::invalid_argument, fmt::format("stages; got {}, {} layers in all, expected the {} of the network's sequential form", join(words, "/"), sum, step.network.size()));
}

/// All forwards, then all backwards in reverse order. Recomputation does not wait for the gradient, copies have a stream of their own. Seconds until the last stage is done.
double fill_and_drain(const std::vector<StageCosts>& stages, int micro_batches, Recompute recompute) {
  const std::size_t n = stages.size();
  std::vector<double> done(n, 0);  // the last pass of each stage
  for (int j = 0; j < micro_batches; ++j)
    for (std::size_t s = 0; s < n; ++s) {
      const double input = s > 0 ? done[s - 1] + stages[s - 1].copy : 0;
      done[s] = std::max(done[s], input) + stages[s].forward;
    }
  for (int j = micro_batches - 1; j >= 0; --j)
    for (std::size_t s = n; s-- > 0;) {
      double start = done[s];
      if (recompute == Recompute::full || (recompute == Recompute::except_last && j < micro_batches - 1)) start += stages[s].forward;
      if (s + 1 < n) start = std::max(start, done[s + 1] + stages[s].copy);
      done[s] = start + stages[s].backward;
    }
  return *std::max_element(done.begin(), done.end());
}

/// By which the roofline misses what one device was measured at; 1 where it was not.
double calibration(const FillDrainStep& step) {
  if (step.one_device_rate <= 0) return 1;
  const auto whole = step.device.sums(operators_of(step.network));
  const double batch = step.one_device_batch;
  return (batch / step.one_device_rate - 3 * whole.operators * step.device.launch() - step.device.update(whole.parameters)) / (batch * (whole.forward + whole.backward));
}

}  // namespace

ImageSeconds price_fill_drain(const FillDrainStep& step, const Json& stack) {
  require_all_layers(step);
  constexpr double kBytes = 4;
  const int micro_batches = static_cast<int>(std::max(1.0, std::ceil(step.global_batch / step.micro_batch - 1e-9)));
  const double samples = step.global_batch / micro_batches, measured = calibration(step), bandwidth = term(stack, "images.copy_bandwidth"), launch = step.device.launch();
  if (measured <= 0) throw Error(Code::invalid_argument, fmt::format("one_device_samples_per_s; got {}, faster than launching the network's operators takes", step.one_device_rate));

  std::vector<StageCosts> stages;
  double forward = 0, both = 0, parameters = 0;
  auto from = step.network.begin();
  for (const int layers : step.stages) {
    const SequentialNetwork part(from, from + layers);
    from += layers;
    const auto sums = step.device.sums(operators_of(part));
    stages.push_back({sums.operators * launch + samples * sums.forward * measured, 2 * sums.operators * launch + samples * sums.backward * measured, kBytes * samples * part.back().leaves / bandwidth});
    forward += stages.back().forward;
    both += stages.back().forward + stages.back().backward;
    parameters = std::max(parameters, sums.parameters);
  }
  const auto n = static_cast<double>(stages.size());
  const double again = step.recompute == Recompute::none ? 0 : (micro_batches - (step.recompute == Recompute::except_last ? 1 : 0)) * forward / n;
  ImageSeconds out;
  out.uneven = fill_and_drain(stages, micro_batches, step.recompute) - micro_batches * both / n - again;
  out.terms = {{"compute", micro_batches * both / n}, {"recomputation", again}, {"bubble, uneven stages and copies", out.uneven}, {"update", step.device.update(parameters)}};
  return out;
}

}  // namespace ddl
