#include <algorithm>

#include "ddl/collective/algorithms.h"
#include "ddl/collective/compression.h"
#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/nn/builtin.h"
#include "ddl/strategy/builtin.h"
#include "ddl/train/learning_rate.h"
#include "ddl/train/optimizer.h"
#include "ddl/train/plan_job.h"
#include "ddl/train/precision.h"
#include "ddl/train/worker.h"
#include "ddl/transport/builtin.h"
#include "ddl/transport/fabric_description.h"

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

[[noreturn]] void refuse(const char* key, const std::string& message) { throw JobFault(key, Code::invalid_argument, message); }

/// How gradients come about and what becomes of them.
void check_training(const Job& job) {
  of_key("precision", [&] { return element_bytes(job.precision); });
  of_key("optimizer", [&] { return make_optimizer(job.optimizer, {}, {job.momentum, job.weight_decay})->state_tensors(); });
  // How many steps there are does not matter to whether a schedule is sound.
  of_key("learning_rate_schedule", [&] { return LearningRate(job.learning_rate_schedule, job.learning_rate, 1, 1).at(0); });
  if (const auto own = job.strategy.options.find("compress"); own != job.strategy.options.end() && own->second != "none" && scales_loss(job.precision))
    throw JobFault("precision", Code::unsupported,
                   fmt::format("unsupported: an overflow of fp16 would stay for ever in what a compression kept back; got fp16 with compress={}, "
                               "expected bf16 or fp32 with it", own->second));
  if (job.accumulate < 1 || job.accumulate > job.batch)
    refuse("accumulate", fmt::format("a batch is cut into micro-batches of one sample or more; got {} of a batch of {}, expected 1 to the batch",
                                     job.accumulate, job.batch));
}

}  // namespace

void check_job(const Job& job, const SampleShape& shape, std::int64_t samples) {
  const auto workers = static_cast<std::int64_t>(job.workers.size());
  of_key("strategy", [&] { return builtin_strategies().at(job.strategy.name); });
  of_key("transport", [&] { return choose_transport(job.transport, {}); });
  if (job.collective != "auto") of_key("collective", [&] { return choose_algorithm(Goal::all_reduce, job.collective); });
  if (const auto own = job.strategy.options.find("collective"); own != job.strategy.options.end() && own->second != "auto")
    of_key("strategy", [&] { return choose_algorithm(Goal::all_reduce, own->second); });
  if (const auto own = job.strategy.options.find("compress"); own != job.strategy.options.end())
    of_key("strategy", [&] { return choose_compression(own->second); });
  if (!job.fabric.empty()) {
    of_key("fabric", [&] { return parse_fabric(job.fabric); });
    if (parse_spec(job.transport).name != "tcp") refuse("fabric", fmt::format("a fabric carries tcp alone; got transport {}, expected tcp", job.transport));
  }
  check_training(job);
  for (const auto& worker : job.workers)
    if (worker.device != "cpu")
      throw JobFault("workers", Code::unsupported, fmt::format("unsupported: this build has no such device; got '{}', expected cpu", worker.device));
  if (job.transport == "inproc" && workers > 1)
    refuse("transport", fmt::format("inproc joins threads of one process, and workers are processes; got inproc with {} workers, "
                                    "expected shm or tcp", workers));
  if (const auto name = parse_spec(job.transport).name; name != "inproc" && workers > 1) {
    const auto standing = self_standing_transports();
    if (std::find(standing.begin(), standing.end(), name) == standing.end())
      throw JobFault("transport", Code::unsupported, fmt::format("unsupported: {} joins processes that a launcher started, and training under one is not in this "
                                                                 "version; got {}, expected shm or tcp", name, job.transport));
  }
  if (job.batch < 1) refuse("batch", fmt::format("a batch has samples; got {}, expected 1 or more", job.batch));
  if (samples > 0 && workers > samples)
    refuse("workers", fmt::format("more workers than samples; got {} workers, expected at most {}, one a sample", workers, samples));
  if (workers > job.batch)
    refuse("workers", fmt::format("more workers than samples of a batch; got {} workers, expected at most {}, the batch", workers, job.batch));
  const auto graph = of_key("model", [&] { return builtin_models().at(job.model.name).make(job.model, shape); });
  const auto plan = of_key("strategy", [&] { return plan_job(job, graph); });
  const auto findings = verify(plan, static_cast<int>(graph.parameter_specs().size()));
  if (!findings.empty()) refuse("strategy", fmt::format("the plan of '{}' is not sound: {}", job.strategy.name, join(findings, "; ")));
}

}  // namespace ddl
