#include "ddl/lab/predict_job.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/lab/follow_layers.h"
#include "ddl/measure/memory.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/datasheet/machine_source.h"
#include "ddl/predict/emulated/emulated_costs.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/measured/measured_machine.h"
#include "ddl/strategy/split_parts.h"
#include "ddl/train/emulation/machine_costs.h"
#include "ddl/train/measure_layers.h"
#include "ddl/train/plan_job.h"

namespace ddl {
namespace {

/// Of what a step's messages and collectives take, where computing takes what it is said to.
constexpr double kWireSigma = 0.05;

/// What the emulated among a job's workers compute with.
std::vector<EmulatedDevice> emulated_devices(const Job& job, double& memory) {
  std::map<std::pair<std::string, int>, std::shared_ptr<const CostSource>> known;
  std::vector<EmulatedDevice> devices;
  for (const auto& worker : job.workers) {
    auto& device = devices.emplace_back();
    if (!worker.emulated()) continue;
    auto& source = known[{worker.device, worker.threads}];
    if (!source) {
      const auto profile = emulated_profile(worker.device);
      source = emulated_costs(profile, job, worker.threads);
      if (const auto own = static_cast<double>(emulated_memory(profile)); own > 0) memory = memory > 0 ? std::min(memory, own) : own;
    }
    device = {source, worker.slow};
  }
  return devices;
}

}  // namespace

Json machine_called(const std::string& asked) {
  if (!asked.empty()) return find_machine(asked);
  const auto own = default_machine_path();
  std::error_code ignored;
  if (own.empty() || !std::filesystem::exists(own, ignored))
    throw Error(Code::not_found, "[predict] nothing was measured of this machine yet; got no --machine, expected one of ddlbench list machines, or ddlbench probe compute first");
  return read_machine(own);
}

JobCosts job_costs(const Job& job, const Plan& plan, const ModelGraph& part, const Json& machine, int per_node) {
  JobCosts costs;
  const bool all_emulated = std::all_of(job.workers.begin(), job.workers.end(), [](const WorkerSpec& worker) { return worker.emulated(); });
  costs.source = costs_on(machine, job, per_node);
  if (const auto* const measured = dynamic_cast<const MeasuredMachine*>(costs.source.get())) {
    const auto first = std::find_if(job.workers.begin(), job.workers.end(), [](const WorkerSpec& worker) { return !worker.emulated(); });
    const auto samples = (job.batch + plan.shares() - 1) / plan.shares();
    // What emulated workers compute is known.
    costs.sigma = all_emulated ? kWireSigma : measured->uncertainty(static_cast<int>(first - job.workers.begin()), part, (samples + plan.micro_batches - 1) / plan.micro_batches);
    costs.by_worker = true;
    // Workers of a host share its memory.
    const auto workers = static_cast<int>(job.workers.size());
    if (!all_emulated) costs.memory_bytes = static_cast<double>(total_memory()) / std::max(1, per_node > 0 ? std::min(per_node, workers) : workers);
  } else {
    costs.sigma = kDatasheetSigma;
    costs.memory_bytes = all_emulated ? 0 : term(machine, "device.memory_bytes");
  }
  if (!job.emulates()) return costs;
  auto devices = emulated_devices(job, costs.memory_bytes);
  costs.source = std::make_unique<EmulatedCosts>(std::move(costs.source), std::move(devices));
  costs.by_worker = true;
  if (costs.memory_bytes == 0) costs.memory_bytes = static_cast<double>(total_memory());
  return costs;
}

JobPrediction predict_job(const Job& job, const ModelGraph& graph, const Json& machine, Engine engine, int per_node) {
  JobPrediction out;
  auto own = job;
  // As a run cuts it. What is measured before one is not known here.
  if (job.workers.front().emulated() && cuts_by_time(job)) follow_profile(own, graph);
  out.plan = plan_job(own, graph);
  if (out.plan.shares() > job.batch) throw Error(Code::invalid_argument, fmt::format("more workers than samples of a batch; got {} of a batch of {}", out.plan.shares(), job.batch));
  const auto part = graph_of(out.plan, graph, 0);
  const auto costs = job_costs(job, out.plan, part, machine, per_node);
  out.step = predict_step({out.plan, part, job.strategy, job.batch, *costs.source, costs.sigma, engine, costs.by_worker});
  out.fits = static_cast<double>(out.step.most.total()) <= costs.memory_bytes;
  return out;
}

}  // namespace ddl
