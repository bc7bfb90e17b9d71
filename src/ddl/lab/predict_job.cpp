#include "ddl/lab/predict_job.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/measure/memory.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/datasheet/machine_source.h"
#include "ddl/predict/interval.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/measured/measured_machine.h"
#include "ddl/strategy/split_parts.h"
#include "ddl/train/optimizer.h"
#include "ddl/train/plan_job.h"
#include "ddl/transport/fabric_description.h"

namespace ddl {
namespace {

/// What runs of the same differ by on one machine, and what collectives are off by where they are held out of their fit (docs/machine.md), of the share of a step that they are exposed in:
/// standard deviations of the logarithm, by judgement.
constexpr double kRunToRun = 0.02, kExposed = 0.2;

/// Workers of one host, or so many a host.
MeasuredSetup setup_of(const Job& job, int per_host) {
  MeasuredSetup setup;
  setup.workers.clear();
  for (std::size_t w = 0; w < job.workers.size(); ++w) {
    if (job.workers[w].device != "cpu")
      throw Error(Code::not_found, fmt::format("[predict] what {} takes was not measured: ddlbench probe compute measures processors; got worker {} on {}, expected cpu", job.workers[w].device, w,
                                               job.workers[w].device));
    setup.workers.push_back({job.workers[w].threads, per_host > 0 ? static_cast<int>(w) / per_host : 0});
  }
  setup.network = to_string(job.model);
  setup.dataset = job.dataset;
  setup.precision = job.precision;
  setup.kernels = job.kernels;
  setup.optimizer = job.optimizer.name;
  setup.transport = job.transport;
  const auto own = job.strategy.options.find("collective");
  setup.collective = own == job.strategy.options.end() ? job.collective : own->second;
  if (!job.fabric.empty()) {
    const auto fabric = parse_fabric(job.fabric);
    setup.wire_bytes_per_s = payload_bandwidth(fabric).value / 8;
    setup.wire_latency = fabric.latency.value;
  }
  return setup;
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

bool is_measured(const Json& machine) { return machine.contains("compute") && !machine["compute"].empty(); }

JobCosts job_costs(const Job& job, const Plan& plan, const ModelGraph& part, const Json& machine, int per_node) {
  JobCosts costs;
  if (is_measured(machine)) {
    auto source = std::make_unique<MeasuredMachine>(machine, setup_of(job, per_node));
    costs.source = std::move(source);
    costs.by_worker = true;
    costs.sigma = job_sigma(costs, job, plan, part);
    // Workers of a host share its memory.
    const auto workers = static_cast<int>(job.workers.size());
    costs.memory_bytes = static_cast<double>(total_memory()) / std::max(1, per_node > 0 ? std::min(per_node, workers) : workers);
  } else {
    const auto optimizer = make_optimizer(job.optimizer, {}, {job.momentum, job.weight_decay});
    costs.source = datasheet_source(machine, job.precision, optimizer->state_tensors(), per_node);
    costs.sigma = kDatasheetSigma;
    costs.memory_bytes = term(machine, "device.memory_bytes");
  }
  return costs;
}

double job_sigma(const JobCosts& costs, const Job& job, const Plan& plan, const ModelGraph& part) {
  const auto* measured = dynamic_cast<const MeasuredMachine*>(costs.source.get());
  if (measured == nullptr) return kDatasheetSigma;
  const auto samples = (job.batch + plan.shares() - 1) / plan.shares();
  return measured->uncertainty(0, part, (samples + plan.micro_batches - 1) / plan.micro_batches);
}

Plan planned_job(const Job& job, const ModelGraph& graph) {
  auto plan = plan_job(job, graph);
  if (plan.shares() > job.batch) throw Error(Code::invalid_argument, fmt::format("more workers than samples of a batch; got {} of a batch of {}", plan.shares(), job.batch));
  // All segments but the last: counted as all.
  if (job.recompute && plan.stages.size() == 1)
    for (auto& role : plan.roles)
      for (auto& task : role.tasks) task.recompute = task.kind == TaskKind::forward;
  return plan;
}

JobPrediction predict_job(const Job& job, const ModelGraph& graph, const Json& machine, Engine engine, int per_node) {
  JobPrediction out;
  if (const auto compressed = job.strategy.options.find("compress"); compressed != job.strategy.options.end() && compressed->second != "none")
    throw Error(Code::unsupported, fmt::format("[predict] what compressing gradients takes is not measured; got compress={}, expected none", compressed->second));
  out.plan = planned_job(job, graph);
  const auto part = graph_of(out.plan, graph, 0);
  const auto costs = job_costs(job, out.plan, part, machine, per_node);
  out.step = predict_step({out.plan, part, job.strategy, job.batch, *costs.source, costs.sigma, engine, costs.by_worker});
  if (is_measured(machine) && out.step.mean.wall > 0) {
    const double exposed = (out.step.mean[Cause::communication] + out.step.mean[Cause::wait]) / out.step.mean.wall;
    std::tie(out.step.low, out.step.high) = interval_of(out.step.seconds, std::hypot(costs.sigma, kRunToRun, kExposed * exposed));
  }
  out.fits = static_cast<double>(out.step.most.total()) <= costs.memory_bytes;
  return out;
}

std::string_view name(Engine engine) { return engine == Engine::closed ? "closed" : engine == Engine::simulated ? "simulated" : "auto"; }

Json ledger_json(const Ledger& ledger) {
  Json out = Json::object();
  for (std::size_t i = 0; i < kCauses; ++i) out[std::string(name(static_cast<Cause>(i)))] = ledger.seconds[i] * 1e3;
  return out;
}

}  // namespace ddl
