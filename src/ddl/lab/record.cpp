#include "ddl/lab/record.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <span>

#include "ddl/core/error.h"
#include "ddl/core/statistics.h"
#include "ddl/lab/build_info.h"
#include "ddl/lab/plan_record.h"
#include "ddl/lab/predict_run.h"
#include "ddl/measure/clock.h"
#include "ddl/measure/environment.h"
#include "ddl/predict/step/server_turns.h"
#include "ddl/strategy/bucketing.h"
#include "ddl/train/plan_job.h"

namespace ddl {
namespace {

constexpr std::size_t kMostLossPoints = 500;
/// The final loss is the mean of so many steps: one batch alone says little.
constexpr std::int64_t kFinalSteps = 10;

std::string new_id() {
  const auto stamp = utc_now();  // 2026-11-21T10:15:02.123Z
  std::random_device device;
  return fmt::format("{}{}{}-{}{}{}-{:06x}", stamp.substr(0, 4), stamp.substr(5, 2), stamp.substr(8, 2), stamp.substr(11, 2),
                     stamp.substr(14, 2), stamp.substr(17, 2), device() & 0xffffffU);
}

std::vector<double> step_milliseconds(const std::vector<StepRecord>& steps) {
  std::vector<double> milliseconds;
  milliseconds.reserve(steps.size());
  for (const auto& step : steps) milliseconds.push_back(seconds(step.end - step.begin) * 1e3);
  return milliseconds;
}

/// What each step of the group took, ms: rank 0's, which all step with; of workers that step by themselves what a step's samples take all of them together, each at the pace it has then.
std::vector<double> group_milliseconds(const StepBook& book, const Plan& plan) {
  auto milliseconds = step_milliseconds(book.steps(0));
  if (!steps_apart(plan)) return milliseconds;
  for (std::int64_t step = 0; step < book.complete(); ++step) {
    double pace = 0;  // samples a millisecond
    for (int rank = 0; rank < book.ranks(); ++rank) {
      const auto& own = book.steps(rank)[static_cast<std::size_t>(step)];
      if (own.end > own.begin) pace += static_cast<double>(own.samples) / (seconds(own.end - own.begin) * 1e3);
    }
    if (pace > 0) milliseconds[static_cast<std::size_t>(step)] = static_cast<double>(book.samples(step)) / pace;
  }
  return milliseconds;
}

/// Microsecond resolution: what the clock is good for, and a third of the digits.
Json rounded(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(std::round(value * 1e3) / 1e3);
  return list;
}

Json interval_json(const Interval& interval) {
  return {{"median", interval.median}, {"low", interval.low}, {"high", interval.high}};
}

/// The first step allocates everything and its buckets are rebuilt after it; beyond that the samples decide.
std::size_t warm_up(const std::vector<double>& milliseconds, std::size_t tuned) {
  return milliseconds.size() < 4 ? 0 : std::max({std::size_t{1}, tuned, warm_up_end(milliseconds)});
}

/// The first step after those in which ways to exchange buckets were tried, and after those that were recorded as graphs.
std::size_t tuned_until(const Observed& observed) {
  std::size_t until = 0;
  for (const auto& said : observed.done) {
    if (!said.is_object()) continue;
    if (const auto tuning = said.value("bucket_tuning", Json()); tuning.is_object()) until = std::max(until, tuning.at("steps").get<std::size_t>() + 1);
    if (const auto graphs = said.value("graphs", Json()); graphs.is_object() && graphs.at("first_step").is_number()) until = std::max(until, graphs.at("first_step").get<std::size_t>() + 1);
  }
  return until;
}

void add_rates(Json& record, const StepBook& book, const std::vector<double>& milliseconds, std::size_t skipped) {
  const auto complete = static_cast<std::size_t>(book.complete());
  std::vector<double> rates, measured;
  for (std::size_t step = skipped; step < complete; ++step) {
    measured.push_back(milliseconds[step]);
    rates.push_back(static_cast<double>(book.samples(static_cast<std::int64_t>(step))) / (milliseconds[step] * 1e-3));
  }
  record["samples"] = {{"steps", complete}, {"warmup_steps", skipped}, {"measured_steps", measured.size()}};
  if (measured.empty()) return;
  record["throughput"] = interval_json(median_interval(rates));
  auto step = interval_json(median_interval(measured));
  step["p95"] = quantile(measured, 0.95);
  step["p99"] = quantile(measured, 0.99);
  step["samples"] = rounded(milliseconds);
  record["step_ms"] = std::move(step);
}

void add_losses(Json& record, const Observed& observed) {
  const auto& book = observed.book;
  const auto complete = book.complete();
  if (complete == 0) return;
  Json at = Json::array(), value = Json::array();
  const auto stride = std::max<std::int64_t>(1, (complete + static_cast<std::int64_t>(kMostLossPoints) - 1) / static_cast<std::int64_t>(kMostLossPoints));
  for (std::int64_t step = 0; step < complete; step += stride) {
    at.push_back(step);
    value.push_back(book.loss(step));
  }
  double final = 0;
  const auto first = std::max<std::int64_t>(0, complete - kFinalSteps);
  for (auto step = first; step < complete; ++step) final += book.loss(step);
  Json losses = Json::array();
  for (const auto& epoch : observed.epochs) losses.push_back(epoch.at("loss"));
  record["loss"] = {{"first", book.loss(0)},
                    {"final", final / static_cast<double>(complete - first)},
                    {"epochs", losses},
                    {"steps", {{"at", at}, {"value", value}}}};
}

/// What the last evaluation said, and of all of them the accuracy: of samples, or of words.
void add_accuracy(Json& record, const Observed& observed) {
  Json epochs = Json::array(), accuracy;
  for (const auto& epoch : observed.epochs) {
    for (const auto* key : {"top1", "top5", "tokens", "bleu", "test_loss"})
      if (epoch.contains(key)) accuracy[key] = epoch.at(key);
    for (const auto* key : {"top1", "tokens"})
      if (epoch.contains(key)) epochs.push_back(epoch.at(key));
  }
  if (epochs.empty()) return;
  accuracy["epochs"] = epochs;
  record["accuracy"] = accuracy;
}

/// CPU time of each step; null of another subject, which does not say, and of ranks that are threads of one process, whose time is not told apart.
Json cpu_json(const Experiment& experiment, const std::vector<StepRecord>& steps, std::size_t end, std::size_t skipped) {
  if (experiment.subject != "ddlbench" || (is_in_process(experiment.job) && experiment.job.workers.size() > 1)) return nullptr;
  std::vector<double> milliseconds;
  milliseconds.reserve(steps.size());
  for (const auto& step : steps) milliseconds.push_back(step.core_seconds * 1e3);
  return {{"median", end > skipped ? Json(median(std::span(milliseconds).subspan(skipped, end - skipped))) : Json(nullptr)}, {"samples", rounded(milliseconds)}};
}

Json rank_json(const Experiment& experiment, const Observed& observed, std::size_t rank, std::size_t skipped) {
  const auto number = static_cast<int>(rank);
  const auto milliseconds = step_milliseconds(observed.book.steps(number));
  Json json{{"rank", number}, {"device", experiment.job.workers.at(rank).device}, {"pid", observed.pids.at(rank)}};
  const auto end = static_cast<std::size_t>(observed.book.complete());
  json["step_ms"] = {{"median", end > skipped ? Json(median(std::span(milliseconds).subspan(skipped, end - skipped))) : Json(nullptr)},
                     {"samples", rounded(milliseconds)}};
  json["cpu_ms"] = cpu_json(experiment, observed.book.steps(number), end, skipped);
  const auto& done = observed.done.at(rank);
  const auto& memory = done.is_null() ? observed.memory.at(rank) : done.at("memory_bytes");
  if (!memory.is_null()) {
    const auto peak = [&](const char* key) { return memory.contains(key) && !memory.at(key).is_null() ? memory.at(key).get<std::int64_t>() : std::int64_t{0}; };
    // Of a device with memory of its own it is that memory that runs out.
    json["peak_memory_bytes"] = peak("device_peak") > 0 ? peak("device_peak") : std::max(peak("allocator_peak"), peak("kernel_peak"));
    json["memory_bytes"] = memory;
    for (const auto* key : {"bytes_sent", "bytes_received", "compression", "averaging", "staleness", "accelerator", "gradients", "graphs", "emulation", "cores"}) json[key] = done.contains(key) ? done.at(key) : Json(nullptr);
  }
  const auto measured = observed.book.complete() - static_cast<std::int64_t>(skipped);
  if (measured > 0) {
    const auto ledger = observed.book.ledger(number, static_cast<std::int64_t>(skipped));
    const double scale = 1e3 / static_cast<double>(measured);
    Json causes;
    for (std::size_t c = 0; c < kCauses; ++c) causes[std::string(name(static_cast<Cause>(c)))] = ledger.seconds[c] * scale;
    const auto activity = observed.book.activity(number, static_cast<std::int64_t>(skipped));
    json["communication_busy_ms"] = activity.communication * scale;
    json["overlapped_communication_ms"] = activity.overlapped * scale;
    json["idle_ms"] = activity.idle * scale;
    if (experiment.subject != "ddlbench") {
      // What another package hides inside its backward is not nothing; it is not known.
      for (const auto cause : {Cause::copy, Cause::communication, Cause::wait, Cause::bubble, Cause::harness}) causes[std::string(name(cause))] = nullptr;
      for (const auto* key : {"communication_busy_ms", "overlapped_communication_ms", "idle_ms"}) json[key] = nullptr;
    }
    json["ledger_ms"] = causes;
    json["wall_ms"] = ledger.wall * scale;
  }
  return json;
}

/// Every rank has the same.
void add_common(Json& record, const Observed& observed) {
  const auto& said = observed.done.front();
  for (const auto* key : {"buckets", "bucket_tuning", "precision", "multipliers", "clipped_steps"}) record[key] = said.is_null() || !said.contains(key) ? Json(nullptr) : said.at(key);
}

/// Replicas must hold the same bits; a run in which they do not is not a measurement of anything.
void add_digest(Json& record, const Observed& observed) {
  std::string first;
  std::size_t first_rank = 0;
  for (std::size_t rank = 0; rank < observed.done.size(); ++rank) {
    if (observed.done[rank].is_null() || !observed.done[rank].contains("parameters_digest") || observed.done[rank].at("parameters_digest").is_null()) continue;
    const auto digest = observed.done[rank].at("parameters_digest").get<std::string>();
    if (first.empty()) {
      first = digest;
      first_rank = rank;
    }
    if (digest != first && record["state"] == "ok") {
      record["state"] = "invalid";
      record["reason"] = fmt::format("parameters differ between ranks at the end: rank {} has {}, rank {} has {}", first_rank, first, rank, digest);
    }
  }
  record["parameters_digest"] = first.empty() ? Json(nullptr) : Json(first);
}

/// The order in which gradients came, as buckets have it; empty where it is not known.
std::vector<int> gradient_order(const Json& buckets, const ModelGraph& graph) {
  std::map<std::string, int> numbers;
  const auto specs = graph.parameter_specs();
  for (std::size_t i = 0; i < specs.size(); ++i) numbers[specs[i].name] = static_cast<int>(i);
  std::vector<int> order;
  std::set<int> seen;
  if (!buckets.is_array()) return {};
  for (const auto& bucket : buckets)
    for (const auto& parameter : bucket.at("parameters")) {
      const auto found = numbers.find(parameter.get<std::string>());
      if (found == numbers.end() || !seen.insert(found->second).second) return {};
      order.push_back(found->second);
    }
  return order.size() == specs.size() ? order : std::vector<int>{};
}

}  // namespace

Job job_as_run(Job job, const Json& bucket_tuning) {
  // Older records do not say how they overlap: as the strategy does.
  if (tunes_buckets(job.strategy) && bucket_tuning.is_object())
    job.strategy = with_bucketing(job.strategy, {bucket_tuning.at("taken").get<std::int64_t>(), bucket_tuning.value("overlap", overlaps_backward(job.strategy))});
  return job;
}

Plan plan_as_run(const Job& job, const ModelGraph& graph, const Json& told) {
  const auto said = [&](const char* key) { return told.is_object() ? told.value(key, Json()) : Json(); };
  const auto own = job_as_run(job, said("bucket_tuning"));
  auto plan = plan_job(own, graph);
  const auto buckets = said("buckets");
  auto order = gradient_order(buckets, graph);
  if (order.empty() || plan.stages.size() > 1) return plan;
  auto anew = plan_job(own, graph, std::move(order));
  const auto& cut = anew.roles.front().buckets;
  const bool same = cut.size() == buckets.size() && std::equal(cut.begin(), cut.end(), buckets.begin(), [](const Bucket& bucket, const Json& one) { return bucket.bytes == one.at("bytes"); });
  return same ? anew : plan;
}

Json new_record(const Experiment& experiment, const std::string& dataset_digest) {
  Json record;
  record["schema"] = "ddlbench.run/1";
  record["id"] = new_id();
  record["state"] = "running";
  record["reason"] = nullptr;
  record["subject"] = experiment.subject;
  record["identity"] = identity(experiment, build_identity(), dataset_digest);
  record["study"] = experiment.study.empty() ? Json(nullptr) : Json(experiment.study);
  record["case"] = experiment.name.empty() ? Json(nullptr) : Json(experiment.name);
  record["repeat"] = 0;
  record["started"] = utc_now();
  record["finished"] = nullptr;
  record["config"] = experiment.config;
  record["provenance"] = experiment.provenance;
  record["build"] = build_info();
  record["dataset_digest"] = dataset_digest;
  record["environment"] = {{"before", capture_environment()}, {"after", nullptr}, {"drift", Json::array()}};
  for (const auto* key : {"launch", "samples", "throughput", "step_ms", "loss", "accuracy", "parameters_digest", "model"})
    record[key] = nullptr;
  record["ranks"] = Json::array();
  record["plan"] = nullptr;
  record["trace"] = Json::array();
  record["trace_steps"] = Json::array();
  record["prediction"] = nullptr;
  record["messages"] = Json::array();
  return record;
}

void complete_record(Json& record, const Experiment& experiment, const Observed& observed, const Plan& plan) {
  record["state"] = observed.state;
  record["reason"] = observed.reason.empty() ? Json(nullptr) : Json(observed.reason);
  record["finished"] = utc_now();
  auto& environment = record["environment"];
  environment["after"] = capture_environment();
  environment["drift"] = environment_drift(environment["before"], environment["after"]);
  const auto milliseconds = group_milliseconds(observed.book, plan);
  const auto skipped = warm_up({milliseconds.begin(), milliseconds.begin() + observed.book.complete()}, tuned_until(observed));
  add_rates(record, observed.book, milliseconds, skipped);
  judge_prediction(record["prediction"], plan, std::span(milliseconds).subspan(skipped, static_cast<std::size_t>(observed.book.complete()) - skipped));
  if (!experiment.job.emulates()) {
    add_losses(record, observed);
    add_accuracy(record, observed);
  }
  add_common(record, observed);
  add_digest(record, observed);
  record["ranks"] = Json::array();
  for (std::size_t rank = 0; rank < observed.done.size(); ++rank) record["ranks"].push_back(rank_json(experiment, observed, rank, skipped));
  record["trace"] = observed.book.trace(plan);
  record["trace_steps"] = observed.book.trace_steps();
  if (!record["trace"].empty() && experiment.subject == "ddlbench") record["plan"] = plan_json(experiment.job.strategy, plan, mean_passes(observed.book));
  for (const auto& message : observed.messages) record["messages"].push_back(message);
}

}  // namespace ddl
