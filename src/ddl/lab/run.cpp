#include "ddl/lab/run.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "ddl/collective/algorithms.h"
#include "ddl/collective/native.h"
#include "ddl/core/error.h"
#include "ddl/lab/agent_hub.h"
#include "ddl/lab/config_values.h"
#include "ddl/lab/follow_layers.h"
#include "ddl/lab/launches.h"
#include "ddl/lab/measured_choices.h"
#include "ddl/lab/plan_record.h"
#include "ddl/lab/predict_run.h"
#include "ddl/lab/record.h"
#include "ddl/nn/model.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/machine_terms.h"
#include "ddl/train/plan_job.h"
#include "ddl/train/worker.h"

namespace ddl {
namespace {

/// What to say beside a rank that the kernel may have ended for that: who was to hold how much.
std::string killed_for_memory(const Experiment& experiment, const ModelGraph& graph) {
  const auto holds = plan_job(experiment.job, graph).role_of(0).holds;
  return fmt::format("; meanwhile the kernel ended a process for lack of memory, and a worker was planned to hold {}: {}", to_string(Bytes{holds.total()}),
                     to_string(holds));
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

/// The test network that it asks for, and where its workers are on it: neighbours share a host where they outnumber them.
std::unique_ptr<Fabric> make_fabric(Experiment& experiment) {
  auto& job = experiment.job;
  if (job.fabric.empty()) return nullptr;
  if (experiment.subject != "ddlbench")
    throw Error(Code::unsupported, fmt::format("{}: unsupported: {} cannot be put on a fabric yet", origin_of(experiment, "fabric"), experiment.subject));
  try {
    auto fabric = std::make_unique<Fabric>(job.fabric);
    const auto ranks = static_cast<int>(job.workers.size());
    for (int rank = 0; rank < ranks; ++rank) {
      job.hosts.push_back(host_of(rank, ranks, fabric->hosts()));
      job.addresses.push_back(fabric->address(job.hosts.back()));
    }
    job.latency = fabric->description().latency;
    return fabric;
  } catch (const Error& error) {
    throw prefixed(origin_of(experiment, "fabric"), error);
  }
}

/// Lets "auto" follow what was measured of this machine. A profile that cannot be read is told of and left alone.
void follow_machine_profile(Experiment& experiment, Json& record) {
  auto& job = experiment.job;
  record["machine_profile"] = nullptr;
  const auto path = default_machine_path();
  if (experiment.subject != "ddlbench" || job.workers.size() < 2 || job.collective != "auto" || path.empty() || !std::filesystem::exists(path)) return;
  try {
    const auto machine = read_machine_to_measure(path);
    if (!same_machine(machine, record.at("environment").at("before"))) return;
    require_terms(machine, path);
    job.measured = measured_choices(machine, job.transport, static_cast<int>(job.workers.size()));
    for (const auto& choice : job.measured)
      if (!parse_native(Goal::all_reduce, choice.algorithm)) choose_algorithm(Goal::all_reduce, choice.algorithm);
    if (!job.measured.empty()) record["machine_profile"] = path;
  } catch (const Error& error) {
    job.measured.clear();
    record["messages"].push_back(fmt::format("machine profile not followed: {}", error.what()));
  }
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

std::string new_secret() {
  std::random_device device;
  std::string secret;
  for (int i = 0; i < 8; ++i) secret += fmt::format("{:08x}", device());
  return secret;
}

namespace {

void check_launched(const Experiment& experiment, const AgentHub* launched) {
  if (launched == nullptr) return;
  const auto workers = static_cast<int>(experiment.job.workers.size());
  if (experiment.subject != "ddlbench")
    throw Error(Code::unsupported, fmt::format("{}: unsupported: under a launcher ddlbench alone trains; got {}, expected it started plainly",
                                               origin_of(experiment, "subject"), experiment.subject));
  if (!experiment.job.fabric.empty())
    throw Error(Code::unsupported, fmt::format("{}: unsupported: a launcher has placed its ranks already; got {}, expected no fabric, or ddlbench started plainly",
                                               origin_of(experiment, "fabric"), experiment.job.fabric));
  if (is_in_process(experiment.job))
    throw Error(Code::unsupported, fmt::format("{}: unsupported: a launcher starts processes, and its workers are threads of one; got {}, expected ddlbench started plainly",
                                               origin_of(experiment, "strategy"), to_string(experiment.job.strategy)));
  if (workers != launched->ranks())
    throw Error(Code::invalid_argument, fmt::format("{}: as many workers as the launcher started processes; got {}, expected {}",
                                                    origin_of(experiment, "workers"), workers, launched->ranks()));
}

}  // namespace

Json run_experiment(const Experiment& wanted, const RunEvents& events, AgentHub* launched) {
  check_launched(wanted, launched);
  LaunchTimes times;
  times.entered = now();
  times.requested = events.requested > 0 ? events.requested : times.entered;
  auto experiment = wanted;
  experiment.job.secret = new_secret();

  const auto data = open_data(experiment);
  times.dataset_open = now();
  check_experiment(experiment, data.train->size());
  const auto graph = make_model(experiment.job.model, data.train->shape());
  auto record = new_record(experiment, data.train->digest() + data.test->digest());

  if (experiment.job.emulates() && experiment.job.evaluate) record["messages"].push_back("not evaluated: emulated workers wait instead of computing, and their parameters mean nothing");
  follow_machine_profile(experiment, record);
  const auto fabric = make_fabric(experiment);
  follow_measured_layers(experiment, graph, data.train->shape(), record);
  Observed observed(static_cast<int>(experiment.job.workers.size()), experiment.job.trace);
  const auto launch = make_launch(experiment, data, events, observed, times, fabric.get(), launched);
  times.started = now();
  // Beside what workers do before their first step.
  supervise(*launch, experiment, events, observed, [&] { record["prediction"] = predict_run(experiment, graph, record.at("environment").at("before")); });
  // Known only once all have come.
  if (launched != nullptr && launched->hosts() > 1) {
    record["prediction"] = no_prediction(fmt::format("ranks ran on {} hosts, and what was measured is of this one and of wires within it: steps over several measured hosts are not predicted in this version", launched->hosts()));
    record["prediction"]["hosts"] = launched->hosts();
  }
  if (observed.killed_for_memory) observed.reason += killed_for_memory(experiment, graph);

  const auto plan = plan_as_run(experiment.job, graph, observed.done.front());
  complete_record(record, experiment, observed, plan);
  record["stages"] = experiment.subject == "ddlbench" ? stages_json(graph, plan) : Json(nullptr);
  record["launch"] = launch_json(times);
  record["model"] = {{"parameters", graph.parameters()}, {"flops_per_sample", graph.flops() > 0 ? Json(graph.flops()) : Json(nullptr)}, {"layers", graph.layers.size()}};
  return record;
}

}  // namespace ddl
