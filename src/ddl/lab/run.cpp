#include "ddl/lab/run.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

#include "ddl/core/error.h"
#include "ddl/lab/launches.h"
#include "ddl/lab/record.h"
#include "ddl/nn/builtin.h"
#include "ddl/strategy/builtin.h"
#include "ddl/train/precision.h"
#include "ddl/train/worker.h"

namespace ddl {
namespace {

/// Random enough that a stranger on the same host cannot guess it: 256 bits of the kernel's.
std::string new_secret() {
  std::random_device device;
  std::string secret;
  for (int i = 0; i < 8; ++i) secret += fmt::format("{:08x}", device());
  return secret;
}

std::vector<std::string> task_names(const ModelGraph& graph, const Job& job) {
  const auto workers = static_cast<int>(job.workers.size());
  const auto plan = builtin_strategies().at(job.strategy.name).make({graph, workers, job.batch, element_bytes(job.precision), job.strategy, {}});
  std::vector<std::string> names;
  for (const auto& task : plan.role_of(0).tasks) names.push_back(task.label);
  return names;
}

Json launch_json(const LaunchTimes& times) {
  const auto span = [](Nanoseconds from, Nanoseconds to) { return from > 0 && to > from ? Json(seconds(to - from)) : Json(nullptr); };
  return {{"start_to_first_step_s", span(times.requested, times.first_step)},
          {"startup_s",
           {{"process", span(times.requested, times.entered)},
            {"dataset", span(times.entered, times.dataset_open)},
            {"prepare", span(times.dataset_open, times.started)},
            {"network", span(times.started, times.network_built)},
            {"connect", span(times.network_built, times.connected)},
            {"first_step", span(times.connected, times.first_step)}}}};
}

}  // namespace

Nanoseconds process_started() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  // The second field, the name in brackets, may hold spaces; the start time is the 22nd.
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number) fields >> field;
  if (!fields) return now();
  // Ticks since boot; the monotonic clock counts from boot too, as long as the machine was not suspended.
  return static_cast<Nanoseconds>(std::stoll(field)) * (1'000'000'000 / ::sysconf(_SC_CLK_TCK));
}

Json run_experiment(const Experiment& wanted, const RunEvents& events) {
  LaunchTimes times;
  times.entered = now();
  times.requested = events.requested > 0 ? events.requested : times.entered;
  auto experiment = wanted;
  experiment.job.secret = new_secret();

  const auto data = open_data(experiment);
  times.dataset_open = now();
  check_experiment(experiment, data.train->size());
  const auto graph = builtin_models().at(experiment.job.model.name).make(experiment.job.model, data.train->shape());
  auto record = new_record(experiment, data.train->digest() + data.test->digest());

  Observed observed(static_cast<int>(experiment.job.workers.size()), experiment.job.trace);
  const auto launch = make_launch(experiment, data, events, observed, times);
  times.started = now();
  supervise(*launch, experiment, events, observed);

  complete_record(record, experiment, observed, task_names(graph, experiment.job));
  record["launch"] = launch_json(times);
  record["model"] = {{"parameters", graph.parameters()}, {"flops_per_sample", graph.flops()}, {"layers", graph.layers.size()}};
  return record;
}

}  // namespace ddl
