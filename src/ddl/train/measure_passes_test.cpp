#include "ddl/train/measure_passes.h"

#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/data/synthetic.h"
#include "ddl/measure/clock.h"
#include "ddl/train/board.h"
#include "ddl/train/device_testing.h"
#include "ddl/train/measure_layers.h"
#include "ddl/train/measure_machine.h"

namespace ddl {
namespace {

Job job_of(const std::string& model, const std::string& precision = "fp32") {
  Job job;
  job.model = parse_spec(model);
  job.strategy = {"single", {}};
  job.batch = 4;
  job.precision = precision;
  job.collective = "auto";
  return job;
}

DatasetPair images() { return make_synthetic("test", {3, 32, 32, 10}, 64, 16, 1); }

double total(const std::vector<double>& values) {
  double sum = 0;
  for (const double each : values) sum += each;
  return sum;
}

TEST(MeasurePasses, PartsOfAStepAddUp) {
  const auto data = images();
  for (const char* model : {"smallcnn", "resnet18", "mobilenetv2"}) {
    // The same layers are computed together in either precision.
    std::set<std::size_t> following;
    for (const char* precision : {"fp32", "bf16"}) {
      TrainingPasses passes(job_of(model, precision), *data.train);
      passes.run();
      const auto times = passes.run();
      const auto& layers = passes.graph().layers;
      ASSERT_EQ(times.forward.size(), layers.size());
      EXPECT_TRUE(passes.core_time());
      const double sum = total(times.forward) + total(times.backward) + times.copy + times.loss_forward + times.loss_backward + times.update;
      // Nothing but a handful of calls is between the parts.
      EXPECT_NEAR(sum, times.whole, 0.03 * times.whole + 2e-4) << model << " " << precision;
      EXPECT_LE(times.whole, times.wall + 1e-4);
      std::set<std::size_t> followers;
      for (std::size_t layer = 0; layer < layers.size(); ++layer) {
        // Computed together with the batch norm, convolution or linear layer before it, or with the ReLU, and counted there.
        const auto kind = layers[layer].kind;
        const bool follows = (kind == LayerKind::add || kind == LayerKind::relu || kind == LayerKind::relu6 || kind == LayerKind::max_pool2d) && times.forward[layer] == 0;
        EXPECT_EQ(times.forward[layer] > 0, layers[layer].kind != LayerKind::input && !follows) << layers[layer].name;
        if (follows) {
          ASSERT_GT(layer, 0U);
          const auto before = layers[layer - 1].kind;
          followers.insert(layer);
          EXPECT_TRUE((kind == LayerKind::max_pool2d && before == LayerKind::relu) || (kind == LayerKind::relu && (before == LayerKind::conv2d || before == LayerKind::linear)) || before == LayerKind::batch_norm2d || (before == LayerKind::add && layers[layer - 2].kind == LayerKind::batch_norm2d)) << layers[layer].name;
        }
        // What has parameters has a backward, and the engine came to it.
        if (!layers[layer].parameters.empty()) {
          EXPECT_GT(times.backward[layer], 0) << model << " " << layers[layer].name;
        }
      }
      EXPECT_FALSE(followers.empty()) << model << " " << precision;
      if (following.empty()) following = followers;
      EXPECT_EQ(followers, following) << model << " " << precision;
    }
  }
}

TEST(MeasurePasses, PassesAreStepsOfTheExecutor) {
  const auto data = images();
  TrainingPasses passes(job_of("resnet18"), *data.train);
  const auto all = run_by_turns(passes, {0.2}, 4);
  ASSERT_GE(all.passes.size(), 4U);
  ASSERT_GE(all.steps.size(), 4U);
  std::vector<double> here, there;
  for (const auto& pass : all.passes) here.push_back(pass.whole);
  for (const auto& step : all.steps) {
    there.push_back(step.whole);
    EXPECT_GT(step.forward, 0);
    EXPECT_GT(step.backward, step.update);
    EXPECT_LE(step.load + step.copy + step.forward + step.backward + step.update, step.wall);
  }
  // The least of a few is what nobody disturbed.
  const double least = *std::min_element(here.begin(), here.end()), other = *std::min_element(there.begin(), there.end());
  EXPECT_NEAR(other / least, 1, 0.25);
}

// Where work is queued layers are timed by the queue: nobody waits between them, and parts add up all the same.
TEST(MeasurePasses, LayersOfADeviceAreTimedByItsQueue) {
  const auto data = images();
  for (const auto& name : test_devices()) {
    auto device = test_device(name);
    const bool host = device->is_host();
    TrainingPasses passes(job_of("smallcnn"), *data.train, std::move(device));
    EXPECT_EQ(passes.clock(), host ? "core" : "device") << name;
    passes.run();
    const auto times = passes.run();
    const double sum = total(times.forward) + total(times.backward) + times.copy + times.loss_forward + times.loss_backward + times.update;
    EXPECT_NEAR(sum, times.whole, 0.03 * times.whole + 2e-4) << name;
    EXPECT_GT(times.wall_forward, 0) << name;
    EXPECT_LT(times.wall_forward, times.wall) << name;
    const auto& layers = passes.graph().layers;
    for (std::size_t layer = 0; layer < layers.size(); ++layer)
      if (layers[layer].kind == LayerKind::conv2d) {
        EXPECT_GT(times.forward[layer], 0) << name << " " << layers[layer].name;
        EXPECT_GT(times.backward[layer], 0) << name << " " << layers[layer].name;
      }
    const auto step = passes.step();
    EXPECT_GT(step.forward, 0) << name;
    EXPECT_GT(step.backward, 0) << name;
    EXPECT_GT(step.whole, 0) << name;
  }
}

TEST(MeasurePasses, StepsWhosePassesAreGraphs) {
  const auto data = images();
  for (const auto& name : test_devices()) {
    for (const char* asked : {"on", "off"}) {
      auto job = job_of("smallcnn");
      job.graphs = asked;
      auto device = test_device(name, {.graphs = job.graphs == "on"});
      const bool host = device->is_host(), has_some = !host && job.graphs == "on";
      auto* const delayed = dynamic_cast<DelayedDevice*>(device.get());
      TrainingPasses passes(job, *data.train, std::move(device));
      passes.run();
      const auto one_by_one = passes.step();
      const auto steps = run_by_graphs(passes, {0.01}, 3);
      EXPECT_EQ(steps.size() >= 3, has_some) << name << " " << asked << ": " << passes.why_no_graphs();
      EXPECT_EQ(passes.why_no_graphs().empty(), has_some) << name << " " << asked;
      for (const auto& step : steps) {
        EXPECT_GT(step.forward, 0) << name;
        EXPECT_GT(step.backward, 0) << name;
        EXPECT_GT(step.update, 0) << name;
      }
      // Two launches a step: of those that were timed, of the one that was recorded first, and of the one to warm up.
      if (delayed != nullptr && has_some) {
        EXPECT_EQ(delayed->launches(), static_cast<int>(2 * (steps.size() + 2)));
      }
      // The same network goes on one operation after the other.
      EXPECT_GT(passes.step().forward, 0) << name;
      EXPECT_GT(one_by_one.forward, 0) << name;
    }
  }
}

TEST(MeasurePasses, WhatWaitsCountsByTheClockOnTheWall) {
  const auto data = make_synthetic("test", {1, 28, 28, 10}, 64, 16, 1);
  TrainingPasses passes(job_of("null[ms=20]"), *data.train);
  EXPECT_FALSE(passes.core_time());
  EXPECT_GE(passes.run().whole, 0.02);
}

TEST(MeasurePasses, TheTypicalIsWhatLittleDisturbed) {
  const auto pass = [](double seconds, double waited) { return PassTimes{{seconds / 2}, {seconds / 2}, 0, 0, 0, 0, seconds, seconds, waited}; };
  std::vector<PassTimes> passes;
  for (int i = 0; i < 8; ++i) passes.push_back(pass(1, 0));
  for (int i = 0; i < 8; ++i) passes.push_back(pass(3, 1));
  EXPECT_DOUBLE_EQ(typical(passes).whole, 1);
  EXPECT_DOUBLE_EQ(typical(passes).forward[0], 0.5);
  // All were: the quarter of them that were least.
  for (auto& each : passes) each.waited += 0.1;
  EXPECT_DOUBLE_EQ(typical(passes).whole, 1);
  // Nobody waited: the middle half.
  std::vector<PassTimes> calm;
  for (const double seconds : {1.0, 2.0, 4.0, 100.0}) calm.push_back(pass(seconds, 0));
  EXPECT_DOUBLE_EQ(typical(calm).whole, 3);
}

TEST(MeasureLayers, SharesOfBackwardAreBetweenNothingAndAll) {
  const auto shape = SampleShape{3, 32, 32, 10};
  const auto shares = shares_of_job(job_of("smallcnn"), shape, {0.05});
  bool divided = false;
  for (const double share : shares) {
    EXPECT_GE(share, 0);
    EXPECT_LE(share, 1);
    divided = divided || (share > 0 && share < 1);
  }
  EXPECT_TRUE(divided);
}

TEST(MeasureMachine, MoreTakesLonger) {
  const Seconds budget{0.02};
  EXPECT_LT(measure_copy(1 << 14, budget), measure_copy(8 << 20, budget));
  for (const auto& name : test_devices()) {
    const auto device = test_device(name);
    EXPECT_LT(measure_update({"sgd", {}}, 1 << 16, *device, 1, budget), measure_update({"sgd", {}}, 16 << 20, *device, 1, budget)) << name;
    EXPECT_GT(measure_triad(8 << 20, *device, 1, budget), 1e8) << name;
    const auto launch = measure_launch(*device, budget);
    EXPECT_GT(launch.forward, 0) << name;
    EXPECT_LT(launch.forward, 1e-2) << name;
    EXPECT_GT(launch.backward, 0) << name;
    EXPECT_GT(launch.queue, 0) << name;
    EXPECT_LT(launch.queue, 1e-2) << name;
    if (device->is_host()) continue;
    const auto small = measure_transfers(1 << 14, *device, budget), large = measure_transfers(8 << 20, *device, budget);
    EXPECT_LT(small.within, large.within) << name;
    EXPECT_LT(small.download, large.download) << name;
    EXPECT_LT(small.upload, large.upload) << name;
  }
}

// Nothing that a device lets the host wait for: no copy may be read before it is there, no memory that was pinned left so.
TEST(MeasureMachine, DelayedDevicesArePinnedAndWaitedFor) {
  DelayedDevice device;
  measure_transfers(1 << 16, device, {0.01});
  EXPECT_EQ(device.faults(), 0);
  EXPECT_EQ(device.pinned(), 0);
}

TEST(MeasureMachine, WorkersOnDevicesMeet) {
  const Seconds budget{0.05};
  for (const auto& name : test_devices()) {
    if (name.starts_with("cuda")) continue;  // of which each worker has its own
    Board board(2);
    const pid_t child = ::fork();
    const auto both = [&](int rank) { return loads_in_company(*test_device(name), 1, board, rank, budget); };
    if (child == 0) ::_exit(both(1).memory.together.empty() ? 1 : 0);
    const auto found = both(0);
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << name;
    EXPECT_FALSE(found.compute.alone.empty()) << name;
    EXPECT_EQ(found.compute.together.size(), found.compute.alone.size()) << name;
    // A core's own time says nothing of what a device does.
    EXPECT_EQ(found.compute.alone_core.empty(), name == "delayed") << name;
  }
}

TEST(Board, NobodyPassesBeforeAllAreThere) {
  Board board(2);
  board.number(0) = 0;
  const pid_t child = ::fork();
  if (child == 0) {
    ::usleep(20'000);
    board.number(0) = 7;
    board.meet();
    board.meet();
    ::_exit(board.number(1) == 8 ? 0 : 1);
  }
  board.meet();
  EXPECT_EQ(board.number(0), 7);
  board.number(1) = 8;
  board.meet();
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_THROW(board.meet({0.05}), Error);
}

}  // namespace
}  // namespace ddl
