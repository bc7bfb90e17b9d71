#include "ddl/train/check_job.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "ddl/collective/algorithms.h"
#include "ddl/collective/compression.h"
#include "ddl/collective/native.h"
#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/core/units.h"
#include "ddl/measure/memory.h"
#include "ddl/nn/model.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/split_parts.h"
#include "ddl/train/device_list.h"
#include "ddl/train/emulation/machine_costs.h"
#include "ddl/train/learning_rate.h"
#include "ddl/train/optimizer.h"
#include "ddl/train/parameter_shards.h"
#include "ddl/train/plan_job.h"
#include "ddl/train/precision.h"
#include "ddl/transport/builtin.h"
#include "ddl/transport/fabric_description.h"
#include "ddl/transport/mpi/implementations.h"

namespace ddl {
namespace {

/// An error of `body` is one of `key`.
template <typename Body>
auto of_key(const char* key, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw JobFault(key, error.code(), error.what());
  }
}

/// An algorithm of ours, or the library's own where the transport has one.
void check_collective(const Job& job, const std::string& word) {
  if (word == "auto") return;
  if (!parse_native(Goal::all_reduce, word)) {
    choose_algorithm(Goal::all_reduce, word);
    return;
  }
  if (const auto name = parse_spec(job.transport).name; name != "mpi")
    throw Error(Code::invalid_argument, fmt::format("native is the all-reduce of a transport's library, and {} has none; got {}, expected transport mpi", name, word));
}

[[noreturn]] void refuse(const char* key, const std::string& message) { throw JobFault(key, Code::invalid_argument, message); }

/// What reduce-scatters and all-gathers, too.
void check_collective_of_parts(const std::string& word) {
  if (word != "auto" && word != "ring" && word != "direct")
    throw Error(Code::invalid_argument, fmt::format("parts are reduce-scattered and all-gathered; got {}, expected auto, ring or direct", word));
}

/// Workers that are threads of one process share its memory, and what it has one of.
void check_in_process(const Job& job) {
  const auto got = to_string(job.strategy);
  if (job.workers.size() > 1 && job.transport != "inproc")
    refuse("transport", fmt::format("its workers are threads of one process, which inproc joins, and no other machine's or process's; got {} with {}, expected transport inproc, or {} "
                                    "without in-process", job.transport, got, job.strategy.name));
  if (job.workers.size() > 1 && is_script(job.model.name))
    throw JobFault("strategy", Code::unsupported, fmt::format("unsupported: a TorchScript file draws from the one generator of a process, in whatever order its threads come; got {}, expected "
                                                              "workers that are processes", got));
}

/// How gradients come about, are exchanged, and what becomes of them.
void check_training(const Job& job) {
  of_key("precision", [&] { return element_bytes(job.precision); });
  of_key("optimizer", [&] { return make_optimizer(job.optimizer, {}, {job.momentum, job.weight_decay})->state_tensors(); });
  // How many steps there are does not matter to whether a schedule is sound.
  of_key("learning_rate_schedule", [&] { return LearningRate(job.learning_rate_schedule, job.learning_rate, 1, 1).at(0); });
  if (const auto own = job.strategy.options.find("compress"); own != job.strategy.options.end() && own->second != "none" && scales_loss(job.precision))
    throw JobFault("precision", Code::unsupported,
                   fmt::format("unsupported: an overflow of fp16 would stay for ever in what a compression kept back; got fp16 with compress={}, "
                               "expected bf16 or fp32 with it", own->second));
  if (job.strategy.name == "parameter-server") {
    const auto refuse_whole = [](const char* key, const std::string& got, const char* expected) {
      throw JobFault(key, Code::unsupported, fmt::format("unsupported: it depends on the whole gradient, of which each server of parameters, synchronous or not, has a part; got {} with "
                                                         "parameter-server, expected {} with it, or strategy data", got, expected));
    };
    if (job.collective != "auto")
      refuse("collective", fmt::format("workers and servers exchange messages, and no collective; got {} with parameter-server, expected auto, or strategy data", job.collective));
    if (job.clip > 0) refuse_whole("clip", fmt::format("clip {}", job.clip), "no clip");
    if (scales_loss(job.precision)) refuse_whole("precision", job.precision, "fp32, bf16, tf32 or fp64");
  }
  if (job.accumulate < 1 || job.accumulate > job.batch)
    refuse("accumulate", fmt::format("a batch is cut into micro-batches of one sample or more; got {} of a batch of {}, expected 1 to the batch",
                                     job.accumulate, job.batch));
}

/// An emulated worker holds on the host little of what its device would: by its plan, and what the profile says there is.
void check_emulated_memory(const Job& job, const ModelGraph& graph, const Plan& plan) {
  if (job.memory_limit > 0) return;  // that is what there is
  const auto all = holdings_by_worker(job, graph, plan);
  std::map<std::pair<std::string, std::string>, std::int64_t> memory;
  for (int w = 0; w < plan.workers(); ++w) {
    const auto& worker = job.workers[static_cast<std::size_t>(w)];
    if (!worker.emulated()) continue;
    const auto [place, unknown] = memory.try_emplace({worker.device, worker.stands_for}, 0);
    if (unknown) place->second = emulated_memory(emulated_profile(worker.device), worker);
    const auto& holds = all[static_cast<std::size_t>(w)];
    if (place->second > 0 && holds.total() > place->second)
      refuse("workers", fmt::format("out of memory: rank {} on {} is planned to hold {} ({}), there is {}; a smaller batch, recompute, another strategy (sharded, tensor and pipelines hold parts) or a device with more would do", w,
                                    worker.device, to_string(Bytes{holds.total()}), to_string(holds), to_string(Bytes{place->second})));
  }
}

/// That the profiles know all that the job's workers compute.
void check_emulated_costs(const Job& job, const Plan& plan, const ModelGraph& graph) {
  std::set<std::tuple<std::string, int, std::string>> known;
  for (int w = 0; w < plan.workers(); ++w) {
    const auto& worker = job.workers[static_cast<std::size_t>(w)];
    if (!worker.emulated() || !known.emplace(worker.device, worker.threads, worker.stands_for).second) continue;
    const auto source = emulated_costs(job, w);
    const auto part = graph_of(plan, graph, w);
    for (std::size_t layer = 0; layer < part.layers.size(); ++layer) source->layer(w, part, layer, 1);
    source->loss(w, part, 1);
    source->update(w, 1);
    source->copy(w, 1);
  }
}

}  // namespace

void check_plan(const Job& job, const ModelGraph& graph, const Plan& plan) {
  if (job.emulates()) check_emulated_memory(job, graph, plan);
  const bool on_host = parse_device(job.workers.front().device).kind == "cpu";
  // A GPU's memory is not asked for here: that would make the coordinator a process that uses it.
  const auto limit = job.memory_limit > 0 ? job.memory_limit : on_host ? total_memory() : 0;
  std::int64_t together = 0;
  for (const auto& role : plan.roles) together += role.count * role.holds.total();
  const auto* const advice = "; a smaller batch, recompute, another strategy (sharded, tensor and pipelines hold parts) or fewer workers hold less";
  const bool fits = limit == 0 || std::all_of(plan.roles.begin(), plan.roles.end(), [&](const Role& role) { return role.holds.total() <= limit; });
  if (const auto findings = verify(plan, static_cast<int>(graph.parameter_specs().size()), limit); !findings.empty()) {
    if (fits) refuse("strategy", fmt::format("the plan of '{}' is not sound: {}", job.strategy.name, join(findings, "; ")));
    refuse("memory_limit", fmt::format("the plan of '{}' does not fit: {}{}", job.strategy.name, join(findings, "; "), advice));
  }
  if (job.memory_limit == 0 && on_host && job.transport != "mpi" && together > limit)
    refuse("memory_limit", fmt::format("the plan of '{}' does not fit: {} workers hold {} together, more than this machine's {}{}", job.strategy.name, job.workers.size(),
                                       to_string(Bytes{together}), to_string(Bytes{limit}), advice));
}

bool trains_over(const std::string& transport) {
  const auto standing = self_standing_transports();
  const auto name = parse_spec(transport).name;
  return name == "mpi" || std::find(standing.begin(), standing.end(), name) != standing.end();
}

bool parts_have_a_place(const Job& job, const Plan& plan) {
  return std::none_of(job.workers.begin(), job.workers.end(), [](const WorkerSpec& worker) { return parse_device(worker.device).kind == "cuda"; }) || !ParameterShards::needed(plan, 0);
}

void check_way(const Job& job) {
  of_key("collective", [&] { check_collective(job, job.collective); });
  if (const auto own = job.strategy.options.find("collective"); own != job.strategy.options.end())
    of_key("strategy", [&] { check_collective(job, own->second); });
  if (job.strategy.name == "sharded") {
    const auto own = job.strategy.options.find("collective");
    own == job.strategy.options.end() ? of_key("collective", [&] { check_collective_of_parts(job.collective); }) : of_key("strategy", [&] { check_collective_of_parts(own->second); });
  }
  if (const auto own = job.strategy.options.find("compress"); own != job.strategy.options.end())
    of_key("strategy", [&] { return choose_compression(own->second); });
  check_training(job);
  if (is_in_process(job)) check_in_process(job);
}

void check_job(const Job& job, const SampleShape& shape, std::int64_t samples) {
  const auto workers = static_cast<std::int64_t>(job.workers.size());
  constexpr int kMostThatRun = 4096;
  if (workers > kMostThatRun) refuse("workers", fmt::format("too many to run; got {}, expected at most {} (ddlbench predict goes on)", workers, kMostThatRun));
  of_key("strategy", [&] { return builtin_strategies().at(job.strategy.name); });
  of_key("transport", [&] { return choose_transport(job.transport, {}); });
  check_way(job);
  if (!job.fabric.empty()) {
    const auto fabric = of_key("fabric", [&] { return parse_fabric(job.fabric); });
    const auto name = parse_spec(job.transport).name;
    if (name != "tcp" && name != "mpi") refuse("fabric", fmt::format("a fabric carries tcp and mpi; got transport {}, expected tcp or mpi", job.transport));
    if (name == "mpi" && fabric.latency.value > 0)
      refuse("fabric", fmt::format("latency is added by our tcp alone; got latency={} with transport {}, expected none", to_string(fabric.latency), job.transport));
  }
  for (const auto& worker : job.workers) {
    of_key("workers", [&] { return require_device(worker.device), 0; });
    of_key("precision", [&] { return require_precision(worker.device, job.precision), 0; });
  }
  // Of replicas of which some are emulated none mean anything.
  const auto kind = parse_device(job.workers.front().device).kind;
  for (const auto& worker : job.workers)
    if (const auto other = parse_device(worker.device).kind; other != kind && !job.emulates())
      throw JobFault("workers", Code::unsupported, fmt::format("unsupported: replicas on {} and {} round their updates differently and drift apart; got both, expected workers of one "
                                                               "kind", kind, other));
  if (job.transport == "inproc" && workers > 1 && !is_in_process(job))
    refuse("transport", fmt::format("inproc joins threads of one process, and workers are processes; got inproc with {} workers, "
                                    "expected shm or tcp, or strategy data[in-process=mirrored] or data[in-process=parallel]", workers));
  if (is_in_process(job) && job.emulates() && !std::all_of(job.workers.begin(), job.workers.end(), [](const WorkerSpec& worker) { return worker.emulated(); }))
    throw JobFault("workers", Code::unsupported, fmt::format("unsupported: threads of one process are emulated all or none; got {} with others, expected workers of one kind", to_string(job.strategy)));
  if (const auto name = parse_spec(job.transport).name; name != "inproc" && workers > 1) {
    if (name == "mpi") of_key("transport", [&] { return choose_mpi(choose_transport(job.transport, {}).options.implementation); });
    if (!trains_over(job.transport))
      throw JobFault("transport", Code::unsupported, fmt::format("unsupported: training over {} is not in this version; got {}, expected shm, tcp or mpi", name,
                                                                 job.transport));
  }
  if (job.batch < 1) refuse("batch", fmt::format("a batch has samples; got {}, expected 1 or more", job.batch));
  const auto graph = of_key("model", [&] { return make_model(job.model, shape); });
  if (job.recompute && is_script(job.model.name))
    throw JobFault("recompute", Code::unsupported, fmt::format("unsupported: a TorchScript file is one layer, with no parts to compute again; got recompute with {}, "
                                                               "expected a network of layers", job.model.name));
  const auto plan = of_key("strategy", [&] { return plan_job(job, graph); });
  if (!parts_have_a_place(job, plan))
    throw JobFault("strategy", Code::unsupported, fmt::format("unsupported: parameters in parts on devices with memory of their own are not in this version; got {} on {}, expected workers on cpu, "
                                                              "or a strategy without shards", job.strategy.name, kind));
  const auto shares = plan.shares();
  if (samples > 0 && shares > samples)
    refuse("workers", fmt::format("more workers than samples; got {} workers, expected at most {}, one a sample", shares, samples));
  if (shares > job.batch)
    refuse("workers", fmt::format("more workers than samples of a batch; got {} workers, expected at most {}, the batch", shares, job.batch));
  if (job.emulates()) of_key("workers", [&] { check_emulated_costs(job, plan, graph); });
  check_plan(job, graph, plan);
}

}  // namespace ddl
