#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include "ddl/core/error.h"
#include "ddl/core/spec.h"
#include "ddl/core/statistics.h"
#include "ddl/data/dataset.h"
#include "ddl/nn/model.h"
#include "ddl/nn/network_testing.h"
#include "ddl/train/allocator.h"
#include "ddl/train/autocast.h"
#include "ddl/train/objective.h"

// Forward and backward of one network with `fast` kernels and with `torch`'s, a step of each in turn on one thread: processor time, so that neighbours on the machine count less than on a clock. Of each the
// least and the median, since what is least was disturbed least. A step is of several micro-batches, whose gradients are added up, and of no update.
//
// usage: kernels_bench MODEL DATASET BATCH [STEPS=20 [PASSES=1 [PRECISION=fp32]]]    samples of a micro-batch, how many micro-batches a step has, and fp32 or bf16
// prints: milliseconds of `fast`, of `torch`, and their ratio, for the least and for the median

namespace ddl {
namespace {

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double step(Network& network, const Samples& samples, int passes, const std::string& precision) {
  const auto begin = processor_seconds();
  for (int pass = 0; pass < passes; ++pass) {
    at::Tensor loss;
    {
      const Autocast autocast(at::kCPU, precision);
      loss = loss_sum(network.forward(samples.input, true), samples.labels, 0, network.kernels());
    }
    torch::autograd::backward({loss}, {});
  }
  for (auto& parameter : network.parameters()) parameter.mutable_grad().reset();
  return (processor_seconds() - begin) * 1e3;
}

void compare(const std::string& model, const std::string& dataset, std::int64_t batch, int steps, int passes, const std::string& precision) {
  at::set_num_threads(1);
  install_allocator(true);
  const auto shape = dataset_shape(dataset, true);
  std::vector<Network> networks;
  std::vector<Samples> samples;
  for (const auto kernels : {Kernels::fast, Kernels::torch}) {
    NetworkOptions options;
    options.kernels = kernels;
    networks.emplace_back(make_model(parse_spec(model), shape), options);
    samples.push_back(made_up_samples(batch, shape, at::kFloat));
    if (auto& images = samples.back().input.images; images.defined()) images = images.contiguous(networks.back().memory_format());
  }
  std::vector<double> milliseconds[2];
  for (int s = -2; s < steps; ++s)
    for (std::size_t k = 0; k < 2; ++k) {
      const auto which = s % 2 == 0 ? k : 1 - k;
      const auto took = step(networks[which], samples[which], passes, precision);
      if (s >= 0) milliseconds[which].push_back(took);
    }
  const auto least = [](const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); };
  for (const auto& [word, of] : {std::pair<const char*, double (*)(const std::vector<double>&)>{"least ", +least}, {"median", +[](const std::vector<double>& values) { return median(values); }}}) {
    const double fast = of(milliseconds[0]), torch = of(milliseconds[1]);
    std::printf("%s  fast %.2f ms  torch %.2f ms  %.3f\n", word, fast, torch, torch / fast);
  }
}

}  // namespace
}  // namespace ddl

int main(int count, char** words) {
  const int batch = count > 3 ? std::atoi(words[3]) : 0, steps = count > 4 ? std::atoi(words[4]) : 20, passes = count > 5 ? std::atoi(words[5]) : 1;
  const std::string precision = count > 6 ? words[6] : "fp32";
  if (count < 4 || count > 7 || batch < 1 || steps < 1 || passes < 1 || (precision != "fp32" && precision != "bf16")) {
    std::fprintf(stderr, "usage: kernels_bench MODEL DATASET BATCH [STEPS [PASSES [fp32|bf16]]]\n");
    return 2;
  }
  try {
    ddl::compare(words[1], words[2], batch, steps, passes, precision);
  } catch (const ddl::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
