#include "ddl/lab/batch_split.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ddl/core/at.h"

namespace ddl {

std::vector<std::int64_t> balanced_batch(std::int64_t batch, int workers, const std::function<double(int, std::int64_t)>& seconds, const std::vector<std::int64_t>& most) {
  const auto limit = [&](int worker) { return std::min(batch, most.empty() ? batch : most[at(worker)]); };
  std::int64_t room = 0;
  double slowest = 0;
  for (int w = 0; w < workers; ++w) {
    if (limit(w) < 1) return {};
    room += limit(w);
    slowest = std::max(slowest, seconds(w, limit(w)));
  }
  if (room < batch || batch < workers) return {};
  // The most samples that each does within a time.
  const auto within = [&](double time) {
    std::vector<std::int64_t> samples;
    for (int w = 0; w < workers; ++w) {
      std::int64_t low = 1, high = limit(w);
      while (low < high) {
        const auto middle = (low + high + 1) / 2;
        if (seconds(w, middle) <= time) low = middle;
        else high = middle - 1;
      }
      samples.push_back(low);
    }
    return samples;
  };
  const auto sum = [](const std::vector<std::int64_t>& samples) { return std::accumulate(samples.begin(), samples.end(), std::int64_t{0}); };
  // The least time in which all of the batch is done, near enough.
  double low = 0, high = slowest;
  for (int halving = 0; halving < 40; ++halving) {
    const double middle = (low + high) / 2;
    (sum(within(middle)) >= batch ? high : low) = middle;
  }
  auto samples = within(high);
  // What is too many is taken from whoever would be the last.
  for (auto over = sum(samples) - batch; over > 0; --over) {
    int last = -1;
    for (int w = 0; w < workers; ++w)
      if (samples[at(w)] > 1 && (last < 0 || seconds(w, samples[at(w)]) > seconds(last, samples[at(last)]))) last = w;
    --samples[at(last)];
  }
  return samples;
}

}  // namespace ddl
