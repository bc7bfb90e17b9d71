#include "ddl/lab/explain_run.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/lab/config_values.h"
#include "ddl/lab/ledger_difference.h"
#include "ddl/lab/record.h"
#include "ddl/nn/model.h"
#include "ddl/plan/meetings.h"
#include "ddl/predict/explain/explain_testing.h"
#include "ddl/predict/step/server_turns.h"
#include "ddl/train/plan_job.h"

namespace ddl {
namespace {

/// The record of steps that took these costs, as a run of that experiment would have left it: the first step is warm-up.
/// `held_up`: a step that is so many times as long in what is exchanged.
Json record_of(const std::map<std::string, std::string>& settings, const std::function<double(int worker, const Task& task)>& seconds, int steps = 6, std::pair<int, double> held_up = {-1, 1}) {
  Settings all{{"model", {"lenet", "a test"}}, {"synthetic", {"true", "a test"}}, {"batch", {"64", "a test"}}};
  for (const auto& [key, value] : settings) all[key] = {value, "a test"};
  const auto experiment = resolve(all);
  const auto plan = plan_job(experiment.job, make_model(experiment.job.model, dataset_shape(experiment.job.dataset, true)));
  Observed observed(plan.workers(), TraceMode::recent);
  Nanoseconds begin = 0;
  // Steps that run into each other are one piece of a simulation.
  const bool one_by_one = !plan.asynchronous() && !steps_apart(plan);
  const auto many = one_by_one ? std::vector<TracedStep>{} : traced_steps_of(plan, costs_of(plan, seconds));
  for (int step = 0; step < static_cast<int>(many.size()); ++step) {
    const auto& one = many[static_cast<std::size_t>(step)];
    for (int worker = 0; worker < plan.workers(); ++worker) {
      std::vector<Span> own;
      for (auto span : one.spans) {
        if (span.worker != worker) continue;
        span.step = step;
        own.push_back(span);
      }
      StepRecord told;
      told.step = step;
      told.begin = one.workers[static_cast<std::size_t>(worker)].begin;
      told.end = one.workers[static_cast<std::size_t>(worker)].end;
      told.samples = 64 / plan.workers();
      observed.book.add(worker, {told}, own);
    }
  }
  for (int step = 0; step < steps && one_by_one; ++step) {
    auto one = traced(plan, costs_of(plan, [&](int worker, const Task& task) { return seconds(worker, task) * (step == 0 ? 3 : 1) * (step == held_up.first && communicates(task) ? held_up.second : 1); }));
    Nanoseconds end = begin;
    for (int worker = 0; worker < plan.workers(); ++worker) {
      const auto shift = begin - one.workers[0].begin;
      std::vector<Span> own;
      for (auto span : one.spans) {
        if (span.worker != worker) continue;
        span.begin += shift;
        span.end += shift;
        span.step = step;
        own.push_back(span);
      }
      const auto& period = one.workers[static_cast<std::size_t>(worker)];
      StepRecord told;
      told.step = step;
      told.begin = period.begin + shift;
      told.end = period.end + shift;
      told.samples = 64 / plan.workers();
      observed.book.add(worker, {told}, own);
      end = std::max(end, told.end);
    }
    begin = end;
  }
  auto record = new_record(experiment, "digest");
  complete_record(record, experiment, observed, plan);
  return record;
}

double by_kind(int, const Task& task) { return communicates(task) ? (task.cargo == Cargo::gradients ? 1e-3 : 0) : passes(task); }

const Json& cause_of_document(const Json& document, const std::string& called) {
  for (const auto& each : document.at("loss").at("causes"))
    if (each.at("cause") == called) return each;
  throw std::runtime_error("no cause " + called);
}

TEST(ExplainRun, TellsARecordsCausesInWordsAndNumbers) {
  const auto record = record_of({{"workers", "2"}, {"strategy", "data[overlap=off]"}}, by_kind);
  const auto run = explain_run(record, nullptr, "");
  ASSERT_TRUE(run.loss);
  EXPECT_NEAR(run.loss->measured, 4e-3, 1e-6);
  EXPECT_NEAR(run.loss->simulated, 4e-3, 4e-5);
  const auto document = to_json(run);
  EXPECT_EQ(document.at("schema"), "ddlbench.explain/1");
  EXPECT_NEAR(cause_of_document(document, "fabric").at("without").at("gain_ms").get<double>(), 1, 0.02);
  double sum = document.at("loss").at("speedup").get<double>() + document.at("loss").at("not_explained").get<double>();
  for (const auto& cause : document.at("loss").at("causes")) sum += cause.at("lost").get<double>();
  EXPECT_NEAR(sum, 2, 1e-9);
  const auto words = in_words(run);
  EXPECT_TRUE(words.starts_with("2 workers reach 1.50x")) << words;
  EXPECT_NE(words.find("0.50x is lost to bytes on their way"), std::string::npos) << words;
  EXPECT_NE(words.find("The first thing to try is --strategy data without overlap=off"), std::string::npos) << words;
  EXPECT_EQ(words.find('\n'), std::string::npos);
}

TEST(ExplainRun, NamesTheSlowRank) {
  const auto run = explain_run(record_of({{"workers", "3"}}, [](int worker, const Task& task) { return by_kind(worker, task) * (worker == 1 && !communicates(task) ? 1.3 : 1); }), nullptr, "");
  ASSERT_TRUE(run.straggler);
  EXPECT_EQ(run.straggler->worker, 1);
  EXPECT_NE(in_words(run).find("The straggler is rank 1"), std::string::npos) << in_words(run);
}

TEST(ExplainRun, EveryStrategysRecordIsRead) {
  for (const auto* strategy : {"data", "sharded[level=2]", "sharded[level=3,unit=1]", "pipeline[schedule=1f1b,micro=4]", "tensor", "hybrid[data=2,pipeline=2,micro=2]", "local[every=2]", "model", "parameter-server"}) {
    const auto run = explain_run(record_of({{"workers", "4"}, {"strategy", strategy}}, by_kind), nullptr, "");
    ASSERT_TRUE(run.loss) << strategy << ": " << run.no_loss;
    EXPECT_NEAR(run.loss->simulated / run.loss->measured, 1, 0.02) << strategy;
  }
}

TEST(ExplainRun, StepsThatRunIntoEachOtherAreExplainedToo) {
  for (const auto* strategy : {"pipeline[schedule=pipedream]", "pipeline[schedule=pipedream-2bw,micro=4]", "parameter-server[async=on]", "parameter-server[stale=1,servers=2]"}) {
    const auto run = explain_run(record_of({{"workers", "4"}, {"strategy", strategy}}, by_kind), nullptr, "");
    ASSERT_TRUE(run.loss) << strategy << ": " << run.no_loss;
    EXPECT_NEAR(run.loss->simulated / run.loss->measured, 1, 0.02) << strategy;
    double sum = run.loss->speedup + run.loss->not_explained;
    for (const auto& part : run.loss->parts) sum += part.lost;
    EXPECT_NEAR(sum, 4, 1e-9) << strategy;
    EXPECT_TRUE(in_words(run).starts_with("4 workers reach ")) << in_words(run);
    // Balanced stages without a flush lose nothing; servers take time for what they are sent.
    EXPECT_NE(in_words(run).find(run.loss->apart ? "The first thing to try is" : "Nothing worth naming is lost. 0.00x is not explained"), std::string::npos) << in_words(run);
  }
  const auto record = record_of({{"workers", "2"}, {"strategy", "parameter-server[async=on]"}}, [](int worker, const Task& task) { return passes(task) * (worker == 1 ? 3 : 1); });
  // 32 samples in 3 ms and 32 in 9.
  EXPECT_NEAR(record.at("step_ms").at("median").get<double>(), 4.5, 0.01);
  EXPECT_NEAR(record.at("throughput").at("median").get<double>(), 32 / 3e-3 + 32 / 9e-3, 1e-3 * 32 / 3e-3);
  EXPECT_NEAR(record.at("ranks").at(1).at("step_ms").at("median").get<double>(), 9, 0.01);
  const auto run = explain_run(record, nullptr, "");
  ASSERT_TRUE(run.loss && run.straggler);
  EXPECT_TRUE(in_words(run).starts_with("2 workers reach 2.00x: each steps by itself, in 3 to 9 ms, so that a step's samples take 4.5 ms")) << in_words(run);
  EXPECT_EQ(run.straggler->worker, 1);
  EXPECT_TRUE(to_json(run).at("loss").at("apart").get<bool>());
  EXPECT_EQ(to_json(run).at("loss").at("worker_step_ms").size(), 2U);
  const auto bounded = explain_run(record_of({{"workers", "2"}, {"strategy", "parameter-server[stale=1]"}}, [](int worker, const Task& task) { return passes(task) * (worker == 1 ? 3 : 1); }), nullptr, "");
  ASSERT_TRUE(bounded.loss);
  EXPECT_NE(in_words(bounded).find("a wider bound (parameter-server[stale=4])"), std::string::npos) << in_words(bounded);
}

// Averages of rounds that do not divide the traced steps: as many as the rounds have, so that nobody varies.
TEST(ExplainRun, WholeRoundsAreExplained) {
  const auto run = explain_run(record_of({{"workers", "2"}, {"strategy", "local[every=3]"}}, by_kind), nullptr, "");
  ASSERT_TRUE(run.loss) << run.no_loss;
  EXPECT_NEAR(run.loss->simulated / run.loss->measured, 1, 0.01);
  for (const auto& part : run.loss->parts) {
    if (part.cause == LossCause::jitter) {
      EXPECT_NEAR(part.lost, 0, 0.005);
    }
  }
}

TEST(ExplainRun, OneWorkersRunIsWhatTheSpeedUpIsOver) {
  const auto one = record_of({{"workers", "1"}, {"strategy", "single"}}, [](int, const Task& task) { return 1.5 * passes(task); });
  const auto two = record_of({{"workers", "2"}}, by_kind);
  EXPECT_TRUE(is_one_worker_of(one, two));
  EXPECT_FALSE(is_one_worker_of(two, two));
  // Of another processor, or with another loader, it is other work.
  auto elsewhere = one, loaded = one;
  elsewhere["environment"]["before"]["cpu"]["model"] = "Another";
  EXPECT_FALSE(is_one_worker_of(elsewhere, two));
  loaded["config"]["loader"] = 7;
  EXPECT_FALSE(is_one_worker_of(loaded, two));
  EXPECT_FALSE(is_one_worker_of(record_of({{"workers", "1"}, {"strategy", "single"}, {"batch", "32"}}, by_kind), two));
  const auto run = explain_run(two, &one, "");
  EXPECT_EQ(run.one_worker, one.at("id"));
  EXPECT_NEAR(run.loss->one.seconds(), 4.5e-3, 1e-5);
  // Two do in sum 6 ms of what one does in 4.5.
  EXPECT_LT(std::abs(run.loss->not_explained), 0.03);
  EXPECT_NEAR(cause_of_document(to_json(run), "compute").at("without").at("gain_ms").get<double>(), 0.75, 0.1);
}

TEST(ExplainRun, WhatCannotBeToldSaysWhy) {
  auto record = record_of({{"workers", "2"}}, by_kind);
  auto without = record;
  without["trace"] = Json::array();
  try {
    explain_run(without, nullptr, "");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::not_found);
    EXPECT_NE(std::string(error.what()).find("--trace recent"), std::string::npos);
  }
  auto other = record;
  other["subject"] = "torch-ddp";
  const auto run = explain_run(other, nullptr, "");
  EXPECT_FALSE(run.loss);
  EXPECT_NE(in_words(run).find("torch-ddp"), std::string::npos);
  auto replanned = record;
  replanned["plan"]["roles"][0]["tasks"][1]["name"] = "sideways";
  EXPECT_NE(explain_run(replanned, nullptr, "").no_loss.find("sideways"), std::string::npos);
  auto damaged = record;
  damaged["trace"].back().erase("begin_us");
  EXPECT_THROW(explain_run(damaged, nullptr, ""), Error);
  auto failed = record;
  failed["ranks"] = Json::array();
  EXPECT_THROW(explain_run(failed, nullptr, ""), Error);
}

// What a profile says is of one host.
TEST(ExplainRun, RanksOfSeveralHostsAreNotPredicted) {
  auto record = record_of({{"workers", "2"}}, by_kind);
  const std::string why = "ranks ran on 2 hosts";
  record["prediction"] = {{"step_ms", nullptr}, {"reason", why}, {"hosts", 2}};
  const auto run = explain_run(record, nullptr, "v100-16gb");
  EXPECT_TRUE(run.loss);
  EXPECT_FALSE(run.foreseen);
  EXPECT_EQ(run.no_prediction, why);
  record["prediction"].erase("hosts");
  EXPECT_TRUE(explain_run(record, nullptr, "v100-16gb").foreseen);
}

// What moves the mean of a run moves one of its terms alone.
TEST(ExplainRun, PredictionsAreHeldAgainstUsualSteps) {
  const std::map<std::string, std::string> two{{"workers", "2"}, {"strategy", "data[overlap=off]"}};
  for (const int steps : {20, 5}) {
    const auto plain = explain_run(record_of(two, by_kind, steps), nullptr, "v100-16gb"), stalled = explain_run(record_of(two, by_kind, steps, {steps - 2, 60}), nullptr, "v100-16gb");
    ASSERT_TRUE(plain.foreseen && stalled.foreseen) << plain.no_prediction;
    EXPECT_GT((*stalled.ledger)[Cause::communication], 3 * (*plain.ledger)[Cause::communication]);
    EXPECT_NEAR(stalled.foreseen->measured.wall, plain.foreseen->measured.wall, 1e-6);
    const double off = std::abs(stalled.foreseen->measured[Cause::forward] / plain.foreseen->measured[Cause::forward] - 1);
    // Of too few usual steps it is the mean's.
    if (steps == 20) EXPECT_LT(off, 0.01);
    else EXPECT_GT(off, 0.3);
  }
}

TEST(LedgerDifference, IsTermByTermAndAddsUp) {
  const auto slow = record_of({{"workers", "2"}, {"strategy", "data[overlap=off]"}}, by_kind);
  const auto fast = record_of({{"workers", "2"}, {"strategy", "data[overlap=off]"}}, [](int, const Task& task) { return passes(task); });
  const auto difference = ledger_difference(slow, fast);
  EXPECT_NEAR(difference.step(), 1e-3, 1e-5);
  EXPECT_TRUE(difference.unlike.empty());
  double sum = 0;
  const auto document = to_json(difference);
  for (const auto& term : document.at("terms")) sum += term.at("difference_ms").get<double>();
  EXPECT_NEAR(sum, 1, 0.01);
  EXPECT_EQ(ledger_difference(slow, record_of({{"workers", "2"}, {"batch", "128"}}, by_kind)).unlike.size(), 1U);
}

}  // namespace
}  // namespace ddl
