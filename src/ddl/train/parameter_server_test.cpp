#include "ddl/train/parameter_server.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/train/core_clock.h"
#include "ddl/train/trial_testing.h"
#include "ddl/transport/inproc.h"
#include "ddl/transport/rendezvous.h"

// Servers of parameters train as one worker does where they add up gradients, and keep their bound of staleness where they do not.
namespace ddl {
namespace {

using namespace testing;

// Attention does not depend on the bias of its keys: that gradient is 0 but for rounding, which adam divides by its own size, and decay by then makes of a step's length. So parameters differ by what
// the order of a sum leaves, for every strategy (below); a larger epsilon, and they do not.
TEST(ParameterServer, SummedGradientsEqualTheBigBatchInFp64) {
  for (const auto* model : {"lenet", "transformer[hidden=16,heads=2,layers=1,dropout=0.1]"})
    for (const auto* optimizer : {"sgd", "adam[epsilon=1e-3]"})
      for (const std::int64_t batch : {6, 9}) {  // of 9 some workers of 5 have no samples in the last batch
        Trial trial{model, "", batch};
        trial.optimizer = optimizer;
        const auto reference = train_rank(trial, 0, 1, nullptr);
        for (const int ranks : {1, 2, 3, 5})
          for (const int servers : {1, 2, 3}) {
            if (servers > ranks) continue;
            trial.strategy = fmt::format("parameter-server[servers={}]", servers);
            trial.accumulate = servers;
            expect_equal(train(trial, ranks), reference, fmt::format("{} {} {} {} {}", model, optimizer, batch, ranks, trial.strategy));
          }
        trial.accumulate = 1;
      }
}

// A sum of two has one order: the same bits as data parallelism has, also where rounding counts for much.
TEST(ParameterServer, TwoWorkersHaveTheBitsOfDataParallelism) {
  for (const auto* optimizer : {"sgd", "adam", "lars", "lamb"}) {
    Trial trial{"transformer[hidden=16,heads=2,layers=1,dropout=0.1]", "data", 6};
    trial.optimizer = optimizer;
    const auto expected = train(trial, 2);
    for (const auto* form : {"parameter-server", "parameter-server[servers=2]"}) {
      trial.strategy = form;
      EXPECT_TRUE(same_bits(train(trial, 2)[1].parameters, expected[1].parameters)) << optimizer << " " << form;
    }
    if (std::string(optimizer) != "adam") continue;
    const auto reference = train_rank(trial, 0, 1, nullptr);
    const auto specs = builtin_models().at("transformer").make(parse_spec(trial.model), Phrases().shape()).parameter_specs();
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const bool of_keys = specs[i].name.ends_with("in_proj_bias");
      EXPECT_EQ(at::allclose(expected[0].parameters[i], reference.parameters[i], 1e-10, 1e-10), !of_keys) << specs[i].name;
    }
  }
}

TEST(ParameterServer, SumsRepeatBitByBitOnEveryDevice) {
  Trial trial{"lenet", "parameter-server[sync,servers=2]", 6, 5, at::kFloat};
  const auto first = train(trial, 3);
  EXPECT_TRUE(same_bits(first[0].parameters, train(trial, 3)[1].parameters));
  for (const auto& device : test_devices()) {
    if (device.starts_with("cuda")) continue;  // other kernels
    trial.device = device;
    const auto outcomes = train(trial, 3);
    EXPECT_TRUE(same_bits(first[0].parameters, outcomes[2].parameters)) << device;
    EXPECT_EQ(outcomes[1].faults, 0) << device;
  }
}

// As what predictions take for it: updates, not what waits for messages or moves them.
TEST(ParameterServer, OfASlowerWorkerItUpdatesSoManyTimesAsLong) {
  constexpr std::int64_t kElements = std::int64_t{1} << 20;
  const auto gradient = at::full({kElements}, 1e-3F);
  at::Tensor first;  // what either ends with
  const auto took = [&](bool sums, double slow) {
    const auto alone = in_process_rendezvous(1);
    const auto transport = make_inproc(*alone[0], {});
    ParameterServer server({.workers = 1, .sums = sums, .slow = slow}, {at::zeros({kElements})}, *transport, [](std::vector<at::Tensor> own) { return make_optimizer({"adam", {}}, std::move(own)); });
    double least = 1;
    for (int clock = 1; clock <= 5; ++clock) {
      const auto begin = core_time();
      ServerWord word;
      word.clock = clock;
      word.bytes = static_cast<std::int64_t>(gradient.nbytes());
      word.learning_rate = 0.1;
      server.push(0, word, [&](const Sink& sink) { sink.take(sink.context, 0, {static_cast<const std::byte*>(gradient.const_data_ptr()), gradient.nbytes()}, 1); });
      least = std::min(least, seconds(core_time() - begin));
    }
    server.look([&](const ServerAnswer&, std::span<const std::byte> parameters) {
      auto own = at::from_blob(const_cast<std::byte*>(parameters.data()), {kElements}).clone();
      EXPECT_TRUE(!first.defined() || at::equal(first, own));
      first = own;
    });
    return least;
  };
  for (const bool sums : {true, false}) {
    // By turns, of each the least: a machine that others share goes at half its pace for seconds.
    double plain = 1, slow = 1;
    for (int turn = 0; turn < 4 || (turn < 24 && (slow <= 2 * plain || slow >= 6 * plain)); ++turn) {
      plain = std::min(plain, took(sums, 1));
      slow = std::min(slow, took(sums, 4));
    }
    EXPECT_GT(slow, 2 * plain) << sums;  // of a sum part of it is adding up
    EXPECT_LT(slow, 6 * plain) << sums;
  }
}

/// One worker is slower than the others by far.
std::vector<Outcome> with_a_slow_worker(const std::string& strategy, int ranks, std::int64_t steps) {
  Trial trial{"mlp", strategy, 6, steps};
  trial.slow_rank = ranks - 1;
  trial.slow_ms = 40;
  return train(trial, ranks);
}

TEST(ParameterServer, AStalenessBoundIsKeptAndWouldNotBeOtherwise) {
  for (const int ranks : {2, 3}) {
    for (const int stale : {0, 1, 3}) {
      const auto outcomes = with_a_slow_worker(fmt::format("parameter-server[stale={},servers=2]", stale), ranks, 12);
      for (const int server : {0, 1}) {
        const auto& report = *outcomes[static_cast<std::size_t>(server)].staleness;
        EXPECT_EQ(report.updates, 12 * ranks);
        EXPECT_LE(report.largest_clocks, stale);
        EXPECT_EQ(report.largest_clocks, stale) << "the bound was not put to the test";
        // Between a worker's pull and the use of what it computed every other makes at most so many steps: those that the bound lets it ahead, on either side.
        EXPECT_LE(report.largest_updates, (ranks - 1) * (2 * stale + 1));
      }
    }
    const auto free = with_a_slow_worker("parameter-server[async,servers=2]", ranks, 12);
    for (const int server : {0, 1}) EXPECT_GT(free[static_cast<std::size_t>(server)].staleness->largest_clocks, 3) << ranks;
    for (const auto& outcome : free) EXPECT_TRUE(same_bits(outcome.parameters, free[0].parameters)) << "one model at the end";
  }
}

TEST(ParameterServer, OneVoteStopsAllWorkers) {
  for (const auto* form : {"parameter-server[servers=2]", "parameter-server[async]", "parameter-server[stale=1]"}) {
    Trial trial{"mlp", form, 6, 400};
    trial.ask_at = 3;
    trial.ask_rank = 2;
    const auto outcomes = train(trial, 3);
    for (const auto& outcome : outcomes) {
      EXPECT_LT(outcome.steps, 400) << form;
      if (std::string(form) == "parameter-server[servers=2]") {
        EXPECT_EQ(outcome.steps, 4);
      }
      EXPECT_TRUE(same_bits(outcome.parameters, outcomes[0].parameters)) << form;
    }
  }
}

TEST(ParameterServer, ALossThatIsNotFiniteEndsAllWorkers) {
  // Who has not heard by the time that the others have gone is told who went; where threads are slow to be run that may be in the broadcast before the first step, which the others are through with.
  for (const auto* form : {"parameter-server[servers=2]", "parameter-server[async]"})
    expect_all_end_of_a_loss_that_is_not_finite({"lenet", form, 6, 50}, 3, {"loss is not finite at step", "lost worker", "the server of worker", "it left the group"});
}

// A worker that gives up in the middle of a step is named to all others, be it one with a server or one without, and whoever of the others goes first because of it.
TEST(ParameterServer, AWorkerThatIsLostIsNamed) {
  for (const auto* form : {"parameter-server", "parameter-server[servers=2]", "parameter-server[async,servers=2]", "parameter-server[stale=1]", "parameter-server[stale=2,servers=3]"})
    for (const int lost : {0, 1, 2}) {
      Trial trial{"mlp", form, 6, 1000};
      trial.slow_rank = lost;
      trial.lost_at = 5;
      const auto begin = now();
      const auto outcomes = testing::run_group("inproc", 3, [&](Communicator& communicator) { train_rank(trial, communicator.rank(), 3, &communicator); }, {Seconds{60}});
      EXPECT_LT(seconds(now() - begin), 30) << form;
      for (int rank = 0; rank < 3; ++rank) {
        const auto& outcome = outcomes[static_cast<std::size_t>(rank)];
        ASSERT_TRUE(outcome.has_value()) << form;
        const std::string said = outcome->what();
        EXPECT_TRUE(rank == lost || said.find(fmt::format("lost worker {}", lost)) != std::string::npos) << form << ", rank " << rank << ": " << said;
        for (const int other : {0, 1, 2})
          EXPECT_TRUE(other == lost || said.find(fmt::format("lost worker {}", other)) == std::string::npos) << form << ", rank " << rank << ": " << said;
      }
    }
}

// From the trace alone: a worker computes step c of a shard with parameters in which every other's gradients of steps before c - stale are applied.
TEST(ParameterServer, TheBoundShowsInTheTrace) {
  constexpr int kRanks = 3, kServers = 2, kSteps = 12;
  for (const int stale : {0, 1, 3}) {
    Trial trial{"mlp", fmt::format("parameter-server[stale={},servers={}]", stale, kServers), 6, kSteps};
    trial.slow_rank = 2;
    trial.slow_ms = 40;
    const auto outcomes = train(trial, kRanks);
    Trace all;
    for (const auto& outcome : outcomes) all.insert(all.end(), outcome.trace.begin(), outcome.trace.end());
    // Whose gradients an update is of: the worker that has the span of the same meeting, in the same step.
    std::map<std::pair<int, int>, std::vector<Nanoseconds>> applied;  // by server and worker: when, step after step
    for (const auto& update : all) {
      if (update.stream != Stream::server || update.cause != Cause::update) continue;
      const auto pushed = std::find_if(all.begin(), all.end(), [&](const Span& span) { return span.stream == Stream::communication && span.meeting == update.meeting && span.step == update.step; });
      ASSERT_NE(pushed, all.end()) << "an update of nobody's gradients";
      EXPECT_LE(pushed->begin, update.end);
      applied[{update.worker, pushed->worker}].push_back(update.end);
    }
    ASSERT_EQ(applied.size(), static_cast<std::size_t>(kRanks * kServers));
    int furthest = 0;
    for (const auto& span : all) {
      if (span.stream != Stream::compute || span.cause != Cause::forward || span.task < 0) continue;
      for (const auto& [who, times] : applied) {
        ASSERT_EQ(times.size(), static_cast<std::size_t>(kSteps));
        const auto known = static_cast<int>(std::count_if(times.begin(), times.end(), [&](Nanoseconds time) { return time <= span.begin; }));
        EXPECT_LE(span.step - known, stale) << "worker " << span.worker << " at server " << who.first << " ahead of worker " << who.second;
        furthest = std::max(furthest, span.step - known);
      }
    }
    EXPECT_EQ(furthest, stale) << "the bound was not put to the test";
    for (int server = 0; server < kServers; ++server) EXPECT_LE(outcomes[static_cast<std::size_t>(server)].staleness->largest_clocks, stale);
  }
}

/// Of each gradient that a server applied, how many by others it applied since it had answered the gradient's worker, as its lane of the trace tells: how many were so stale.
std::map<std::int64_t, int> staleness_in(const Trace& all, int server) {
  std::vector<Span> lane;
  std::copy_if(all.begin(), all.end(), std::back_inserter(lane), [&](const Span& span) { return span.stream == Stream::server && span.worker == server; });
  std::stable_sort(lane.begin(), lane.end(), [](const Span& a, const Span& b) { return a.end < b.end; });
  std::map<std::int64_t, int> counts;
  std::map<int, std::int64_t> given;  // by worker
  std::int64_t updates = 0;
  for (const auto& served : lane) {
    const auto worker = std::find_if(all.begin(), all.end(), [&](const Span& span) { return span.stream == Stream::communication && span.meeting == served.meeting && span.step == served.step; });
    if (worker == all.end()) continue;
    if (served.cause == Cause::update)
      ++counts[updates++ - given[worker->worker]];
    else
      given[worker->worker] = updates;
  }
  return counts;
}

// `async` has no bound to be asserted: what there is to know of a run is this distribution.
TEST(ParameterServer, TheTraceShowsHowStaleEachGradientWas) {
  for (const auto* form : {"parameter-server[async,servers=2]", "parameter-server[stale=1,servers=2]"}) {
    const auto outcomes = with_a_slow_worker(form, 3, 12);
    Trace all;
    for (const auto& outcome : outcomes) all.insert(all.end(), outcome.trace.begin(), outcome.trace.end());
    for (const int server : {0, 1}) {
      const auto& report = *outcomes[static_cast<std::size_t>(server)].staleness;
      std::int64_t gradients = 0, sum = 0;
      const auto counts = staleness_in(all, server);
      for (const auto& [stale, count] : counts) {
        gradients += count;
        sum += stale * count;
      }
      EXPECT_EQ(gradients, report.updates) << form;
      EXPECT_EQ((std::map<std::int64_t, std::int64_t>(counts.begin(), counts.end())), report.by_updates) << form;
      EXPECT_EQ(counts.rbegin()->first, report.largest_updates) << form;
      EXPECT_NEAR(static_cast<double>(sum) / static_cast<double>(gradients), report.mean_updates, 1e-9) << form;
      EXPECT_GT(counts.size(), 1U) << form << ": all were as stale";
    }
  }
}

/// The mean loss of the last steps of `steps`, all workers together.
double last_loss(const std::vector<Outcome>& outcomes) {
  constexpr std::size_t kLast = 10;
  double sum = 0;
  for (const auto& outcome : outcomes)
    for (auto i = outcome.losses.size() - kLast; i < outcome.losses.size(); ++i) sum += outcome.losses[i];
  return sum / kLast;
}

// What is applied late makes training no worse than a little on a problem that is easy: as many gradients, each a third as long a step, since there are three where sums have one.
TEST(ParameterServer, AsynchronousTrainingConvergesAsSynchronousDoes) {
  constexpr int kRanks = 3;
  constexpr std::int64_t kSteps = 80;
  Trial trial{"mlp", "parameter-server[servers=2]", 6, kSteps};
  trial.optimizer = "sgd[momentum=0]";
  const auto sync = train(trial, kRanks);
  double first = 0;
  for (const auto& outcome : sync) first += outcome.losses[0];
  const double expected = last_loss(sync);
  EXPECT_LT(expected, 0.5 * first) << "the problem is not easy";
  trial.rate = kRate / kRanks;
  for (const auto* form : {"parameter-server[async,servers=2]", "parameter-server[stale=0]", "parameter-server[stale=2,servers=3]"})
    for (const int slow : {-1, 2}) {
      trial.strategy = form;
      trial.slow_rank = slow;
      trial.slow_ms = 5;
      const double loss = last_loss(train(trial, kRanks));
      EXPECT_LT(loss, first - 0.8 * (first - expected)) << form << ", slow " << slow << ": from " << first << ", in step to " << expected;
    }
}

}  // namespace
}  // namespace ddl
