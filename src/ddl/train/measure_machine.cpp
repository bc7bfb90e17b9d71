#include "ddl/train/measure_machine.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include "ddl/core/statistics.h"
#include "ddl/measure/clock.h"
#include "ddl/nn/model.h"
#include "ddl/train/allocator.h"
#include "ddl/train/core_clock.h"
#include "ddl/train/measure_layers.h"
#include "ddl/train/measure_passes.h"
#include "ddl/train/optimizer.h"

namespace ddl {
namespace {

constexpr std::int64_t kLargeArray = std::int64_t{64} << 20;  ///< more than caches hold
constexpr std::size_t kFew = 5;

void begin_alone(int threads) {
  at::set_num_threads(threads);
  install_allocator(true);
}

double timed(const std::function<void()>& body, bool core = false) {
  const auto begin = time_of(core);
  body();
  return seconds(time_of(core) - begin);
}

/// Median of as many as the budget has room for; `before` each is not counted.
double repeated(Seconds budget, int threads, const std::function<void()>& body, const std::function<void()>& before = {}) {
  std::vector<double> times;
  const auto begin = now();
  // The first warms up.
  for (std::size_t run = 0; run < kFew + 1 || seconds(now() - begin) < budget.value; ++run) {
    if (before) before();
    const double time = timed(body, threads == 1);
    if (run > 0) times.push_back(time);
  }
  return median(times);
}

at::Tensor floats(std::int64_t bytes) { return at::full({std::max<std::int64_t>(1, bytes / 4)}, 0.5, at::kFloat); }

/// Blocks of `body`, alone (process 0) and together, by turns.
/// `first`, if given: what `body` adds its first part's time to.
CompanyTimes in_company(Board& board, int rank, int threads, Seconds budget, const std::function<void()>& body, const std::vector<double>* first = nullptr) {
  for (int i = 0; i < 2; ++i) body();
  board.meet();
  if (rank == 0) {
    constexpr double kBlocks = 6, kMost = 50;
    const double one = std::min(timed(body), timed(body));
    board.number(0) = std::clamp(budget.value / (2 * kBlocks) / std::max(one, 1e-9), 3.0, kMost);
    board.number(1) = std::max(2.0, std::min(kBlocks, budget.value / (2 * 3 * std::max(one, 1e-9))));
  }
  board.meet();
  const auto block = static_cast<int>(board.number(0)), blocks = static_cast<int>(board.number(1));
  CompanyTimes times;
  const auto once = [&](std::vector<double>& wall, std::vector<double>& core) {
    const auto begin = core_time();
    wall.push_back(timed(body));
    if (threads == 1) core.push_back(seconds(core_time() - begin));
  };
  for (int turn = 0; turn < blocks; ++turn) {
    board.meet();
    if (rank == 0)
      for (int i = 0; i < block; ++i) once(times.alone, times.alone_core);
    for (int i = 0; i < block; ++i) {
      board.meet();
      once(times.together, times.together_core);
      if (first != nullptr) times.together_first.push_back(first->back());
    }
  }
  board.meet();
  return times;
}

/// What computes, and what moves memory.
struct Loads {
  at::Tensor images = at::full({2, 64, 28, 28}, 0.5, at::kFloat).contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor weights = at::full({64, 64, 3, 3}, 0.01, at::kFloat).contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor from = floats(kLargeArray / 2), to = floats(kLargeArray / 2);
  void compute() const { at::conv2d(images, weights, {}, 1, 1); }
  void memory() { at::clamp_min_out(to, from, 0); }
};

}  // namespace

double measure_update(const Spec& optimizer, std::int64_t bytes, int threads, Seconds budget) {
  begin_alone(threads);
  const c10::NoGradGuard guard;
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  std::vector<at::Tensor> parameters, gradients;
  std::vector<std::size_t> numbers;
  for (std::int64_t left = bytes; left > 0; left -= kMost) {
    numbers.push_back(parameters.size());
    parameters.push_back(floats(std::min(left, kMost)));
    gradients.push_back(floats(std::min(left, kMost)));
  }
  const auto rule = make_optimizer(optimizer, parameters, {0.9, 0});
  auto elsewhere = floats(kLargeArray);
  return repeated(budget, threads, [&] { rule->update(numbers, gradients, 1e-12); }, [&] { elsewhere.add_(1); });
}

double measure_triad(std::int64_t bytes, int threads, Seconds budget) {
  begin_alone(threads);
  const c10::NoGradGuard guard;
  auto a = floats(bytes);
  const auto b = floats(bytes), c = floats(bytes);
  return 3 * static_cast<double>(bytes) / repeated(budget, threads, [&] { at::add_out(a, b, c, 3); });
}

double measure_copy(std::int64_t bytes, Seconds budget) {
  begin_alone(1);
  const c10::NoGradGuard guard;
  auto from = floats(bytes), to = floats(bytes);
  return repeated(budget, 1, [&] { std::memcpy(to.data_ptr(), from.const_data_ptr(), from.nbytes()); }, [&] { from.add_(1); });
}

LaunchSeconds measure_launch(Seconds budget) {
  begin_alone(1);
  const auto graph = make_model({"mlp", {{"hidden", "2"}, {"layers", "2"}}}, SampleShape{1, 1, 1, 2});
  const auto device = make_device("cpu");
  const auto found = measure_layers(graph, {at::kFloat, device->where()}, *device, "fp32", 1, budget);
  LaunchSeconds launch;
  // Of the last, which has all of a backward.
  launch.forward = found.forward.back();
  launch.backward = found.backward.back();
  return launch;
}

CompanyTimes steps_in_company(const Job& job, const Dataset& data, Board& board, int rank, Seconds budget) {
  TrainingPasses passes(job, data);
  std::vector<double> forward;
  return in_company(board, rank, job.workers.front().threads, budget, [&] { forward.push_back(passes.run().wall_forward); }, &forward);
}

LoadTimes loads_in_company(int threads, Board& board, int rank, Seconds budget) {
  begin_alone(threads);
  const c10::NoGradGuard guard;
  Loads loads;
  const Seconds half{budget.value / 2};
  auto compute = in_company(board, rank, threads, half, [&] { loads.compute(); });
  return {std::move(compute), in_company(board, rank, threads, half, [&] { loads.memory(); })};
}

BesideTimes beside_collective(Communicator& group, std::int64_t bytes, int threads, Board& board, int rank, Seconds budget) {
  begin_alone(threads);
  const c10::NoGradGuard guard;
  Loads loads;
  auto buffer = floats(bytes);
  const auto once = [&] {
    return timed([&] { group.all_reduce({static_cast<std::byte*>(buffer.data_ptr()), static_cast<std::size_t>(buffer.numel()), ElementType::fp32}, ReduceOp::average).wait(); });
  };
  const auto several = [&](int times) {
    std::vector<double> took;
    for (int i = 0; i < times; ++i) took.push_back(once());
    return took;
  };
  once();
  // As many for all, so that nobody waits for ever.
  double one = once();
  for (int i = 0; i < 4; ++i) one = std::min(one, once());
  if (rank == 0) board.number(2) = std::clamp(budget.value / 8 / std::max(one, 1e-9), 5.0, 500.0);
  board.meet();
  const auto times = static_cast<int>(board.number(2));
  BesideTimes found;
  board.meet();
  // Means: what has the cores for a while takes it from some and not from most.
  found.collective_alone = mean(several(times));
  const auto beside = [&](const std::function<void()>& load, double& alone, double& together, double& collective) {
    for (int i = 0; i < 2; ++i) load();
    board.meet();
    std::vector<double> by_itself, with, took;
    const auto begin = now();
    while (by_itself.size() < kFew || seconds(now() - begin) < budget.value / 8) by_itself.push_back(timed(load));
    board.meet();
    std::atomic<bool> over{false};
    std::thread thread([&] {
      took = several(times);
      over = true;
    });
    while (!over) {
      const double time = timed(load);
      if (!over) with.push_back(time);
    }
    thread.join();
    board.meet();
    alone = mean(by_itself);
    together = with.empty() ? alone : mean(with);
    collective = mean(took);
  };
  beside([&] { loads.compute(); }, found.compute_alone, found.compute_beside, found.collective_beside_compute);
  beside([&] { loads.memory(); }, found.memory_alone, found.memory_beside, found.collective_beside_memory);
  return found;
}

}  // namespace ddl
