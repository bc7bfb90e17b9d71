#include "ddl/lab/advise_job.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ddl/core/error.h"
#include "ddl/data/dataset.h"
#include "ddl/lab/advise_words.h"
#include "ddl/lab/predict_job.h"
#include "ddl/nn/model.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/datasheet/machine_source.h"
#include "ddl/strategy/batch_shares.h"

namespace ddl {
namespace {

struct Asked {
  std::string model = "resnet50", dataset = "imagenet", workers = "4", batch = "128", strategy = "data", precision = "fp32";
  Json machine = find_machine("v100-16gb");
  double budget = 1.5;
  bool stale = false, lossy = false;
  std::map<std::string, std::string> more = {};  ///< other keys of the experiment
};

Experiment experiment_of(const Asked& asked) {
  Settings settings;
  for (const auto& [key, value] : {std::pair{"model", asked.model}, {"dataset", asked.dataset}, {"workers", asked.workers}, {"batch", asked.batch}, {"strategy", asked.strategy}, {"precision", asked.precision},
                                   {"synthetic", std::string("true")}})
    set(settings, key, value, "test");
  for (const auto& [key, value] : asked.more) set(settings, key, value, "test");
  return resolve(settings);
}

Advice advised(const Asked& asked) {
  const auto experiment = experiment_of(asked);
  const auto graph = make_model(experiment.job.model, dataset_shape(experiment.job.dataset, true));
  return advise({experiment, graph, asked.machine, 0, asked.stale, Seconds{asked.budget}, asked.lossy});
}

TEST(Advise, UnlikeWorkersShareABatchByWhatTheyDo) {
  const auto advice = advised({.workers = "emulated:v100:1,emulated:k80:3", .budget = 3});
  const AdvisedPoint *even = nullptr, *shared = nullptr;
  for (const auto& point : advice.points) {
    if (point.strategy.name != "data" || point.workers != 4 || !point.memory.fits) continue;
    auto& best = point.strategy.options.contains("shares") ? shared : even;
    if (best == nullptr || point.step.seconds < best->step.seconds) best = &point;
  }
  ASSERT_TRUE(even != nullptr && shared != nullptr);
  EXPECT_LT(shared->step.seconds, 0.7 * even->step.seconds) << to_string(shared->strategy);
  const auto shares = batch_shares(shared->strategy);
  ASSERT_EQ(shares.size(), 4U);
  EXPECT_EQ(shares[0] + shares[1] + shares[2] + shares[3], 128);
  EXPECT_GT(shares[0], 3 * shares[1]);
  EXPECT_LE(std::abs(shares[1] - shares[3]), 1);
  // Of workers that are alike nobody has more.
  for (const auto& point : advised({}).points) EXPECT_FALSE(point.strategy.options.contains("shares"));
}

TEST(Advise, RanksPointsAndTellsTheFront) {
  const auto advice = advised({});
  ASSERT_GT(advice.points.size(), 20u);
  double before = 0;
  for (const auto& point : advice.points) {
    if (!point.memory.fits) {
      EXPECT_EQ(point.rank, 0);
      EXPECT_FALSE(point.pareto);
      continue;
    }
    EXPECT_GE(point.step.seconds, before);
    before = point.step.seconds;
    EXPECT_LT(point.step.low, point.step.seconds);
    EXPECT_GT(point.step.high, point.step.seconds);
    for (const auto& other : advice.points)
      if (point.pareto && other.memory.fits) {
        EXPECT_FALSE(other.step.seconds < point.step.seconds && other.step.most.total() < point.step.most.total()) << in_words(point.strategy, point.keys);
      }
  }
  EXPECT_TRUE(advice.points.front().pareto);
  ASSERT_TRUE(advice.verdict.pick && advice.verdict.alone);
  EXPECT_TRUE(advice.verdict.worth_it());
  EXPECT_EQ(advice.points[*advice.verdict.alone].workers, 1);
  ASSERT_GE(plain_data(advice), 0);
  EXPECT_EQ(advice.points[static_cast<std::size_t>(plain_data(advice))].workers, 4);
  const auto words = advice_words(advice, 128);
  EXPECT_TRUE(words.starts_with("Take ")) << words;
  EXPECT_NE(words.find("times as fast as one worker"), std::string::npos) << words;
}

// A bus so slow that nothing is gained by a second device.
TEST(Advise, SaysThatDistributingIsNotWorthIt) {
  Asked asked;
  asked.machine["node"]["bus_bandwidth"] = 1e8;
  asked.machine["node"]["network_bandwidth_per_device"] = 1e8;
  asked.batch = "16";
  const auto advice = advised(asked);
  EXPECT_FALSE(advice.verdict.worth_it());
  EXPECT_EQ(advice.verdict.pick_workers, 1);
  EXPECT_NE(advice_words(advice, 16).find("Distributing is not worth it"), std::string::npos) << advice_words(advice, 16);
}

// What one device does not hold is neither on the front nor recommended.
TEST(Advise, LeavesOutWhatDoesNotFit) {
  Asked asked;
  asked.machine["device"]["memory_bytes"] = 3e9;
  const auto advice = advised(asked);
  EXPECT_GT(std::count_if(advice.points.begin(), advice.points.end(), [](const AdvisedPoint& point) { return !point.memory.fits; }), 0);
  for (const auto& point : advice.points) {
    // What the driver takes is nobody else's.
    EXPECT_EQ(point.memory.fits, static_cast<double>(point.step.most.total()) <= 3e9 - context_bytes(asked.machine));
    if (!point.memory.fits) {
      EXPECT_FALSE(point.pareto || point.rank > 0);
    }
  }
  ASSERT_TRUE(advice.verdict.pick.has_value());
  EXPECT_TRUE(advice.points[*advice.verdict.pick].memory.fits);
  asked.machine["device"]["memory_bytes"] = 1e6;
  const auto none = advised(asked);
  EXPECT_FALSE(none.verdict.pick.has_value());
  EXPECT_NE(advice_words(none, 128).find("Nothing that was looked at fits"), std::string::npos);
}

TEST(Advise, CountsWhatCannotBePlanned) {
  // Seven heads' worth of nothing: tensor parallelism over 8 is refused, with the reason.
  Asked asked{"lenet", "fashion-mnist", "8", "64"};
  asked.budget = 3;
  const auto advice = advised(asked);
  EXPECT_FALSE(advice.refused.empty());
  for (const auto& each : advice.refused) EXPECT_FALSE(each.reason.empty()) << in_words(each.strategy, each.keys);
}

TEST(Advise, TellsWhatItHadNoTimeFor) {
  const auto advice = advised({.budget = 0.05});
  EXPECT_GT(advice.not_searched, 100);
  EXPECT_LT(advice.seconds, 1);
}

TEST(Advise, TheExperimentsOwnStrategyIsAmongThem) {
  const auto advice = advised({.strategy = "data[bucket=7MiB]", .budget = 0.5});
  const auto asked = std::find_if(advice.points.begin(), advice.points.end(), [](const AdvisedPoint& point) { return point.asked; });
  ASSERT_NE(asked, advice.points.end());
  EXPECT_EQ(to_string(asked->strategy), "data[bucket=7MiB]");
}

// Of one worker alone nobody can say whether more are worth it.
TEST(Advise, OfOneWorkerItDoesNotSayThatMoreAreNotWorthIt) {
  const auto advice = advised({.workers = "1", .budget = 0.5});
  EXPECT_FALSE(looked_at_several(advice));
  const auto words = advice_words(advice, 128);
  EXPECT_NE(words.find("Whether distributing is worth it is not known: no way of more than one was looked at"), std::string::npos) << words;
  EXPECT_TRUE(looked_at_several(advised({.workers = "2", .budget = 0.5})));
}

// Without accumulation plain data is looked at, too, where the experiment accumulates.
TEST(Advise, PlainDataIsLookedAtBesideWhatAccumulates) {
  const auto advice = advised({.budget = 1, .more = {{"accumulate", "2"}}});
  EXPECT_GE(plain_data(advice), 0);
  EXPECT_TRUE(std::any_of(advice.points.begin(), advice.points.end(), [](const AdvisedPoint& point) { return point.asked && point.keys.contains("accumulate"); }));
}

// What accumulates and what recomputes is one way beside the others, which do neither; each is predicted as it is told.
TEST(Advise, WaysThatDoNotAccumulateOrRecomputeDoNot) {
  const auto look = [](const char* key, const char* value) {
    const Asked asked_for{.budget = 1, .more = {{key, value}}};
    const auto advice = advised(asked_for);
    const auto plain = experiment_of({}).job;
    const auto& found = advice.points.at(static_cast<std::size_t>(plain_data(advice)));
    const auto alone = predict_job(plain, make_model(plain.model, dataset_shape("imagenet", true)), asked_for.machine);
    EXPECT_NEAR(found.step.seconds, alone.step.seconds, 0.02 * alone.step.seconds) << key;
    EXPECT_EQ(found.step.most.total(), alone.step.most.total()) << key;
    EXPECT_FALSE(found.asked) << key;
    const auto asked = std::find_if(advice.points.begin(), advice.points.end(), [](const AdvisedPoint& point) { return point.asked; });
    ASSERT_NE(asked, advice.points.end());
    EXPECT_EQ(asked->keys, (std::map<std::string, std::string>{{key, value}}));
    EXPECT_LT(asked->step.most.total(), found.step.most.total()) << key;
  };
  look("accumulate", "8");
  look("recompute", "true");
}

// What a run would refuse is none of the ways.
TEST(Advise, WhatARunRefusesIsRefused) {
  const auto advice = advised({.budget = 1, .more = {{"collective", "recursive-doubling"}}});
  EXPECT_TRUE(std::none_of(advice.points.begin(), advice.points.end(), [](const AdvisedPoint& point) { return point.strategy.name == "sharded" && !point.strategy.options.contains("collective") && !point.keys.contains("collective"); }));
  EXPECT_TRUE(std::any_of(advice.refused.begin(), advice.refused.end(), [](const RefusedPoint& point) { return point.strategy.name == "sharded" && point.reason.find("expected auto, ring or direct") != std::string::npos; }));
}

// A stage that only the larger of two devices holds fits where it is on that one.
TEST(Advise, EachStageIsHeldAgainstItsOwnDevice) {
  const auto fits = [](const std::string& workers) {
    Settings settings;
    for (const auto& [key, value] : {std::pair{"model", std::string("resnet50")}, {"dataset", "imagenet"}, {"workers", workers}, {"batch", "256"}, {"strategy", "pipeline[schedule=gpipe,micro=4,stages=100/75]"}, {"synthetic", "true"}}) set(settings, key, value, "test");
    const auto job = resolve(settings).job;
    const auto graph = make_model(job.model, dataset_shape("imagenet", true));
    const auto found = predict_job(job, graph, find_machine("v100-16gb"));
    return std::pair(found.memory.fits, found.plan.roles.front().holds.total() > found.plan.roles.back().holds.total());
  };
  const auto [large_first, first_holds_more] = fits("emulated:v100-32gb:1,emulated:k80:1");
  EXPECT_TRUE(first_holds_more);
  EXPECT_TRUE(large_first);
  EXPECT_FALSE(fits("emulated:k80:1,emulated:v100-32gb:1").first);
}

// Half of the bytes over wires that are slow: faster, and not what was asked for unless it was.
TEST(Advise, CompressionIsMarkedAndWantsToBeAskedFor) {
  Asked asked{"lenet", "fashion-mnist", "4", "64"};
  asked.machine["node"]["bus_bandwidth"] = 2e8;
  asked.budget = 3;
  for (const bool lossy : {false, true}) {
    asked.lossy = lossy;
    const auto advice = advised(asked);
    const auto compressed = [](const AdvisedPoint& point) { return point.strategy.options.contains("compress"); };
    EXPECT_EQ(std::any_of(advice.points.begin(), advice.points.end(), compressed), lossy);
    for (const auto& point : advice.points) EXPECT_EQ(point.differs, compressed(point) ? "lossy" : "") << in_words(point.strategy, point.keys);
    if (!lossy) continue;
    ASSERT_TRUE(advice.verdict.best);
    double plain = 0;
    for (const auto& point : advice.points)
      if (point.workers == 4 && point.strategy.name == "data" && !compressed(point) && (plain == 0 || point.step.seconds < plain)) plain = point.step.seconds;
    const auto best = std::find_if(advice.points.begin(), advice.points.end(), [&](const AdvisedPoint& point) { return point.workers == 4 && compressed(point); });
    ASSERT_NE(best, advice.points.end());
    EXPECT_LT(best->step.seconds, plain);
  }
  // An overflow would stay in what a compression keeps: runs refuse it.
  asked.precision = "fp16";
  for (const auto& point : advised(asked).points) EXPECT_EQ(point.differs, "");
}

TEST(Advise, WhatIsStaleIsMarked) {
  const auto advice = advised({"lenet", "fashion-mnist", "2", "64", "data", "fp32", find_machine("v100-16gb"), 1.5, true});
  std::set<std::string> marks;
  for (const auto& point : advice.points) {
    marks.insert(point.differs);
    if (point.strategy.name == "local") {
      EXPECT_EQ(point.differs, "local");
    }
    if (point.strategy.name == "data" || point.strategy.name == "single") {
      EXPECT_EQ(point.differs, "");
    }
  }
  EXPECT_TRUE(marks.contains("local") && marks.contains("stale"));
}

TEST(Advise, ThreadsOfOneProcessWithinANode) {
  const auto has = [](const Asked& asked) {
    const auto advice = advised(asked);
    return std::any_of(advice.points.begin(), advice.points.end(), [](const AdvisedPoint& point) { return point.strategy.options.contains("in-process") && point.keys.at("transport") == "inproc" && point.workers > 1; });
  };
  EXPECT_TRUE(has({"lenet", "fashion-mnist", "2", "64"}));
  Asked far{"lenet", "fashion-mnist", "2", "64"};
  far.machine["node"]["devices"] = 1;
  EXPECT_FALSE(has(far));
}

TEST(MovedCuts, EachBoundaryGoesBothWaysAndNoStageIsEmptied) {
  using Cuts = std::vector<std::vector<int>>;
  EXPECT_EQ(moved_cuts({3, 5, 2}, 1), (Cuts{{2, 6, 2}, {4, 4, 2}, {3, 4, 3}, {3, 6, 1}}));
  EXPECT_EQ(moved_cuts({3, 5, 2}, 2), (Cuts{{1, 7, 2}, {5, 3, 2}, {3, 3, 4}}));
  EXPECT_TRUE(moved_cuts({1, 1}, 1).empty());
  EXPECT_TRUE(moved_cuts({7}, 1).empty());
}

TEST(ChosenWorkers, AreTheFirstOfTheFastest) {
  const std::vector<WorkerSpec> all{{"emulated:k80", 1, 4}, {"emulated:k80", 1, 1}, {"emulated:k80", 1, 2}};
  EXPECT_EQ(chosen_workers(all, {1, 2, 0}, 1), (std::vector<WorkerSpec>{all[1]}));
  EXPECT_EQ(chosen_workers(all, {1, 2, 0}, 2), (std::vector<WorkerSpec>{all[1], all[2]}));
  EXPECT_EQ(chosen_workers(all, {1, 2, 0}, 3), all);
  EXPECT_EQ(chosen_workers({WorkerSpec{}}, {0}, 2).size(), 2u);
}

// The faster worker would do two thirds of the batch, which it has no room for: it gets what it has room for, and the others the rest.
TEST(Advise, SharesAreWithinMemory) {
  Asked asked{.model = "resnet18", .dataset = "cifar10", .workers = "emulated:v100-16gb:1,emulated:k80:3", .batch = "6000", .strategy = "data"};
  asked.budget = 3;
  const auto share_of_first = [](const Advice& advice) {
    const AdvisedPoint* best = nullptr;
    for (const auto& point : advice.points)
      if (point.workers == 4 && point.memory.fits && point.strategy.options.contains("shares") && (best == nullptr || point.step.seconds < best->step.seconds)) best = &point;
    return best == nullptr ? std::int64_t{0} : batch_shares(best->strategy)[0];
  };
  const auto bound = share_of_first(advised(asked));
  asked.workers = "emulated:v100-32gb:1,emulated:k80:3";
  const auto roomy = share_of_first(advised(asked));
  EXPECT_GT(bound, 1500) << "more than an even share";
  EXPECT_GT(roomy, 1.1 * static_cast<double>(bound));
}

// Devices that are as fast share a batch evenly, unless one has no room for its half.
TEST(Advise, SharesOfDevicesThatAreAsFastAreWithinMemory) {
  Asked asked{.model = "resnet50", .dataset = "imagenet", .workers = "emulated:v100-32gb:1,emulated:v100-16gb:1", .batch = "420", .strategy = "data"};
  asked.budget = 3;
  bool even_fits = true;
  std::vector<std::int64_t> shares;
  for (const auto& point : advised(asked).points) {
    if (point.workers != 2 || point.strategy.name != "data") continue;
    if (is_plain(point, "data")) even_fits = point.memory.fits;
    if (point.memory.fits && point.strategy.options.contains("shares") && point.keys.empty()) shares = batch_shares(point.strategy);
  }
  EXPECT_FALSE(even_fits);
  ASSERT_EQ(shares.size(), 2U);
  EXPECT_GT(shares[0], shares[1]);
}

// Whoever is named first: of other devices, and of devices that are made slower.
TEST(Advise, OneWorkerIsTheFastest) {
  const auto alone = [](const std::string& workers) {
    const auto advice = advised({.workers = workers});
    double fastest = 0;
    for (const auto& point : advice.points)
      if (point.workers == 1 && (fastest == 0 || point.step.seconds < fastest)) fastest = point.step.seconds;
    EXPECT_GT(fastest, 0) << workers;
    return std::pair{advice.fastest, fastest};
  };
  using Order = std::vector<std::size_t>;
  const auto v100 = alone("emulated:v100:1"), k80 = alone("emulated:k80:1");
  EXPECT_GT(k80.second, 2 * v100.second);
  const auto mixed = alone("emulated:k80:1,emulated:v100:1");
  EXPECT_EQ(mixed.first, (Order{1, 0}));
  EXPECT_NEAR(mixed.second, v100.second, 1e-3 * v100.second);
  EXPECT_EQ(alone("emulated:v100[slow=50]:1,emulated:k80:1,emulated:v100:1").first, (Order{2, 1, 0}));
}

// One worker takes three times as long: stages of equal work leave the other waiting, and a cut by hand does not.
TEST(Advise, CutsByHandForWorkersThatAreUnlike) {
  const auto advice = advised({"resnet18", "cifar10", "emulated:k80:1,emulated:k80[slow=3]:1", "64", "pipeline", "fp32", find_machine("k80"), 9.0});
  double balanced = 0, by_hand = 0;
  std::string cut;
  for (const auto& point : advice.points) {
    // By memory stages may come out well by chance.
    if (point.strategy.name != "pipeline" || point.workers != 2 || point.strategy.options.contains("balance")) continue;
    const bool told = point.strategy.options.contains("stages");
    auto& fastest = told ? by_hand : balanced;
    if (fastest != 0 && fastest <= point.step.seconds) continue;
    fastest = point.step.seconds;
    if (told) cut = point.strategy.options.at("stages");
  }
  ASSERT_GT(balanced, 0);
  ASSERT_GT(by_hand, 0) << "no cut was tried";
  EXPECT_LT(by_hand, 0.98 * balanced) << cut;
}

TEST(Advise, AProfileWithoutATermSaysWhich) {
  Asked asked;
  asked.machine["device"].erase("memory_bandwidth");
  try {
    advised(asked);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("device.memory_bandwidth"), std::string::npos) << error.what();
  }
}

TEST(Advise, WhatWasMeasuredChangesTheRecommendation) {
  const auto advice = advised({.budget = 0.5});
  ASSERT_GT(advice.points.size(), 2u);
  const auto measured = [&](std::size_t number, double seconds) {
    VerifiedPoint point{number, "ok", "", seconds, seconds * 0.99, seconds * 1.01};
    point.error_pct = 100 * (advice.points[number].step.seconds / seconds - 1);
    point.inside = true;
    return point;
  };
  const auto held = verified_words(advice, {measured(0, 0.1), measured(1, 0.2)});
  EXPECT_NE(held.find("The order held"), std::string::npos) << held;
  const auto lost = verified_words(advice, {measured(0, 0.2), measured(1, 0.1)});
  EXPECT_NE(lost.find("The order did not hold"), std::string::npos) << lost;
  EXPECT_NE(lost.find("take that, 100 ms"), std::string::npos) << lost;
  VerifiedPoint failed{0, "failed", "lost"};
  EXPECT_NE(verified_words(advice, {failed}).find("None"), std::string::npos);
  // What is advised and fails is told, whatever others did.
  ASSERT_TRUE(advice.verdict.pick);
  const auto other = *advice.verdict.pick == 0 ? std::size_t{1} : std::size_t{0};
  const auto words = verified_words(advice, {VerifiedPoint{*advice.verdict.pick, "failed", "lost"}, measured(other, 0.1)});
  EXPECT_TRUE(words.starts_with("What is advised, ")) << words;
  EXPECT_NE(words.find("did not run to its end: lost. Measured: 1 of 1"), std::string::npos) << words;
}

}  // namespace
}  // namespace ddl
