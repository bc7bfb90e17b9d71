#include "ddl/lab/stored_samples.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/lab/predict_job.h"
#include "ddl/nn/model.h"
#include "ddl/predict/datasheet/library.h"

namespace ddl {
namespace {

Job job_of(int workers, const std::string& strategy = "data") {
  Job job;
  job.model = {"resnet50", {}};
  job.dataset = "imagenet";
  job.batch = 256;
  job.workers.resize(static_cast<std::size_t>(workers));
  job.strategy = parse_spec(strategy);
  return job;
}

StepPrediction predicted(const Job& job, const StoredSamples& stored, Engine engine = Engine::simulated) {
  return predict_job(job, make_model(job.model, {3, 224, 224, 1000}), find_machine("v100-16gb"), engine, 0, stored).step;
}

StoredSamples at(double bytes_per_s, double making = 0) {
  StoredSamples stored;
  stored.asked = true;
  stored.bytes_per_s = bytes_per_s;
  stored.sample_bytes = 100e3;
  stored.making = making;
  return stored;
}

std::string refusal(const Job& job, const StoredSamples& stored) {
  try {
    predicted(job, stored);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// 256 samples of 100 kB: at 50 MB/s 512 ms a step, whatever the workers compute; both engines say so.
TEST(StoredSamples, SlowStorageSetsThePace) {
  for (const auto* strategy : {"data", "sharded[level=2]", "sharded[level=3]", "pipeline[schedule=gpipe,micro=8]", "pipeline[schedule=1f1b,micro=8]", "model", "local[every=4]", "parameter-server"}) {
    const auto job = job_of(4, strategy);
    // Each stage reads what it needs of a batch, the samples.
    const bool stages = std::string(strategy).starts_with("pipeline") || std::string(strategy) == "model";
    const double wants = 256 * 100e3 / 50e6 * (stages ? 2 : 1);
    const auto simulated = predicted(job, at(50e6)), closed = predicted(job, at(50e6), Engine::closed);
    EXPECT_NEAR(closed.seconds / simulated.seconds, 1, 0.02) << strategy;
    EXPECT_NEAR(simulated.seconds, wants, 0.02 * wants) << strategy;
    EXPECT_GT(simulated.mean[Cause::load], 0.02 * wants) << strategy;
    double sum = 0;
    for (const double part : simulated.mean.seconds) sum += part;
    EXPECT_NEAR(sum, simulated.mean.wall, 0.01 * simulated.mean.wall) << strategy;
  }
}

TEST(StoredSamples, FastStorageIsInNobodysWay) {
  const auto job = job_of(4);
  const double free = predicted(job, {}).seconds;
  EXPECT_NEAR(predicted(job, at(1e12)).seconds, free, 1e-3 * free);
  EXPECT_NEAR(predicted(job, at(1e12), Engine::closed).seconds, predicted(job, {}, Engine::closed).seconds, 1e-3 * free);
}

// 64 samples a worker that take a thread 20 ms each: as many threads, as many times as fast.
TEST(StoredSamples, ThreadsOfALoaderMakeBatchesBesideEachOther) {
  auto job = job_of(4);
  EXPECT_NEAR(predicted(job, at(1e12, 20e-3)).seconds, 64 * 20e-3, 0.01);
  job.loader_threads = 2;
  EXPECT_NEAR(predicted(job, at(1e12, 20e-3)).seconds, 64 * 10e-3, 0.01);
  EXPECT_NEAR(predicted(job, at(1e12, 20e-3), Engine::closed).seconds, 64 * 10e-3, 0.01);
  // None: each batch is made before its step.
  job.loader_threads = 0;
  const double free = predicted(job, {}).seconds;
  EXPECT_NEAR(predicted(job, at(1e12, 20e-3)).seconds, 64 * 20e-3 + free, 0.01 * free);
  EXPECT_NEAR(predicted(job, at(1e12, 20e-3), Engine::closed).seconds, 64 * 20e-3 + free, 0.01 * free);
}

// One storage is shared by all who read it at once, whether beside their steps or in them, and whoever has how much of the batch.
TEST(StoredSamples, BothEnginesShareOneStorage) {
  auto job = job_of(4);
  job.loader_threads = 0;
  const double wants = 256 * 100e3 / 50e6;
  for (const auto engine : {Engine::simulated, Engine::closed}) EXPECT_GT(predicted(job, at(50e6, 1e-6), engine).seconds, wants);
  EXPECT_NEAR(predicted(job, at(50e6, 1e-6), Engine::closed).seconds / predicted(job, at(50e6, 1e-6)).seconds, 1, 0.02);
  for (const auto* strategy : {"sharded[level=2]", "sharded[level=3]"}) {
    auto parts = job_of(4, strategy);
    parts.loader_threads = 0;
    const auto closed = predicted(parts, at(50e6, 1e-6), Engine::closed);
    EXPECT_NEAR(closed.seconds / predicted(parts, at(50e6, 1e-6)).seconds, 1, 0.02) << strategy;
    EXPECT_GE(closed.mean[Cause::communication], 0) << strategy;
  }
  auto shares = job_of(4, "data[shares=1/1/1/1]");
  shares.loader_threads = 4;
  EXPECT_NEAR(predicted(shares, at(50e6)).seconds, wants, 0.02 * wants);
  EXPECT_NEAR(predicted(shares, at(50e6), Engine::closed).seconds, wants, 0.02 * wants);
}

// Of several folders that were measured the one that the data lies in.
TEST(StoredSamples, OfSeveralStoragesTheDatasOwn) {
  auto machine = find_machine("v100-16gb");
  machine["storage"] = Json::array({{{"folder", "/nvme"}, {"measured", "2026-11-20T10:00:00Z"}, {"bytes_per_s", 5e8}}, {{"folder", "/nfs"}, {"measured", "2026-11-21T10:00:00Z"}, {"bytes_per_s", 1e7}},
                                    {{"folder", "/nfs/fast"}, {"measured", "2026-11-19T10:00:00Z"}, {"bytes_per_s", 1e8}}});
  auto stored = at(0);
  const auto rate = [&](const std::string& folder) {
    auto job = job_of(2);
    job.data_folder = folder;
    return loading_of(job, machine, stored).bytes_per_s;
  };
  EXPECT_EQ(rate("/nvme/imagenet"), 5e8);
  EXPECT_EQ(rate("/nfs"), 1e7);
  EXPECT_EQ(rate("/nfs/fast/imagenet"), 1e8);
  EXPECT_THROW(rate("/nvmes"), Error);
  machine["storage"].erase(2);
  machine["storage"].erase(1);
  EXPECT_EQ(rate("/elsewhere"), 5e8) << "the only one";
}

// Eight devices are a node there: of sixteen, each eight have storage of their own, unless all share one.
TEST(StoredSamples, NodesHaveStorageOfTheirOwnOrOneForAll) {
  auto job = job_of(16);
  auto stored = at(10e6);
  EXPECT_NEAR(predicted(job, stored, Engine::closed).seconds, 128 * 100e3 / 10e6, 0.03);
  EXPECT_NEAR(predicted(job, stored).seconds, 128 * 100e3 / 10e6, 0.03);
  stored.shared = true;
  EXPECT_NEAR(predicted(job, stored, Engine::closed).seconds, 256 * 100e3 / 10e6, 0.03);
  EXPECT_NEAR(predicted(job, stored).seconds, 256 * 100e3 / 10e6, 0.03);
}

TEST(StoredSamples, WhatIsMissingIsNamedWithItsProbe) {
  auto stored = at(50e6);
  stored.making = {};
  EXPECT_NE(refusal(job_of(2), stored).find("probe loader --dataset imagenet"), std::string::npos);
  stored = at(0);
  EXPECT_NE(refusal(job_of(2), stored).find("probe storage"), std::string::npos);
  auto made_up = job_of(2);
  made_up.synthetic = true;
  EXPECT_NE(refusal(made_up, at(50e6)).find("--synthetic"), std::string::npos);
}

TEST(StoredSamples, RatesAndSizes) {
  EXPECT_DOUBLE_EQ(storage_rate("50MB/s"), 50e6);
  EXPECT_EQ(storage_rate("measured"), 0);
  EXPECT_THROW(storage_rate("50MB"), Error);
  EXPECT_THROW(storage_rate("0MB/s"), Error);
  EXPECT_DOUBLE_EQ(usual_sample_bytes("fashion-mnist"), 28 * 28 + 1);
  EXPECT_NEAR(usual_sample_bytes("imagenet"), 115.4e3, 0.1e3);
}

}  // namespace
}  // namespace ddl
