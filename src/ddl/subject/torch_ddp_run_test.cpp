// The real script, run for real where a Python that has torch is found.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>

#include <gtest/gtest.h>

#include "ddl/core/json.h"
#include "ddl/data/synthetic.h"
#include "ddl/subject/peer_events.h"
#include "ddl/subject/python.h"
#include "ddl/subject/subject.h"

namespace ddl {
namespace {

pid_t start(const PeerCommand& command, const std::string& out) {
  std::vector<char*> argv, environment;
  for (const auto& word : command.argv) argv.push_back(const_cast<char*>(word.c_str()));
  for (const auto& word : command.environment) environment.push_back(const_cast<char*>(word.c_str()));
  for (char** variable = environ; *variable != nullptr; ++variable) environment.push_back(*variable);
  argv.push_back(nullptr);
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  pid_t pid = -1;
  EXPECT_EQ(::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environment.data()), 0);
  ::posix_spawn_file_actions_destroy(&actions);
  return pid;
}

std::vector<PeerEvents> run(const PeerJob& job, const DatasetPair& data, bool should_succeed = true) {
  const auto peer = builtin_subjects().at("torch-ddp").make()->prepare(job, data);
  const auto out = [&](std::size_t rank) { return peer.folder() + "/out" + std::to_string(rank); };
  std::vector<pid_t> pids;
  for (const auto& command : peer.commands()) pids.push_back(start(command, out(pids.size())));
  std::vector<PeerEvents> ranks(pids.size());
  for (std::size_t rank = 0; rank < pids.size(); ++rank) {
    int status = 0;
    ::waitpid(pids[rank], &status, 0);
    EXPECT_EQ(status == 0, should_succeed);
    ranks[rank].feed(read_file(out(rank)));
    ranks[rank].finish();
  }
  return ranks;
}

class TorchDdpRun : public testing::Test {
 protected:
  void SetUp() override {
    const auto found = find_python();
    if (!found.missing.empty()) GTEST_SKIP() << found.missing;
  }
};

TEST_F(TorchDdpRun, TwoOrThreeRanksTrainLikeOne) {
  const auto data = make_synthetic("tiny", {1, 28, 28, 10}, 40, 20, 1);
  // 7 does not divide 40: every epoch ends with 5, and three ranks never have equal shares.
  PeerJob job{.batch = 7, .epochs = 2, .learning_rate = 0.01, .learning_rate_schedule = "cosine"};
  const auto one = run(job, data);
  const auto alone = global_losses(one);
  ASSERT_EQ(alone.size(), 12U);
  EXPECT_EQ(one[0].done.value().parameters, 61'706);
  EXPECT_EQ(one[0].epochs.size(), 2U);
  for (const int workers : {2, 3}) {
    job.workers = workers;
    const auto ranks = run(job, data);
    const auto losses = global_losses(ranks);
    ASSERT_EQ(losses.size(), alone.size());
    for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], alone[i], 2e-5 * std::abs(alone[i])) << i;
    for (const auto& rank : ranks) {
      EXPECT_EQ(rank.done.value().parameters_digest, ranks[0].done.value().parameters_digest);
      EXPECT_EQ(rank.epochs[1].accuracy, one[0].epochs[1].accuracy);
    }
  }
}

TEST_F(TorchDdpRun, ARankMayHaveNoSamples) {
  const auto data = make_synthetic("tiny", {1, 28, 28, 10}, 9, 4, 1);
  PeerJob job{.batch = 2, .evaluate = false};
  const auto alone = global_losses(run(job, data));
  job.workers = 3;
  const auto ranks = run(job, data);
  EXPECT_FALSE(ranks[2].steps[0].loss);
  const auto losses = global_losses(ranks);
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], alone[i], 2e-5 * std::abs(alone[i])) << i;
}

TEST_F(TorchDdpRun, StartsFromTheWeightsItIsGiven) {
  const auto data = make_synthetic("tiny", {3, 32, 32, 10}, 4, 4, 1);
  PeerJob job{.model = "resnet18", .batch = 4, .steps = 1, .evaluate = false};
  job.weights.assign(11'173'962, 0.0F);  // batch norm and all else zero: every class alike
  const auto ranks = run(job, data);
  EXPECT_NEAR(ranks[0].steps.at(0).loss.value(), std::log(10.0), 1e-6);
  job.weights.resize(5);
  EXPECT_EQ(run(job, data, false)[0].error, "ValueError: weights file; got 5 numbers, expected 11173962");
}

}  // namespace
}  // namespace ddl
