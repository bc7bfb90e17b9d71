#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>

#include "ddl/core/proportions.h"
#include "ddl/core/random.h"
#include "ddl/data/loader.h"

namespace ddl {

struct Sampler::Cache {
  std::mutex mutex;
  std::int64_t epoch = -1;
  std::shared_ptr<const std::vector<std::int64_t>> order;
};

Sampler::Sampler(std::int64_t samples, std::int64_t global_batch, int workers, bool shuffle, std::uint64_t seed,
                 std::function<std::int64_t(std::int64_t)> weight, std::vector<std::int64_t> proportions)
    : samples_(samples), global_batch_(global_batch), workers_(workers), shuffle_(shuffle), seed_(seed), weight_(std::move(weight)), proportions_(std::move(proportions)),
      cache_(std::make_shared<Cache>()) {
  const auto require = [](bool holds, std::string_view what, std::int64_t got, std::int64_t least) {
    if (!holds)
      throw Error(Code::invalid_argument, fmt::format("[sampler] {}; got {}, expected {} or more", what, got, least));
  };
  require(samples >= 1, "samples", samples, 1);
  require(global_batch >= 1, "global batch", global_batch, 1);
  require(workers >= 1, "workers", workers, 1);
  const auto none = std::find_if(proportions_.begin(), proportions_.end(), [](std::int64_t each) { return each < 1; });
  if (!proportions_.empty() && (static_cast<int>(proportions_.size()) != workers || none != proportions_.end()))
    throw Error(Code::invalid_argument, fmt::format("[sampler] proportions of workers' parts; got {}{}, expected {} of 1 or more", proportions_.size(), none == proportions_.end() ? "" : ", one of them less than 1", workers));
  if (workers > samples)
    throw Error(
        Code::invalid_argument,
        fmt::format("[sampler] more workers than samples; got {} workers, expected at most {}", workers, samples));
}

std::int64_t Sampler::steps_per_epoch() const { return (samples_ + global_batch_ - 1) / global_batch_; }

std::int64_t Sampler::global_samples(std::int64_t step) const { return std::min(global_batch_, samples_ - (step % steps_per_epoch()) * global_batch_); }

std::vector<std::int64_t> Sampler::order(std::int64_t epoch) const {
  if (shuffle_) return permutation(samples_, seed_, static_cast<std::uint64_t>(epoch));
  std::vector<std::int64_t> all(static_cast<std::size_t>(samples_));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  return all;
}

Share Sampler::share(std::int64_t step, int worker) const {
  invariant(step >= 0 && worker >= 0 && worker < workers_, "a share is of a step from 0 on and a worker of the group");
  const std::int64_t epoch = step / steps_per_epoch();
  std::shared_ptr<const std::vector<std::int64_t>> order_now;
  {
    const std::lock_guard lock(cache_->mutex);
    if (!cache_->order || (shuffle_ && cache_->epoch != epoch)) {
      cache_->order = std::make_shared<const std::vector<std::int64_t>>(order(epoch));
      cache_->epoch = epoch;
    }
    order_now = cache_->order;
  }
  const std::int64_t first = (step % steps_per_epoch()) * global_batch_;
  const std::int64_t batch = global_samples(step);
  // The first batch % workers parts have one sample more.
  const std::int64_t each = batch / workers_, extra = batch % workers_;
  std::int64_t begin = first + worker * each + std::min<std::int64_t>(worker, extra);
  std::int64_t end = begin + each + (worker < extra ? 1 : 0);
  if (!proportions_.empty()) {
    const auto own = proportional_part(batch, proportions_, static_cast<std::size_t>(worker));
    begin = first + own.first;
    end = first + own.second;
  }
  std::int64_t global_weight = batch, weight = end - begin;
  if (weight_) {
    global_weight = weight = 0;
    for (auto i = first; i < first + batch; ++i) {
      const auto own = weight_((*order_now)[static_cast<std::size_t>(i)]);
      global_weight += own;
      if (i >= begin && i < end) weight += own;
    }
  }
  return {{order_now->begin() + begin, order_now->begin() + end}, batch, global_weight, weight};
}

}  // namespace ddl
