#include "ddl/lab/predict_job.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <map>
#include <system_error>
#include <tuple>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/core/units.h"
#include "ddl/lab/beyond.h"
#include "ddl/lab/job_interval.h"
#include "ddl/lab/real_worker.h"
#include "ddl/measure/memory.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/datasheet/machine_layout.h"
#include "ddl/predict/datasheet/machine_source.h"
#include "ddl/predict/emulated/emulated_costs.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/measured/measured_machine.h"
#include "ddl/strategy/bucketing.h"
#include "ddl/strategy/split_parts.h"
#include "ddl/train/device_list.h"
#include "ddl/train/emulation/machine_costs.h"
#include "ddl/train/graphable.h"
#include "ddl/train/job_passes.h"
#include "ddl/train/measure_layers.h"
#include "ddl/train/plan_job.h"
#include "ddl/train/precision.h"

namespace ddl {
namespace {

/// What the emulated among a job's workers compute with; `memory`, `gpus`: by worker, what their profiles say there is, and what they are, written over what is there.
std::vector<EmulatedDevice> emulated_devices(const Job& job, std::vector<double>& memory, std::vector<bool>& gpus) {
  struct Known {
    std::shared_ptr<const CostSource> source;
    double memory = 0;
    bool gpu = false;
  };
  std::map<std::tuple<std::string, int, std::string>, Known> known;
  std::vector<EmulatedDevice> devices;
  for (std::size_t w = 0; w < job.workers.size(); ++w) {
    const auto& worker = job.workers[w];
    auto& device = devices.emplace_back();
    device.slow = worker.slow;
    if (!worker.emulated()) continue;
    auto& own = known[{worker.device, worker.threads, worker.stands_for}];
    if (!own.source) {
      const auto profile = emulated_profile(worker.device);
      own = {emulated_costs(profile, job, worker), static_cast<double>(emulated_memory(profile, worker)), emulates_gpu(profile, worker)};
    }
    device = {own.source, worker.slow};
    memory[w] = own.memory > 0 ? own.memory : static_cast<double>(total_memory());
    gpus[w] = own.gpu;
  }
  return devices;
}

/// Of a GPU that was measured, what drivers and kernels leave of it. Errors: not_found, naming the probe.
double gpu_memory(const Json& machine, const std::string& device) {
  const auto kind = parse_device(device).kind;
  for (const auto& entry : entries(machine, "launch"))
    if (entry.value("device", "") == kind && entry.value("memory_bytes", Json()).is_number()) return entry["memory_bytes"].get<double>() - context_bytes(machine);
  throw Error(Code::not_found, fmt::format("[predict] how much memory {} has was not measured; run ddlbench probe compute --device {}", device, kind));
}

}  // namespace

Json machine_called(const std::string& asked) {
  if (!asked.empty()) return machine_laid_out(asked);
  const auto own = default_machine_path();
  std::error_code ignored;
  if (own.empty() || !std::filesystem::exists(own, ignored))
    throw Error(Code::not_found, "[predict] nothing was measured of this machine yet; got no --machine, expected one of ddlbench list machines, or ddlbench probe compute first");
  return read_machine(own);
}

JobCosts job_costs(const Job& job, const Json& machine, int per_node) {
  JobCosts costs;
  costs.per_node = per_node;
  costs.source = costs_on(machine, job, per_node);
  costs.measured = dynamic_cast<const MeasuredMachine*>(costs.source.get());
  const bool own_pace = job.emulates() || std::any_of(job.workers.begin(), job.workers.end(), [](const WorkerSpec& worker) { return worker.slow != 1; });
  costs.by_worker = costs.measured != nullptr || own_pace;
  costs.unlike = std::any_of(job.workers.begin(), job.workers.end(), [&](const WorkerSpec& worker) { return !worker.like(job.workers.front()); });
  const bool all_emulated = std::all_of(job.workers.begin(), job.workers.end(), [](const WorkerSpec& worker) { return worker.emulated(); });
  // Workers of a host share its memory.
  const auto workers = static_cast<int>(job.workers.size());
  const double own = all_emulated                ? 0
                     : costs.measured != nullptr ? term_or(machine, "device.memory_bytes", static_cast<double>(total_memory())) / std::max(1, per_node > 0 ? std::min(per_node, workers) : workers)
                                                 : term(machine, "device.memory_bytes") - context_bytes(machine);
  costs.memory_of.assign(job.workers.size(), own);
  for (const auto& worker : job.workers) costs.gpus.push_back(worker.device != "cpu");
  for (std::size_t w = 0; w < job.workers.size() && costs.measured != nullptr; ++w) {
    const auto& device = job.workers[w].device;
    if (device == "cpu" || job.workers[w].emulated()) continue;
    const auto shared = std::count_if(job.workers.begin(), job.workers.end(), [&](const WorkerSpec& other) { return other.device == device; });
    costs.memory_of[w] = gpu_memory(machine, device) / static_cast<double>(shared);
  }
  if (job.memory_limit > 0)
    for (auto& each : costs.memory_of) each = std::min(each > 0 ? each : static_cast<double>(job.memory_limit), static_cast<double>(job.memory_limit));
  if (own_pace) {
    auto devices = emulated_devices(job, costs.memory_of, costs.gpus);
    for (const auto& device : devices) costs.stands_for.push_back(dynamic_cast<const MeasuredMachine*>(device.profile.get()));
    costs.source = std::make_unique<EmulatedCosts>(std::move(costs.source), std::move(devices));
  }
  costs.memory_bytes = *std::min_element(costs.memory_of.begin(), costs.memory_of.end());
  return costs;
}

Job job_on(Job job, const ModelGraph& graph, const Json& machine) {
  job.multiplies_bf16 = multiplies_bf16_there(machine);
  const auto on_gpu = [](const WorkerSpec& worker) { return worker.device.starts_with("cuda"); };
  if (!is_measured(machine)) {
    // What tensors take there goes by the kernels of a GPU, not by ours of a processor. Of workers of both kinds a datasheet cannot speak, which whoever prices them says.
    const bool gpu = machine.value("device", Json::object()).value("kind", "cpu") != "cpu" && std::none_of(job.workers.begin(), job.workers.end(), on_gpu);
    for (auto& worker : job.workers)
      if (gpu && worker.device == "cpu") worker.device = "cuda:0";
    return job;
  }
  if (wants_graphs(job) && (std::none_of(job.workers.begin(), job.workers.end(), on_gpu) || !why_no_pass_graphs(plan_job(job, graph), 0, graph).empty())) job.graphs = "off";
  return job;
}

Plan planned_job(const Job& job, const ModelGraph& graph, const CostSource& source) {
  // Neither what it computes is known, nor did anybody measure it layer by layer.
  require_known_layers(graph, "predict");
  auto own = job;
  // As a run cuts it, which measures each layer by itself.
  if (cuts_by_time(job) && job.forward_seconds.empty()) {
    auto layers = layer_seconds(source, 0, graph, largest_pass(job, plan_job(job, graph)));
    own.forward_seconds = std::move(layers.forward);
    own.backward_seconds = std::move(layers.backward);
  }
  auto plan = plan_job(own, graph);
  if (plan.shares() > job.batch) throw Error(Code::invalid_argument, fmt::format("more workers than samples of a batch; got {} of a batch of {}", plan.shares(), job.batch));
  // All segments but the last: counted as all.
  if (job.recompute && plan.stages.size() == 1)
    for (auto& role : plan.roles)
      for (auto& task : role.tasks) task.recompute = task.kind == TaskKind::forward;
  return plan;
}

namespace {

JobPrediction predict_as_said(const Job& asked, const ModelGraph& graph, const Json& machine, Engine engine, int per_node, const StoredSamples& stored) {
  JobPrediction out;
  const auto job = job_on(asked, graph, machine);
  const auto costs = job_costs(job, machine, per_node);
  out.plan = planned_job(job, graph, *costs.source);
  const auto part = graph_of(out.plan, graph, 0);
  out.step = predict_step({out.plan, part, job.strategy, job.batch, *costs.source, 0, engine, costs.by_worker, loading_of(job, machine, stored, per_node), costs.unlike});
  const auto beyond = beyond_known(job, out.plan, part, costs, machine, stored, out.step);
  out.beyond = beyond.words;
  const auto interval = job_interval(job, out.plan, part, costs, beyond, out.step);
  out.step.low = interval.low;
  out.step.high = interval.high;
  out.waited = waited(job, out.plan, costs);
  out.links = job_links(job, out.plan, part, machine, per_node);
  out.memory = job_memory(job, graph, out.plan, costs, out.step);
  return out;
}

}  // namespace

JobPrediction predict_job(const Job& job, const ModelGraph& graph, const Json& machine, Engine engine, int per_node, const StoredSamples& stored) {
  // One worker alone exchanges nothing.
  if (!tunes_buckets(job.strategy) || job.workers.size() == 1) return predict_as_said(job, graph, machine, engine, per_node, stored);
  plan_job(job, graph);  // refuses auto where a run would
  const auto with = [&](const Bucketing& way) {
    auto own = job;
    own.strategy = with_bucketing(own.strategy, way);
    auto found = predict_as_said(own, graph, machine, engine, per_node, stored);
    found.tuned = way;
    return found;
  };
  // As a run does, which tries them all and takes the fastest.
  const auto ways = bucketings(job.strategy, graph.parameters() * element_bytes(job.precision));
  auto fastest = with(ways.front());
  const double enough = (1 - kBetterBucket) * fastest.step.seconds;
  for (auto way = ways.begin() + 1; way != ways.end(); ++way)
    if (auto found = with(*way); found.step.seconds < std::min(enough, fastest.step.seconds)) fastest = std::move(found);
  return fastest;
}

std::string waited_words(double waited) {
  if (waited <= kBesideOthers) return "";
  return fmt::format("the profile was measured while others had the cores {:.0f} % of the time: the interval is wider for it; measure again when nothing else runs", 100 * waited);
}

std::string_view name(Engine engine) { return engine == Engine::closed ? "closed" : engine == Engine::simulated ? "simulated" : "auto"; }

Json ledger_json(const Ledger& ledger) {
  Json out = Json::object();
  for (std::size_t i = 0; i < kCauses; ++i) out[std::string(name(static_cast<Cause>(i)))] = ledger.seconds[i] * 1e3;
  return out;
}

}  // namespace ddl
