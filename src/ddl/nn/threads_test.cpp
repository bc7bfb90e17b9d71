#include "ddl/nn/threads.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ddl/nn/matrix_products.h"
#include "ddl/nn/one_thread_testing.h"
#include "ddl/nn/operators/attention.h"
#include "ddl/nn/operators/bias_gradient.h"
#include "ddl/nn/operators/max_pool.h"
#include "ddl/nn/operators/product.h"
#include "ddl/nn/operators/winograd.h"

// What threads share is the same as what one makes.
namespace ddl {
namespace {

using Tensors = std::vector<at::Tensor>;
using Computation = std::function<at::Tensor(const Tensors& leaves)>;

/// Output and gradients of a layer, by so many threads.
Tensors pass(int threads, const Tensors& given, const Computation& layer) {
  const OneThread kept;
  at::set_num_threads(threads);
  Tensors leaves;
  for (const auto& each : given) leaves.push_back(each.detach().clone().requires_grad_());
  const auto out = layer(leaves);
  at::manual_seed(4);
  const auto above = at::randn(out.sizes()).to(out.scalar_type());
  out.mul(above).sum().backward();
  Tensors all{out.detach()};
  for (const auto& each : leaves) all.push_back(each.grad());
  return all;
}

/// Parts of threads are not of one size, and there are more than cores.
void expect_same_bits(const Tensors& given, const Computation& layer, const char* label) {
  const auto one = pass(1, given, layer);
  for (const int threads : {2, 3, 5}) {
    const auto several = pass(threads, given, layer);
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], several[i])) << label << ", " << threads << " threads, tensor " << i;
  }
}

/// A library may add up in another order then: `bound` of the largest element.
void expect_near(const Tensors& given, const Computation& layer, double bound, const char* label) {
  const auto one = pass(1, given, layer);
  for (const int threads : {2, 3, 5}) {
    const auto several = pass(threads, given, layer);
    for (std::size_t i = 0; i < one.size(); ++i) {
      const auto largest = one[i].abs().max().to(at::kFloat).item<double>();
      EXPECT_LE((one[i] - several[i]).abs().max().to(at::kFloat).item<double>(), bound * largest) << label << ", " << threads << " threads, tensor " << i;
    }
  }
}

at::Tensor maps_of(at::IntArrayRef sizes, at::ScalarType type) { return at::randn(sizes).to(type).contiguous(at::MemoryFormat::ChannelsLast); }

TEST(ShareOut, GivesEachOfThemAwayOnce) {
  const OneThread kept;
  at::set_num_threads(3);
  for (const std::int64_t each : {1, 100, 40000}) {
    std::vector<int> seen(50);
    share_out(50, each, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
    });
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), 50) << each;
  }
  share_out(0, 100000, [](std::int64_t, std::int64_t) { FAIL() << "there is nothing to do"; });
}

// Compiled without OpenMP, at::parallel_for() is a loop of one thread.
TEST(ShareOut, IsDoneByAllThreads) {
  const OneThread kept;
  at::set_num_threads(3);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::set<int> numbers;
  share_out(6, kElementsOfAThread, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(end - begin, 2);
    threads.insert(std::this_thread::get_id());
    numbers.insert(at::get_thread_num());
  });
  EXPECT_EQ(threads.size(), 3U);
  EXPECT_EQ(numbers, (std::set<int>{0, 1, 2}));
}

TEST(ShareOut, WakesNobodyForLittle) {
  const OneThread kept;
  at::set_num_threads(3);
  int calls = 0;
  share_out(10, kElementsOfAThread / 10, [&](std::int64_t begin, std::int64_t end) { calls += begin == 0 && end == 10 ? 1 : 100; });
  EXPECT_EQ(calls, 1);
}

TEST(SeveralThreads, MakeTheSameMaxima) {
  at::manual_seed(1);
  Attributes of;
  for (const std::int64_t kernel : {2, 3})
    for (const auto type : {at::kFloat, at::kBFloat16})
      for (const auto format : {at::MemoryFormat::ChannelsLast, at::MemoryFormat::Contiguous}) {
        of.kernel = kernel, of.stride = 2;
        const auto maps = at::randn({7, 48, 26, 26}).to(type).contiguous(format);
        expect_same_bits({maps}, [&](const Tensors& leaves) { return most_of_windows(of, leaves[0], 0, true); }, "max pool");
      }
}

TEST(SeveralThreads, MakeTheSameAttention) {
  at::manual_seed(2);
  constexpr std::int64_t kHeads = 3, kWidth = 24, kFeatures = kHeads * kWidth;
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const auto itself = at::randn({5, 130, 3 * kFeatures}).to(type), asking = at::randn({5, 70, kFeatures}).to(type), known = at::randn({5, 150, 2 * kFeatures}).to(type);
    auto visible = at::ones({5, 1, 1, 150}, at::kBool);
    visible.narrow(3, 140, 10).fill_(false);
    expect_same_bits({itself}, [&](const Tensors& leaves) { return attend_by_blocks({leaves[0], leaves[0], kHeads, kFeatures, true, {}}); }, "of a sentence to itself");
    expect_same_bits({asking, known}, [&](const Tensors& leaves) { return attend_by_blocks({leaves[0], leaves[1], kHeads, kFeatures, false, visible}); }, "to another");
  }
}

TEST(SeveralThreads, MakeTheSameGradientOfABias) {
  at::manual_seed(3);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const auto rows = at::randn({3000, 330}).to(type);
    const OneThread kept;
    const auto one = bias_gradient(rows, at::kFloat);
    for (const int threads : {2, 3, 5}) {
      at::set_num_threads(threads);
      EXPECT_TRUE(at::equal(bias_gradient(rows, at::kFloat), one)) << threads;
    }
  }
}

TEST(SeveralThreads, ConvolveByTilesAlike) {
  at::manual_seed(5);
  const Windows windows{6, 21, 18, 70, 3, 3, 1, 1, 1, 1, 21, 18};
  for (const auto type : {at::kFloat, at::kBFloat16})
    expect_near({maps_of({6, 70, 21, 18}, type), maps_of({96, 70, 3, 3}, at::kFloat), at::randn({96})},
                [&](const Tensors& leaves) { return convolve_by_tiles(leaves[0], leaves[1], leaves[2], Sharing::none, windows, true); }, type == at::kFloat ? 3e-6 : 0.02, "tiles");
}

TEST(SeveralThreads, ConvolveByProductsAlike) {
  at::manual_seed(6);
  const Windows windows{7, 9, 8, 80, 3, 3, 2, 1, 1, 1, 5, 8};
  for (const auto type : {at::kFloat, at::kBFloat16})
    expect_near({maps_of({7, 80, 9, 8}, type), maps_of({96, 80, 3, 3}, at::kFloat), at::randn({96})},
                [&](const Tensors& leaves) { return multiply(leaves[0], leaves[1], leaves[2], Sharing::none, windows, true); }, type == at::kFloat ? 3e-6 : 0.02, "products");
}

}  // namespace
}  // namespace ddl
