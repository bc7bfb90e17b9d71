#pragma once

#include <cmath>
#include <string>

#include "ddl/core/json.h"
#include "ddl/core/random.h"

namespace ddl {

/// What a plausible record is made from, for tests and for looking at the page.
struct Synthetic {
  std::string model = "lenet";
  int workers = 1;
  std::string transport = "shm";
  double step_ms = 4.0;         ///< of one worker with the whole batch
  double exposed_ms = 0.4;      ///< communication on top of its part of the compute
  int epochs = 10;              ///< 0: a fixed number of steps, no epoch complete
  std::size_t steps = 400;
  std::string subject = "ddlbench";
  std::string study = "first";
  int number = 0;               ///< orders the records in time
  std::string strategy = "data";
  int batch = 64;
};

/// A complete `ddlbench.run/1` record; the same for the same input.
inline Json synthetic_record(const Synthetic& made) {
  Random random(static_cast<std::uint64_t>(made.number) + 17);
  const auto noise = [&] { return random.uniform(); };
  const double compute = made.step_ms / made.workers;
  const double exposed = made.workers > 1 ? made.exposed_ms : 0;
  const double wall = compute + 1.5 * exposed;
  const int batch = made.batch;
  Json samples = Json::array();
  for (std::size_t i = 0; i < made.steps; ++i)
    samples.push_back(wall * (1 + 0.06 * noise() + (noise() < 0.01 ? 0.8 : 0) + (i < 3 ? 6.0 : 0)));
  Json ranks = Json::array();
  for (int r = 0; r < made.workers; ++r) {
    const double residual = 0.004 * wall;
    ranks.push_back(
        {{"rank", r},
         {"device", "cpu"},
         {"pid", 4242 + r},
         {"step_ms", {{"median", wall}, {"samples", samples}}},
         {"peak_memory_bytes", 210'000'000 + 9'000'000 * r},
         {"memory_bytes", {{"parameters", 246'824}, {"gradients", 246'824}, {"kernel_peak", 210'000'000}}},
         {"bytes_sent", 1'000'000},
         {"bytes_received", 1'000'000},
         {"ledger_ms",
          {{"load", 0.02 * compute},
           {"copy", 0.03 * compute},
           {"forward", 0.33 * compute},
           {"backward", 0.55 * compute},
           {"communication", exposed},
           {"wait", 0.5 * exposed * (r == 0 ? 0.2 : 1.8)},
           {"bubble", 0},
           {"update", 0.06 * compute},
           {"harness", 0.01 * compute - residual * 0.5},
           {"residual", residual * 0.5 + 0.5 * exposed * (r == 0 ? 0.8 : -0.8)}}},
         {"wall_ms", wall},
         {"overlapped_communication_ms", 1.5 * exposed}});
    // The residual above takes up what the two ranks' different waits leave, so that every ledger adds up to the step.
    auto& ledger = ranks.back()["ledger_ms"];
    ledger["backward"] = ledger["backward"].get<double>() + ledger["residual"].get<double>() - residual;
    ledger["residual"] = residual;
  }
  Json losses = Json::array(), accuracies = Json::array(), at = Json::array(), values = Json::array();
  for (int e = 0; e < made.epochs; ++e) {
    losses.push_back(0.25 + 0.6 * std::exp(-0.5 * e));
    accuracies.push_back(0.915 - 0.12 * std::exp(-0.45 * e));
  }
  for (std::size_t i = 0; i < made.steps; i += 10) {
    at.push_back(i);
    values.push_back(0.3 + 2.0 * std::exp(-6.0 * static_cast<double>(i) / static_cast<double>(made.steps)) +
                     0.08 * noise());
  }
  const double rate = 1000.0 * batch / wall;
  const auto stamp = std::to_string(10 + made.number);
  std::string name = made.model + (made.workers == 1 ? ", 1 worker" : ", " + std::to_string(made.workers) + " workers");
  if (made.workers > 1) name += ", " + made.transport;
  const Json environment = {
      {"host", "bench-1"},
      {"os", {{"kernel", "Linux 6.1.0"}, {"distribution", "Debian GNU/Linux 12 (bookworm)"}, {"libc", "glibc 2.36"}}},
      {"cpu",
       {{"model", "Intel(R) Xeon(R) Processor @ 2.80GHz"},
        {"logical_cores", 2},
        {"usable_cores", 2},
        {"governor", nullptr},
        {"isa", {"avx2", "avx512f"}},
        {"mhz", 2800.0}}},
      {"memory",
       {{"total_bytes", 8'324'157'440}, {"available_bytes", 6'300'000'000}, {"transparent_huge_pages", "madvise"}}},
      {"load", {0.4, 0.3, 0.2}},
      {"time", "2026-11-21T10:15:02Z"}};
  return {
      {"schema", "ddlbench.run/1"},
      {"id", "20261121-1015" + stamp + "-3f2a9c"},
      {"state", "ok"},
      {"reason", nullptr},
      {"subject", made.subject},
      {"identity", "5b1f00000000000000000000000000" + stamp},
      {"study", made.study},
      {"case", name},
      {"repeat", 0},
      {"started", "2026-11-21T10:" + stamp + ":02.123Z"},
      {"finished", "2026-11-21T10:" + stamp + ":48.000Z"},
      {"config",
       {{"model", made.model},
        {"dataset", "fashion-mnist"},
        {"strategy", made.strategy},
        {"workers", "cpu:" + std::to_string(made.workers)},
        {"batch", batch},
        {"precision", "fp32"},
        {"epochs", made.epochs ? Json(made.epochs) : Json()},
        {"steps", nullptr},
        {"seed", 1},
        {"transport", made.transport}}},
      {"provenance", {{"model", "studies/first.yaml:12:5"}, {"seed", "default"}, {"batch", "--batch"}}},
      {"build",
       {{"version", "0.1.0"},
        {"commit", "4f1c2d3e4a5b"},
        {"dirty", false},
        {"compiler", "g++ 12.2.0"},
        {"torch", "2.13.0+cpu"},
        {"type", "Release"}}},
      {"dataset_digest", "00ff"},
      {"environment", {{"before", environment}, {"after", environment}, {"drift", Json::array()}}},
      {"launch", {{"start_to_first_step_s", 0.71}}},
      {"samples", {{"steps", made.steps}, {"warmup_steps", 3}, {"measured_steps", made.steps - 3}}},
      {"throughput", {{"median", rate}, {"low", rate * 0.985}, {"high", rate * 1.012}}},
      {"step_ms",
       {{"median", wall},
        {"low", wall * 0.99},
        {"high", wall * 1.01},
        {"p95", wall * 1.2},
        {"p99", wall * 1.7},
        {"samples", samples}}},
      {"loss", {{"first", 2.31}, {"final", 0.26}, {"epochs", losses}, {"steps", {{"at", at}, {"value", values}}}}},
      {"accuracy", {{"top1", made.epochs ? Json(0.9131) : Json()}, {"epochs", accuracies}}},
      {"parameters_digest", "ab12"},
      {"model", {{"parameters", 61706}, {"flops_per_sample", 833000}, {"layers", 12}}},
      {"ranks", ranks},
      {"trace", Json::array({{{"rank", 0},
                              {"step", 12},
                              {"task", 3},
                              {"stream", "compute"},
                              {"cause", "forward"},
                              {"name", "forward"},
                              {"begin_us", 0.0},
                              {"end_us", 2013.5}},
                             {{"rank", 0},
                              {"step", 12},
                              {"task", 4},
                              {"stream", "communication"},
                              {"cause", "communication"},
                              {"name", "bucket 0"},
                              {"begin_us", 1500.0},
                              {"end_us", 2500.0}}})},
      {"prediction", nullptr},
      {"messages", Json::array()}};
}

/// A run that ended early, with nothing measured.
inline Json failed_record(const Synthetic& made, const std::string& reason, const std::string& state = "failed") {
  Json record = synthetic_record(made);
  record["state"] = state;
  record["reason"] = reason;
  for (const auto* key : {"throughput", "step_ms", "loss", "accuracy", "parameters_digest"}) record[key] = nullptr;
  record["ranks"] = Json::array();
  record["trace"] = Json::array();
  record["messages"] = {"rank 1: Killed"};
  return record;
}

/// The first study: two networks, one worker, two over shm, two over tcp.
inline std::vector<Json> synthetic_study(std::size_t steps = 400) {
  std::vector<Json> records;
  int number = 0;
  for (const bool large : {false, true})
    for (const auto& [workers, transport, exposed] : {std::tuple(1, "shm", 0.0), {2, "shm", 0.1}, {2, "tcp", 0.2}}) {
      const double step = large ? 900.0 : 4.2;
      records.push_back(synthetic_record({.model = large ? "resnet18" : "lenet",
                                          .workers = workers,
                                          .transport = transport,
                                          .step_ms = step,
                                          .exposed_ms = exposed * step,
                                          .epochs = large ? 0 : 10,
                                          .steps = steps,
                                          .subject = "ddlbench",
                                          .study = "first",
                                          .number = number++}));
    }
  return records;
}

}  // namespace ddl
