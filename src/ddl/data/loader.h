#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <vector>

#include "ddl/data/dataset.h"

namespace ddl {

/// Which samples a worker takes in one step, and what the whole group takes: the denominator of the loss.
struct Share {
  std::vector<std::int64_t> indices;
  std::int64_t global_samples = 0;
  std::int64_t global_weight = 0;  ///< sum of Dataset::weight() over the global batch
  std::int64_t weight = 0;         ///< over the worker's own samples
};

/// One global order per epoch, cut into global batches, each cut among the workers.
///
/// The order of epoch e is a permutation drawn from (seed, e), or 0 … n-1 without shuffling. Step s of an epoch is
/// order[s*B, (s+1)*B); worker r takes the r-th of its parts, whose sizes differ by at most one, or are in proportions that are told. The last batch may be
/// ragged, and a worker's share of it empty: it still takes part in every collective.
class Sampler {
 public:
  /// Errors: invalid_argument where a size is not positive or workers outnumber samples.
  /// `weight`: of a sample; none: each counts 1. `proportions`: of workers' parts of a batch, one for each; empty: alike.
  Sampler(std::int64_t samples, std::int64_t global_batch, int workers, bool shuffle, std::uint64_t seed,
          std::function<std::int64_t(std::int64_t index)> weight = {}, std::vector<std::int64_t> proportions = {});

  std::int64_t steps_per_epoch() const;
  /// Of all workers in a step.
  std::int64_t global_samples(std::int64_t step) const;
  /// `step` counts from 0 over all epochs. Threads: any, also of copies.
  Share share(std::int64_t step, int worker) const;
  /// The whole order of one epoch.
  std::vector<std::int64_t> order(std::int64_t epoch) const;

 private:
  std::int64_t samples_;
  std::int64_t global_batch_;
  int workers_;
  bool shuffle_;
  std::uint64_t seed_;
  std::function<std::int64_t(std::int64_t)> weight_;
  std::vector<std::int64_t> proportions_;
  /// The order of the epoch last asked for, since steps come in sequence.
  struct Cache;
  std::shared_ptr<Cache> cache_;
};

/// A worker's samples of one step: images [samples, channels, height, width] fp32, labels [samples], words
/// [samples, source_length] and [samples, target_length]; what the data set does not have is empty.
struct Batch {
  /// `memory`: of its images, which are the most of it. It outlives the batch.
  explicit Batch(std::pmr::memory_resource* memory = std::pmr::get_default_resource()) : images(memory) {}

  std::int64_t step = 0;
  std::int64_t samples = 0;
  std::int64_t global_samples = 0;
  std::int64_t global_weight = 0;
  std::int64_t weight = 0;  ///< of its own samples
  std::vector<std::int64_t> indices;  ///< which samples of the data set these are
  std::pmr::vector<float> images;
  std::vector<std::int64_t> labels;
  std::vector<std::int64_t> source, target;
};

struct LoaderOptions {
  int threads = 1;       ///< 0: batches are read by next() itself
  int prefetch = 2;      ///< batches ready ahead per thread, at most
  bool reads = true;     ///< false: batches say which samples they are of, and hold nothing of them
  std::function<void()> begin = {};  ///< what each of its threads does first; it does not throw
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();  ///< of images; it outlives all batches
};

/// Reads batches of steps [first, last) ahead, in threads of its own, and hands them out in order. At most
/// threads * prefetch batches are claimed and not yet taken. Threads: one caller of next().
class Loader {
 public:
  /// `share` is called on the loader's threads, one call at a time, steps in order. `dataset` outlives the loader.
  /// Errors: invalid_argument unless threads >= 0 and prefetch >= 1.
  Loader(const Dataset& dataset, std::function<Share(std::int64_t step)> share, std::int64_t first, std::int64_t last,
         LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next batch; null after the last. Buffers of batches handed back by dropping the pointer are used again.
  /// Errors: those of `share` and Dataset::read, at the batch they belong to; the call after goes on behind it.
  std::shared_ptr<const Batch> next();
  /// What next() would give at once; null where it would wait or read, after the last, and where it would throw.
  std::shared_ptr<const Batch> peek() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddl
