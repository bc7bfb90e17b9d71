#include "ddl/data/loader.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

namespace ddl {
namespace {

/// Buffers that came back. It lives as long as the last batch that points to it, which may be after the loader's end.
class Pool {
 public:
  Pool(std::size_t most, std::pmr::memory_resource* memory) : most_(most), memory_(memory) {}

  static std::shared_ptr<Batch> take(const std::shared_ptr<Pool>& pool) {
    std::unique_ptr<Batch> batch;
    {
      const std::lock_guard lock(pool->mutex_);
      if (!pool->free_.empty()) {
        batch = std::move(pool->free_.back());
        pool->free_.pop_back();
      }
    }
    if (!batch) batch = std::make_unique<Batch>(pool->memory_);
    return {batch.release(), [pool](Batch* back) { pool->give(std::unique_ptr<Batch>(back)); }};
  }

 private:
  void give(std::unique_ptr<Batch> batch) {
    const std::lock_guard lock(mutex_);
    if (free_.size() < most_) free_.push_back(std::move(batch));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Batch>> free_;
  std::size_t most_;
  std::pmr::memory_resource* memory_;
};

struct Result {
  std::shared_ptr<Batch> batch;
  std::exception_ptr error;
};

}  // namespace

// Invariants, under `mutex`: taken <= claimed <= min(last, taken + window); slot (s - first) % window belongs to step s
// for taken <= s < claimed, and is empty until that step is read.
struct Loader::Impl {
  Impl(const Dataset& data, std::function<Share(std::int64_t)> share_of, std::int64_t first_step,
       std::int64_t last_step, LoaderOptions options)
      : dataset(data),
        share(std::move(share_of)),
        first(first_step),
        last(std::max(first_step, last_step)),
        window(static_cast<std::int64_t>(options.threads) * options.prefetch),
        reads(options.reads),
        taken(first_step),
        claimed(first_step),
        slots(static_cast<std::size_t>(window)),
        // Ready ahead, in the making, and a few that the caller still holds.
        pool(std::make_shared<Pool>(static_cast<std::size_t>(window + options.threads + 4), options.memory)) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    room.notify_all();
    for (auto& thread : threads) thread.join();
  }

  Result read(const Share& wanted, std::int64_t step) {
    const auto shape = dataset.shape();
    const auto pixels = shape.pixels();
    const auto words = shape.objective != Objective::classification;
    auto batch = Pool::take(pool);
    batch->step = step;
    batch->samples = static_cast<std::int64_t>(wanted.indices.size());
    batch->global_samples = wanted.global_samples;
    batch->global_weight = wanted.global_weight;
    batch->weight = wanted.weight;
    batch->indices = wanted.indices;
    if (!reads) return {std::move(batch), nullptr};
    batch->images.resize(static_cast<std::size_t>(batch->samples * pixels));
    batch->labels.resize(wanted.indices.size());
    batch->source.resize(words ? static_cast<std::size_t>(batch->samples * shape.source_length) : 0);
    batch->target.resize(words ? static_cast<std::size_t>(batch->samples * shape.target_length) : 0);
    float* image = batch->images.data();
    auto* source = batch->source.data();
    auto* target = batch->target.data();
    for (std::size_t i = 0; i < wanted.indices.size() && !stopping; ++i, image += pixels) {
      batch->labels[i] = dataset.read(wanted.indices[i], image);
      if (!words) continue;
      dataset.read_words(wanted.indices[i], source, target);
      source += shape.source_length;
      target += shape.target_length;
    }
    return {std::move(batch), nullptr};
  }

  void work() {
    while (true) {
      std::int64_t step = 0;
      std::optional<Share> wanted;
      Result result;
      {
        // Shares are asked for one at a time and in order of steps, outside of `mutex`: next() never waits for one.
        const std::lock_guard turn(claiming);
        std::unique_lock lock(mutex);
        room.wait(lock, [&] { return stopping || claimed == last || claimed < taken + window; });
        if (stopping || claimed == last) return;
        step = claimed++;
        lock.unlock();
        try {
          wanted = share(step);
        } catch (...) {
          result.error = std::current_exception();
        }
      }
      try {
        if (wanted) result = read(*wanted, step);
      } catch (...) {
        result.error = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      slot(step) = std::move(result);
      if (step == taken) ready.notify_one();
    }
  }

  std::optional<Result>& slot(std::int64_t step) { return slots[static_cast<std::size_t>((step - first) % window)]; }

  std::shared_ptr<const Batch> next() {
    if (taken == last) return nullptr;
    if (threads.empty()) {
      const auto step = taken++;
      return read(share(step), step).batch;
    }
    Result result;
    {
      std::unique_lock lock(mutex);
      auto& mine = slot(taken);
      ready.wait(lock, [&] { return mine.has_value(); });
      result = std::move(*mine);
      mine.reset();
      ++taken;
    }
    room.notify_one();
    if (result.error) std::rethrow_exception(result.error);
    return std::move(result.batch);
  }

  std::shared_ptr<const Batch> peek() {
    if (taken == last || threads.empty()) return nullptr;
    const std::lock_guard lock(mutex);
    const auto& mine = slot(taken);
    return mine && !mine->error ? mine->batch : nullptr;
  }

  const Dataset& dataset;
  const std::function<Share(std::int64_t)> share;
  const std::int64_t first, last, window;
  const bool reads;

  std::mutex claiming;
  std::mutex mutex;
  std::condition_variable room;   ///< a batch was taken, or the loader stops
  std::condition_variable ready;  ///< the batch that next() waits for is there
  std::int64_t taken, claimed;
  std::vector<std::optional<Result>> slots;
  std::atomic<bool> stopping = false;
  std::shared_ptr<Pool> pool;
  std::vector<std::thread> threads;
};

Loader::Loader(const Dataset& dataset, std::function<Share(std::int64_t step)> share, std::int64_t first,
               std::int64_t last, LoaderOptions options) {
  if (options.threads < 0 || options.prefetch < 1)
    throw Error(Code::invalid_argument,
                fmt::format("[loader] got {} threads and {} batches ahead, expected 0 or more and "
                            "1 or more",
                            options.threads, options.prefetch));
  impl_ = std::make_unique<Impl>(dataset, std::move(share), first, last, options);
  for (int i = 0; i < options.threads; ++i)
    impl_->threads.emplace_back([impl = impl_.get(), begin = options.begin] {
      if (begin) begin();
      impl->work();
    });
}

Loader::~Loader() = default;

std::shared_ptr<const Batch> Loader::next() { return impl_->next(); }

std::shared_ptr<const Batch> Loader::peek() const { return impl_->peek(); }

}  // namespace ddl
