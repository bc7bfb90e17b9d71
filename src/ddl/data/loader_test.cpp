#include "ddl/data/loader.h"

#include <atomic>
#include <chrono>
#include <memory_resource>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "ddl/core/error.h"

namespace ddl {
namespace {

/// Images of two pixels that say their own index; some cannot be read, all can be slow.
class Numbers final : public Dataset {
 public:
  std::int64_t size() const override { return 1000; }
  SampleShape shape() const override { return {1, 1, 2, 10}; }
  std::int64_t read(std::int64_t index, float* image) const override {
    if (broken.contains(index)) throw Error(Code::corrupt, fmt::format("sample {}", index));
    if (delay.count() > 0) std::this_thread::sleep_for(delay);
    image[0] = static_cast<float>(index);
    image[1] = -image[0];
    ++reads;
    return index % 10;
  }
  std::string digest() const override { return "numbers"; }

  std::set<std::int64_t> broken;
  std::chrono::microseconds delay{0};
  mutable std::atomic<int> reads = 0;
};

const LoaderOptions kOptions[] = {{.threads = 0, .prefetch = 1}, {.threads = 1, .prefetch = 1},
                                  {.threads = 1, .prefetch = 3}, {.threads = 3, .prefetch = 2}};

std::function<Share(std::int64_t)> shares(const Sampler& sampler, int worker) {
  return [&sampler, worker](std::int64_t step) { return sampler.share(step, worker); };
}

TEST(Loader, GivesEveryBatchInOrder) {
  const Numbers data;
  const Sampler sampler(1000, 30, 2, true, 1);
  for (const auto& options : kOptions) {
    Loader loader(data, shares(sampler, 1), 5, 70, options);
    for (std::int64_t step = 5; step < 70; ++step) {
      const auto batch = loader.next();
      const auto share = sampler.share(step, 1);
      ASSERT_TRUE(batch);
      EXPECT_EQ(batch->step, step);
      EXPECT_EQ(batch->samples, static_cast<std::int64_t>(share.indices.size()));
      EXPECT_EQ(batch->global_samples, share.global_samples);
      ASSERT_EQ(batch->images.size(), 2 * share.indices.size());
      ASSERT_EQ(batch->labels.size(), share.indices.size());
      for (std::size_t i = 0; i < share.indices.size(); ++i) {
        EXPECT_EQ(batch->images[2 * i], static_cast<float>(share.indices[i]));
        EXPECT_EQ(batch->labels[i], share.indices[i] % 10);
      }
    }
    EXPECT_FALSE(loader.next());
    EXPECT_FALSE(loader.next());
  }
}

/// Sentences whose words say which sample they are of.
class Sentences final : public Dataset {
 public:
  std::int64_t size() const override { return 20; }
  SampleShape shape() const override {
    SampleShape shape;
    shape.classes = 50;
    shape.objective = Objective::translation;
    shape.source_length = 3;
    shape.target_length = 4;
    return shape;
  }
  std::int64_t read(std::int64_t, float*) const override { return 0; }
  void read_words(std::int64_t index, std::int64_t* source, std::int64_t* target) const override {
    std::fill(source, source + 3, index + 3);
    std::fill(target, target + 4, index + 23);
  }
  std::int64_t weight(std::int64_t index) const override { return index; }
  std::string digest() const override { return "sentences"; }
};

TEST(Loader, GivesWordsBesideIndices) {
  const Sentences data;
  const Sampler sampler(20, 6, 2, true, 1, [&](std::int64_t index) { return data.weight(index); });
  for (const auto& options : kOptions) {
    Loader loader(data, shares(sampler, 1), 0, 4, options);
    for (std::int64_t step = 0; step < 4; ++step) {
      const auto batch = loader.next();
      const auto share = sampler.share(step, 1);
      EXPECT_EQ(batch->indices, share.indices);
      EXPECT_EQ(batch->global_weight, share.global_weight);
      EXPECT_TRUE(batch->images.empty());
      ASSERT_EQ(batch->source.size(), 3 * share.indices.size());
      ASSERT_EQ(batch->target.size(), 4 * share.indices.size());
      for (std::size_t i = 0; i < share.indices.size(); ++i) {
        EXPECT_EQ(batch->source[3 * i + 2], share.indices[i] + 3);
        EXPECT_EQ(batch->target[4 * i], share.indices[i] + 23);
      }
    }
  }
}

TEST(Loader, GivesEmptySharesToo) {
  const Numbers data;
  const Sampler sampler(10, 2, 3, false, 1);  // the third worker never has a sample
  for (const auto& options : kOptions) {
    Loader loader(data, shares(sampler, 2), 0, 5, options);
    for (int step = 0; step < 5; ++step) {
      const auto batch = loader.next();
      EXPECT_EQ(batch->samples, 0);
      EXPECT_EQ(batch->global_samples, 2);
      EXPECT_TRUE(batch->images.empty());
    }
  }
}

TEST(Loader, DeliversAnErrorWhereItBelongs) {
  Numbers data;
  data.broken = {12};
  const Sampler sampler(1000, 5, 1, false, 1);
  for (const auto& options : kOptions) {
    Loader loader(data, [&](std::int64_t step) {
      if (step == 4) throw Error(Code::io, "no share");
      return sampler.share(step, 0);
    }, 0, 6, options);
    EXPECT_EQ(loader.next()->step, 0);
    EXPECT_EQ(loader.next()->step, 1);
    EXPECT_THROW(loader.next(), Error);  // samples 10 to 14
    EXPECT_EQ(loader.next()->step, 3);
    EXPECT_THROW(loader.next(), Error);
    EXPECT_EQ(loader.next()->step, 5);
    EXPECT_FALSE(loader.next());
  }
}

TEST(Loader, ReadsNoFurtherAheadThanAllowed) {
  const Numbers data;
  const Sampler sampler(1000, 10, 1, false, 1);
  Loader loader(data, shares(sampler, 0), 0, 100, {.threads = 2, .prefetch = 3});
  loader.next();
  for (int i = 0; i < 200 && data.reads < 70; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(data.reads, 70);  // the one taken, and 2 * 3 ahead
}

TEST(Loader, UsesBuffersAgain) {
  const Numbers data;
  const Sampler sampler(1000, 10, 1, false, 1);
  std::set<const float*> buffers;
  Loader loader(data, shares(sampler, 0), 0, 100, {.threads = 2, .prefetch = 2});
  while (const auto batch = loader.next()) buffers.insert(batch->images.data());
  EXPECT_LE(buffers.size(), 12U);
}

class CountedMemory final : public std::pmr::memory_resource {
 public:
  std::atomic<int> asked = 0;
  std::atomic<std::size_t> held = 0;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    ++asked;
    held += bytes;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    held -= bytes;
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }
};

TEST(Loader, ImagesLieInTheMemoryThatItIsGiven) {
  const Numbers data;
  const Sampler sampler(1000, 10, 1, false, 1);
  CountedMemory memory;
  {
    Loader loader(data, shares(sampler, 0), 0, 100, {.threads = 2, .prefetch = 2, .memory = &memory});
    const auto first = loader.next();
    EXPECT_GE(memory.held, 10 * 2 * sizeof(float));
    while (loader.next()) continue;
    EXPECT_EQ(first->images.at(3), -1);
  }
  EXPECT_EQ(memory.held, 0U);
  EXPECT_LE(memory.asked, 12) << "buffers are used again";
}

// Once it is there; whoever only looks takes nothing away.
TEST(Loader, ShowsWhatComesNext) {
  const Numbers data;
  const Sampler sampler(1000, 5, 1, false, 1);
  Loader ahead(data, shares(sampler, 0), 0, 2, {.threads = 1, .prefetch = 1});
  for (std::int64_t step = 0; step < 2; ++step) {
    auto seen = ahead.peek();
    for (; !seen; seen = ahead.peek()) std::this_thread::yield();
    EXPECT_EQ(seen->step, step);
    EXPECT_EQ(ahead.peek(), seen);
    EXPECT_EQ(ahead.next(), seen);
  }
  EXPECT_FALSE(ahead.peek());
  EXPECT_FALSE(ahead.next());
  Loader at_once(data, shares(sampler, 0), 0, 2, {.threads = 0, .prefetch = 1});
  EXPECT_FALSE(at_once.peek());
  EXPECT_EQ(at_once.next()->step, 0);
}

// A batch that could not be read is none, and next() says why.
TEST(Loader, ShowsNoErrors) {
  Numbers data;
  data.broken = {2};
  const Sampler sampler(1000, 5, 1, false, 1);
  Loader loader(data, shares(sampler, 0), 0, 2, {.threads = 1, .prefetch = 2});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(loader.peek());
  EXPECT_THROW(loader.next(), Error);
  while (!loader.peek()) std::this_thread::yield();
  EXPECT_EQ(loader.next()->step, 1);
}

TEST(Loader, CanEndAtAnyMoment) {
  Numbers data;
  data.delay = std::chrono::milliseconds(2);
  const Sampler sampler(1000, 500, 1, false, 1);
  std::shared_ptr<const Batch> kept;
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& options : kOptions) Loader(data, shares(sampler, 0), 0, 100, options);
  for (int taken = 0; taken < 4; ++taken) {
    data.delay = std::chrono::milliseconds(0);
    const Sampler small(1000, 5, 1, false, 1);
    Loader loader(data, shares(small, 0), 0, 100, {.threads = 3, .prefetch = 2});
    for (int i = 0; i < taken; ++i) kept = loader.next();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));  // a batch of the slow set takes 1 s
  EXPECT_EQ(kept->images.at(2), 11);                                             // a batch outlives its loader
}

TEST(Loader, TakesNoStepsAtAll) {
  const Numbers data;
  for (const auto& options : kOptions) EXPECT_FALSE(Loader(data, nullptr, 3, 3, options).next());
  EXPECT_THROW(Loader(data, nullptr, 0, 1, {.threads = -1}), Error);
  EXPECT_THROW(Loader(data, nullptr, 0, 1, {.threads = 1, .prefetch = 0}), Error);
}

}  // namespace
}  // namespace ddl
