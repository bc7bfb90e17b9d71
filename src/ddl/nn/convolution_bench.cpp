#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include "ddl/core/statistics.h"
#include "ddl/nn/operators/product.h"
#include "ddl/nn/operators/winograd.h"

// One convolution of 3x3 with stride 1, forward and backward, by each way that there is: ATen's (oneDNN), one product of matrices over what each place sees, and tiles. Processor time of one thread, the time that passed of several; by turns,
// and many weights in turn, as in a network, so that they come from memory.
//
// usage: convolution_bench SAMPLES IN OUT SIDE [ROUNDS=9 [PRECISION=fp32 [THREADS=1]]]    fp32, or bf16 with weights of fp32
// prints: milliseconds forward and backward, the median of rounds, and what of ATen's time each takes

namespace ddl {
namespace {

double clock_ms() {
  timespec time{};
  ::clock_gettime(at::get_num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

struct Way {
  std::string name;
  std::function<at::Tensor(const at::Tensor& x, const at::Tensor& weight)> run;
  std::vector<double> forward = {}, backward = {};
};

void compare(std::int64_t samples, std::int64_t in, std::int64_t out, std::int64_t side, int rounds, at::ScalarType type, int threads) {
  constexpr std::int64_t kBytesOfWeights = std::int64_t{64} << 20;
  at::set_num_threads(threads);
  const Windows windows{samples, side, side, in, 3, 3, 1, 1, 1, 1, side, side};
  const auto make = [](at::IntArrayRef sizes) { return at::randn(sizes).contiguous(at::MemoryFormat::ChannelsLast); };
  const auto x = make({samples, in, side, side}).to(type).requires_grad_(), gradient = make({samples, out, side, side}).to(type);
  std::vector<at::Tensor> weights;
  for (std::int64_t i = 0; i < std::clamp<std::int64_t>(kBytesOfWeights / (36 * in * out), 1, 16); ++i) weights.push_back(make({out, in, 3, 3}).requires_grad_());
  std::vector<Way> ways{{"ATen", [&](const at::Tensor& maps, const at::Tensor& weight) { return at::conv2d(maps, weight.to(type), {}, 1, 1); }},
                        {"product", [&](const at::Tensor& maps, const at::Tensor& weight) { return multiply(maps, weight, {}, Sharing::none, windows); }},
                        {"tiles", [&](const at::Tensor& maps, const at::Tensor& weight) { return convolve_by_tiles(maps, weight, {}, Sharing::none, windows); }}};
  for (int round = -1; round < rounds; ++round)
    for (auto& way : ways) {
      double forward = 0, backward = 0;
      for (const auto& weight : weights) {
        const auto begin = clock_ms();
        const auto made = way.run(x, weight);
        const auto middle = clock_ms();
        torch::autograd::backward({made}, {gradient});
        forward += middle - begin, backward += clock_ms() - middle;
        weight.mutable_grad().reset();
        x.mutable_grad().reset();
      }
      const auto count = static_cast<double>(weights.size());
      if (round >= 0) way.forward.push_back(forward / count), way.backward.push_back(backward / count);
    }
  const double reference = median(ways[0].forward) + median(ways[0].backward);
  for (const auto& way : ways)
    std::printf("%-8s forward %8.3f  backward %8.3f  %.2f\n", way.name.c_str(), median(way.forward), median(way.backward), (median(way.forward) + median(way.backward)) / reference);
}

}  // namespace
}  // namespace ddl

int main(int count, char** words) {
  // As with the allocator that training has: no page is asked for twice.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  std::vector<std::int64_t> sizes;
  const std::string precision = count > 6 ? words[6] : "fp32";
  for (int i = 1; i < std::min(count, 6); ++i) sizes.push_back(std::atoll(words[i]));
  const int threads = count > 7 ? std::atoi(words[7]) : 1;
  if (count < 5 || count > 8 || threads < 1 || (precision != "fp32" && precision != "bf16") || std::any_of(sizes.begin(), sizes.end(), [](std::int64_t each) { return each < 1; })) {
    std::fprintf(stderr, "usage: convolution_bench SAMPLES IN OUT SIDE [ROUNDS [fp32|bf16 [THREADS]]]\n");
    return 2;
  }
  ddl::compare(sizes[0], sizes[1], sizes[2], sizes[3], count > 5 ? static_cast<int>(sizes[4]) : 9, precision == "bf16" ? at::kBFloat16 : at::kFloat, threads);
}
