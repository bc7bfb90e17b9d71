#include "ddl/lab/rank_job.h"

#include <cstdio>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/lab/probe_teller.h"
#include "ddl/measure/gpus.h"
#include "ddl/measure/memory.h"
#include "ddl/train/allocator.h"
#include "ddl/train/devices/cuda_library.h"
#include "ddl/train/worker.h"
#include "ddl/transport/mpi/world.h"

namespace ddl {
namespace {

/// Such a process runs one job after another, and LibTorch learns but once what devices there are: before its first.
void meet_devices() {
  static bool met = false;
  if (!std::exchange(met, true) && !cuda_library().empty() && known_gpus().missing.empty()) load_cuda_library();
}

int train(const Json& text, int rank, Control& control) {
  meet_devices();
  auto experiment = experiment_from(text.at("config"), text.at("provenance"));
  auto& job = experiment.job;
  job.launched = true;
  job.secret = text.at("secret");
  job.hosts = text.at("hosts").get<std::vector<int>>();
  job.addresses = text.at("addresses").get<std::vector<std::string>>();
  job.latency = {text.at("latency").get<double>()};
  job.forward_seconds = text.at("forward_seconds").get<std::vector<double>>();
  job.backward_seconds = text.at("backward_seconds").get<std::vector<double>>();
  for (const auto& each : text.at("measured")) job.measured.push_back({each.at("ranks"), each.at("from"), each.at("to"), each.at("algorithm")});
  if (const auto& places = text.at("places"); !places.is_null() && job.addresses.empty()) {
    job.hosts = places.at("hosts").get<std::vector<int>>();
    job.addresses = places.at("addresses").get<std::vector<std::string>>();
  }
  if (rank == 0 && parse_spec(job.transport).name == "mpi") {  // for the record: its messages
    const auto& world = MpiWorld::join({});
    std::printf("version of %s: %s\n", world.implementation().c_str(), world.library().c_str());
    std::fflush(stdout);
  }
  // Peaks are this job's, not those of one that this process ran before.
  reset_allocator_peak();
  reset_peak_resident();
  return run_worker(job, rank, open_data(experiment), control);
}

int probe(const Json& text, int rank, int ranks, Control& control) {
  ProbeSettings settings;
  settings.transport = text.at("transport");
  settings.options.secret = text.at("secret");
  settings.hosts = text.at("hosts").get<std::vector<int>>();
  settings.memory = text.at("memory");
  settings.check = text.at("check");
  settings.budget = {text.at("budget").get<double>()};
  settings.timeout = {text.at("timeout").get<double>()};
  for (const auto& each : text.at("cases")) settings.cases.push_back({goal_from_name(each.at("goal").get<std::string>()), each.at("algorithm"), each.at("bytes")});
  if (const auto& places = text.at("places"); !places.is_null() && settings.hosts.empty()) {
    settings.hosts = places.at("hosts").get<std::vector<int>>();
    settings.options.host = places.at("addresses").at(static_cast<std::size_t>(rank)).get<std::string>();
  }
  return run_probe_rank(control, settings, rank, ranks);
}

}  // namespace

Json train_job(const Experiment& experiment) {
  const auto& job = experiment.job;
  Json measured = Json::array();
  for (const auto& each : job.measured) measured.push_back({{"ranks", each.ranks}, {"from", each.from}, {"to", each.to}, {"algorithm", each.algorithm}});
  return {{"kind", "train"},  {"config", experiment.config}, {"provenance", experiment.provenance}, {"secret", job.secret},
          {"hosts", job.hosts}, {"addresses", job.addresses},  {"latency", job.latency.value},        {"measured", measured},
          {"forward_seconds", job.forward_seconds}, {"backward_seconds", job.backward_seconds}};
}

Json probe_job(const ProbeSettings& settings) {
  Json cases = Json::array();
  for (const auto& each : settings.cases) cases.push_back({{"goal", name(each.goal)}, {"algorithm", each.algorithm}, {"bytes", each.bytes}});
  return {{"kind", "probe"},
          {"transport", settings.transport},
          {"secret", settings.options.secret},
          {"hosts", settings.hosts},
          {"memory", settings.memory},
          {"check", settings.check},
          {"budget", settings.budget.value},
          {"timeout", settings.timeout.value},
          {"cases", cases}};
}

int run_rank_job(const std::string& text, int rank, int ranks, Control& control) {
  try {
    const auto job = parse_json(text, "a job");
    return job.at("kind") == "train" ? train(job, rank, control) : probe(job, rank, ranks, control);
  } catch (const Error& error) {
    tell_failure(control, error);
  } catch (const nlohmann::json::exception& error) {
    tell_failure(control, Error(Code::corrupt, fmt::format("[job] not one: {}", error.what())));
  }
  return 1;
}

}  // namespace ddl
