#include "ddl/train/emulation/machine_costs.h"

#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/datasheet/machine_source.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/measured/measured_machine.h"
#include "ddl/train/job_network.h"
#include "ddl/train/optimizer.h"
#include "ddl/train/precision.h"
#include "ddl/transport/fabric_description.h"

namespace ddl {
namespace {

constexpr std::string_view kKind = "emulated:";

/// As the executor does (Executor::needs_whole_gradient()).
bool judges_gradient(const Job& job) { return job.clip > 0 || scales_loss(job.precision); }

/// How it is trained; without its workers.
MeasuredSetup setup_of(const Job& job, int per_node) {
  MeasuredSetup setup;
  setup.workers.clear();
  setup.network = to_string(job.model);
  setup.dataset = job.dataset;
  setup.made_up = job.synthetic;
  setup.precision = job.precision;
  setup.kernels = job.kernels;
  setup.graphs = wants_graphs(job);
  setup.optimizer = to_string(job.optimizer);
  setup.judges_gradient = judges_gradient(job);
  setup.strategy = to_string(job.strategy);
  setup.transport = job.transport;
  setup.collective = collective_of(job);
  if (!job.fabric.empty()) {
    const auto fabric = parse_fabric(job.fabric);
    setup.wire_bytes_per_s = payload_bandwidth(fabric).value / 8;
    setup.wire_latency = fabric.latency.value;
    const auto ranks = static_cast<int>(job.workers.size());
    for (int rank = 0; rank < ranks; ++rank) setup.wire_hosts.push_back(per_node > 0 ? rank / per_node : host_of(rank, ranks, fabric.hosts));
  }
  return setup;
}

/// A datasheet is of one kind of device, whatever computes here; of several kinds it cannot speak.
void check_kinds(const Json& machine, const Job& job) {
  std::set<std::string> kinds;
  for (const auto& worker : job.workers)
    if (!worker.emulated()) kinds.insert(worker.device.substr(0, worker.device.find(':')));
  if (kinds.size() > 1)
    throw Error(Code::invalid_argument, fmt::format("[predict] {} is one kind of device; got workers of {}, expected one kind, or emulated:PROFILE for each", machine.value("name", "?"), join(std::vector(kinds.begin(), kinds.end()), " and ")));
  if (kinds.contains("cuda") && machine.at("device").value("kind", "") == "cpu")
    throw Error(Code::invalid_argument, fmt::format("[predict] {} is a processor; got workers of cuda, expected cpu", machine.value("name", "?")));
}

/// Whose entries of a measured profile an emulated worker has.
std::string kind_of(const Json& profile, const WorkerSpec& worker) {
  std::set<std::string> kinds;
  for (const auto& entry : entries(profile, "compute")) kinds.insert(entry.value("device", "cpu"));
  const auto known = std::vector(kinds.begin(), kinds.end());
  if (!worker.stands_for.empty()) {
    if (kinds.contains(worker.stands_for)) return worker.stands_for;
    throw Error(Code::invalid_argument, fmt::format("[emulated] {} has no layers of such a device; got device={}, expected {}, or what ddlbench probe compute --device {} adds", worker.device, worker.stands_for, join(known, " or "), worker.stands_for));
  }
  if (kinds.size() > 1)
    throw Error(Code::invalid_argument, fmt::format("[emulated] {} has layers of {}; got no device, expected one of them, as in {}[device={}]", worker.device, join(known, " and "), worker.device, known.back()));
  return known.front();
}

std::unique_ptr<CostSource> by_datasheet(const Json& machine, const Job& job, int per_node) {
  if (const auto nodes = static_cast<std::size_t>(term_or(machine, "node.count", 0)); nodes > 0) {
    const auto room = nodes * (per_node > 0 ? static_cast<std::size_t>(per_node) : static_cast<std::size_t>(term(machine, "node.devices")));
    if (job.workers.size() > room) throw Error(Code::invalid_argument, fmt::format("[predict] more workers than {} has devices; got {} workers, expected at most {} ({} nodes of {})", machine.value("name", "?"), job.workers.size(), room, nodes, room / nodes));
  }
  const auto optimizer = make_optimizer(job.optimizer, {}, {job.momentum, job.weight_decay});
  return datasheet_source(machine, job.precision, optimizer->state_tensors(), per_node, judges_gradient(job));
}

}  // namespace

std::string collective_of(const Job& job) {
  const auto own = job.strategy.options.find("collective");
  return own == job.strategy.options.end() ? job.collective : own->second;
}

Json emulated_profile(const std::string& device) {
  invariant(device.starts_with(kKind), "the profile of an emulated device");
  auto profile = find_machine(device.substr(kKind.size()));
  if (!is_measured(profile) && !is_datasheet(profile))
    throw Error(Code::not_found, fmt::format("[emulated] the profile says nothing of what layers take; got {}, expected a datasheet's (ddlbench list machines), or one that ddlbench probe compute wrote", device));
  return profile;
}

std::unique_ptr<CostSource> costs_on(const Json& machine, const Job& job, int per_node) {
  if (is_datasheet(machine)) {
    check_kinds(machine, job);
    return by_datasheet(machine, job, per_node);
  }
  auto setup = setup_of(job, per_node);
  for (std::size_t w = 0; w < job.workers.size(); ++w) {
    const auto& worker = job.workers[w];
    setup.workers.push_back({worker.threads, per_node > 0 ? static_cast<int>(w) / per_node : 0, !worker.emulated(), worker.emulated() ? 1 : worker.slow, worker.emulated() ? "cpu" : worker.device});
  }
  return std::make_unique<MeasuredMachine>(machine, std::move(setup));
}

std::shared_ptr<const CostSource> emulated_costs(const Json& profile, const Job& job, const WorkerSpec& worker) {
  if (!is_measured(profile)) return by_datasheet(profile, job, 0);
  auto setup = setup_of(job, 0);
  MeasuredWorker stands_for{worker.threads};
  stands_for.device = kind_of(profile, worker);
  setup.workers.assign(job.workers.size(), stands_for);
  return std::make_shared<MeasuredMachine>(profile, std::move(setup));
}

std::shared_ptr<const CostSource> emulated_costs(const Job& job, int worker) {
  const auto& own = job.workers.at(static_cast<std::size_t>(worker));
  return emulated_costs(emulated_profile(own.device), job, own);
}

std::int64_t emulated_memory(const Json& profile, const WorkerSpec& worker) {
  if (is_measured(profile))
    if (const auto kind = kind_of(profile, worker); kind != "cpu") {
      // What a profile of a machine says of memory besides is the host's.
      for (const auto& entry : entries(profile, "launch"))
        if (entry.value("device", "") == kind && entry.value("memory_bytes", Json()).is_number()) return entry["memory_bytes"].get<std::int64_t>();
      return 0;
    }
  return static_cast<std::int64_t>(term_or(profile, "device.memory_bytes", 0));
}

bool emulates_gpu(const Json& profile, const WorkerSpec& worker) {
  return (is_measured(profile) ? kind_of(profile, worker) : profile.value("device", Json::object()).value("kind", std::string("gpu"))) != "cpu";
}

NetworkSeconds profile_seconds(const Job& job, int worker, const ModelGraph& graph, std::int64_t samples) {
  auto found = layer_seconds(*emulated_costs(job, worker), worker, graph, samples);
  const double slow = job.workers.at(static_cast<std::size_t>(worker)).slow;
  for (auto& each : found.forward) each *= slow;
  for (auto& each : found.backward) each *= slow;
  return found;
}

}  // namespace ddl
