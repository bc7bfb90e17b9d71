#include "ddl/train/measure_machine.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <span>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include "ddl/core/statistics.h"
#include "ddl/measure/clock.h"
#include "ddl/nn/model.h"
#include "ddl/nn/network.h"
#include "ddl/train/begin_alone.h"
#include "ddl/train/core_clock.h"
#include "ddl/train/device.h"
#include "ddl/train/measure_layers.h"
#include "ddl/train/measure_passes.h"
#include "ddl/train/optimizer.h"

namespace ddl {
namespace {

constexpr std::int64_t kLargeArray = std::int64_t{64} << 20;  ///< more than caches hold
constexpr std::size_t kFew = 5;

/// Until nothing of it is queued.
double timed(Device& device, const std::function<void()>& body, bool core = false) {
  const auto begin = time_of(core);
  body();
  device.synchronize();
  return seconds(time_of(core) - begin);
}

/// Median of as many as the budget has room for; `before` each is not counted.
double repeated(Seconds budget, Device& device, int threads, const std::function<void()>& body, const std::function<void()>& before = {}) {
  const bool core = device.is_host() && threads == 1;
  std::vector<double> times;
  const auto begin = now();
  // The first warms up.
  for (std::size_t run = 0; run < kFew + 1 || seconds(now() - begin) < budget.value; ++run) {
    if (before) before();
    device.synchronize();
    const double time = timed(device, body, core);
    if (run > 0) times.push_back(time);
  }
  return median(times);
}

at::Tensor floats(std::int64_t bytes, const at::Device& where) { return at::full({std::max<std::int64_t>(1, bytes / 4)}, 0.5, at::TensorOptions(at::kFloat).device(where)); }

/// Blocks of `body`, alone (process 0) and together, by turns.
/// `first`, if given: what `body` adds its first part's time to.
CompanyTimes in_company(Board& board, int rank, Device& device, int threads, Seconds budget, const std::function<void()>& body, const std::vector<double>* first = nullptr) {
  for (int i = 0; i < 2; ++i) body();
  board.meet();
  if (rank == 0) {
    constexpr double kBlocks = 6, kMost = 50;
    const double one = std::min(timed(device, body), timed(device, body));
    board.number(0) = std::clamp(budget.value / (2 * kBlocks) / std::max(one, 1e-9), 3.0, kMost);
    board.number(1) = std::max(2.0, std::min(kBlocks, budget.value / (2 * 3 * std::max(one, 1e-9))));
  }
  board.meet();
  const auto block = static_cast<int>(board.number(0)), blocks = static_cast<int>(board.number(1));
  CompanyTimes times;
  const auto once = [&](std::vector<double>& wall, std::vector<double>& core) {
    const auto begin = core_time();
    wall.push_back(timed(device, body));
    if (threads == 1 && device.is_host()) core.push_back(seconds(core_time() - begin));
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

/// Memory of the host that the device may read and write by itself.
struct PinnedFloats {
  PinnedFloats(std::int64_t bytes, Device& of) : device(of), tensor(floats(bytes, at::kCPU)) {
    if (!device.is_host()) device.pin(memory());
  }
  ~PinnedFloats() {
    if (!device.is_host()) device.unpin(memory());
  }
  PinnedFloats(const PinnedFloats&) = delete;
  PinnedFloats& operator=(const PinnedFloats&) = delete;
  std::span<std::byte> memory() const { return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()}; }

  Device& device;
  at::Tensor tensor;
};

/// What computes, and what moves memory.
struct Loads {
  explicit Loads(const at::Device& where)
      : images(at::full({2, 64, 28, 28}, 0.5, at::TensorOptions(at::kFloat).device(where)).contiguous(at::MemoryFormat::ChannelsLast)),
        weights(at::full({64, 64, 3, 3}, 0.01, images.options()).contiguous(at::MemoryFormat::ChannelsLast)), from(floats(kLargeArray / 2, where)), to(floats(kLargeArray / 2, where)) {}
  at::Tensor images, weights, from, to;
  void compute() const { at::conv2d(images, weights, {}, 1, 1); }
  void memory() { at::clamp_min_out(to, from, 0); }
};

}  // namespace

double measure_update(const Spec& optimizer, std::int64_t bytes, Device& device, int threads, Seconds budget) {
  begin_alone(threads);
  const c10::NoGradGuard guard;
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  std::vector<at::Tensor> parameters, gradients;
  std::vector<std::size_t> numbers;
  for (std::int64_t left = bytes; left > 0; left -= kMost) {
    numbers.push_back(parameters.size());
    parameters.push_back(floats(std::min(left, kMost), device.where()));
    gradients.push_back(floats(std::min(left, kMost), device.where()));
  }
  const auto rule = make_optimizer(optimizer, parameters, {0.9, 0});
  auto elsewhere = floats(kLargeArray, device.where());
  return repeated(budget, device, threads, [&] { rule->update(numbers, gradients, 1e-12); }, [&] { elsewhere.add_(1); });
}

double measure_triad(std::int64_t bytes, Device& device, int threads, Seconds budget) {
  begin_alone(threads);
  const c10::NoGradGuard guard;
  auto a = floats(bytes, device.where());
  const auto b = floats(bytes, device.where()), c = floats(bytes, device.where());
  return 3 * static_cast<double>(bytes) / repeated(budget, device, threads, [&] { at::add_out(a, b, c, 3); });
}

double measure_copy(std::int64_t bytes, Seconds budget) {
  begin_alone(1);
  const c10::NoGradGuard guard;
  auto from = floats(bytes, at::kCPU), to = floats(bytes, at::kCPU);
  const auto device = make_device("cpu");
  return repeated(budget, *device, 1, [&] { std::memcpy(to.data_ptr(), from.const_data_ptr(), from.nbytes()); }, [&] { from.add_(1); });
}

TransferSeconds measure_transfers(std::int64_t bytes, Device& device, Seconds budget) {
  begin_alone(1);
  const c10::NoGradGuard guard;
  const PinnedFloats host(bytes, device);
  auto from = floats(bytes, device.where()), to = floats(bytes, device.where());
  const Seconds third{budget.value / 3};
  return {repeated(third, device, 1, [&] { to.copy_(from); }), repeated(third, device, 1, [&] { device.download(host.tensor, from).wait(); }),
          repeated(third, device, 1, [&] { device.upload_into(to, host.tensor); })};
}

LaunchSeconds measure_launch(Device& device, Seconds budget) {
  begin_alone(1);
  const auto graph = make_model({"mlp", {{"hidden", "2"}, {"layers", "2"}}}, SampleShape{1, 1, 1, 2});
  const auto found = measure_layers(graph, {at::kFloat, device.where()}, device, "fp32", 1, budget);
  LaunchSeconds launch;
  // Of the last, which has all of a backward.
  launch.forward = found.forward.back();
  launch.backward = found.backward.back();
  const c10::NoGradGuard guard;
  // Fewer than queues hold, so that nobody waits for room.
  constexpr int kCalls = 200;
  auto small = floats(4, device.where());
  std::vector<double> calls;
  for (std::size_t run = 0; run < kFew + 1; ++run) {
    device.synchronize();
    const auto begin = now();
    for (int i = 0; i < kCalls; ++i) small.add_(1);
    calls.push_back(seconds(now() - begin) / kCalls);
  }
  launch.queue = median(std::span(calls).subspan(1));
  device.synchronize();
  return launch;
}

CompanyTimes steps_in_company(const Job& job, const Dataset& data, Board& board, int rank, Seconds budget) {
  TrainingPasses passes(job, data);
  std::vector<double> forward;
  return in_company(board, rank, passes.device(), job.workers.front().threads, budget, [&] { forward.push_back(passes.run().wall_forward); }, &forward);
}

LoadTimes loads_in_company(Device& device, int threads, Board& board, int rank, Seconds budget) {
  begin_alone(threads);
  const c10::NoGradGuard guard;
  Loads loads(device.where());
  const Seconds half{budget.value / 2};
  auto compute = in_company(board, rank, device, threads, half, [&] { loads.compute(); });
  return {std::move(compute), in_company(board, rank, device, threads, half, [&] { loads.memory(); })};
}

BesideTimes beside_collective(Communicator& group, std::int64_t bytes, Device& device, int threads, Board& board, int rank, Seconds budget) {
  begin_alone(threads);
  const c10::NoGradGuard guard;
  Loads loads(device.where());
  const PinnedFloats host(bytes, device);
  const auto& buffer = host.tensor;
  auto gradients = device.is_host() ? at::Tensor() : floats(bytes, device.where());
  // Not timed(): what computes beside it on the device is queued, too, and nobody is to wait for that.
  const auto once = [&] {
    const auto begin = now();
    if (gradients.defined()) device.download(buffer, gradients).wait();
    group.all_reduce({static_cast<std::byte*>(buffer.data_ptr()), static_cast<std::size_t>(buffer.numel()), ElementType::fp32}, ReduceOp::average).wait();
    if (gradients.defined()) device.upload_into(gradients, buffer);
    return seconds(now() - begin);
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
    while (by_itself.size() < kFew || seconds(now() - begin) < budget.value / 8) by_itself.push_back(timed(device, load));
    board.meet();
    std::atomic<bool> over{false};
    std::thread thread([&] {
      took = several(times);
      over = true;
    });
    while (!over) {
      const double time = timed(device, load);
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
