#include <algorithm>
#include <cmath>

#include "ddl/cli/command.h"
#include "ddl/cli/progress.h"
#include "ddl/core/error.h"
#include "ddl/lab/config.h"

namespace ddl {
namespace {

struct SelftestOptions {
  Output output;
  int workers = 2, steps = 300;
  std::string transport = "shm";
};

constexpr double kWait = 10;      ///< milliseconds that the null network waits in each step
constexpr double kMostPercent = 1;

Experiment null_workload(const SelftestOptions& options) {
  Settings settings;
  const auto put = [&](const char* key, const std::string& value) { set(settings, key, value, "selftest"); };
  put("model", fmt::format("null[ms={}]", kWait));
  put("dataset", "fashion-mnist");
  put("synthetic", "true");
  put("train_samples", "2048");
  put("test_samples", "64");
  put("evaluate", "false");
  put("batch", std::to_string(options.workers));
  put("steps", std::to_string(options.steps));
  put("workers", std::to_string(options.workers));
  put("transport", options.transport);
  put("store", "none");
  return resolve(settings);
}

/// What the harness adds to a step of the worker that it burdens most: its own work and what nothing explains.
double overhead_percent(const Json& record) {
  double most = 0;
  for (const auto& rank : record.at("ranks")) {
    const auto& ledger = rank.at("ledger_ms");
    const double added = ledger.value("harness", 0.0) + std::abs(ledger.value("residual", 0.0));
    most = std::max(most, 100 * added / kWait);
  }
  return most;
}

Exit act(const SelftestOptions& options) {
  Json record;
  {
    ProgressLine progress(options.output);
    progress.begin("null workload", 1, 1);
    record = run_experiment(null_workload(options), progress.events());
  }
  const auto code = exit_for_record(record);
  if (code != Exit::ok) {
    if (options.output.json) options.output.document({{"schema", "ddlbench.selftest/1"}, {"passed", false}, {"record", record}});
    print_error(fmt::format("[selftest] the null workload did not run; got state {}: {}", record.value("state", std::string("?")),
                            record["reason"].is_string() ? record["reason"].get<std::string>() : "no reason"));
    return code;
  }
  const double overhead = overhead_percent(record);
  const bool passed = overhead <= kMostPercent;
  if (options.output.json)
    options.output.document({{"schema", "ddlbench.selftest/1"}, {"passed", passed}, {"overhead_percent", overhead}, {"limit_percent", kMostPercent},
                             {"step_ms", record.at("step_ms").at("median")}, {"record", record}});
  else
    options.output.data(fmt::format("harness overhead: {:.3f} % of a {} ms step (at most {} % is allowed); step {:.3f} ms\n", overhead,
                                    kWait, kMostPercent, record.at("step_ms").value("median", 0.0)));
  if (!passed)
    print_error(fmt::format("[selftest] the harness costs too much here; got {:.2f} % of a step, expected at most {} %", overhead,
                            kMostPercent));
  return passed ? Exit::ok : Exit::failure;
}

}  // namespace

Command add_selftest(CLI::App& root) {
  auto options = std::make_shared<SelftestOptions>();
  auto* app = add_command(root, "selftest", "Run the harness on a null workload and measure its own overhead.", options->output,
                          {"ddlbench selftest", "ddlbench selftest --workers 1 --steps 50 --json"});
  app->add_option("--workers", options->workers, "Workers.")->check(CLI::Range(1, 64))->capture_default_str();
  app->add_option("--steps", options->steps, "Steps.")->check(CLI::Range(1, 100000))->capture_default_str();
  app->add_option("--transport", options->transport, "What carries bytes between them.")->capture_default_str();
  return {app, [options] { return act(*options); }};
}

}  // namespace ddl
