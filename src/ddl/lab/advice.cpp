#include "ddl/lab/advice.h"

#include <algorithm>

#include <fmt/format.h>

#include "ddl/core/spec.h"
#include "ddl/lab/config.h"
#include "ddl/train/precision.h"

namespace ddl {
namespace {

bool says(const Spec& spec, const std::string& option, const std::string& value) {
  const auto found = spec.options.find(option);
  return found != spec.options.end() && found->second == value;
}

/// The strategy as it is told, but for one option, and without another that does not go with it.
std::string with(Spec strategy, const std::string& option, const std::string& value, const std::string& without = "") {
  strategy.options[option] = value;
  strategy.options.erase(without);
  return to_string(strategy);
}

std::string larger_batch(const Job& job) { return fmt::format("more samples per worker (--batch {}, which learns differently)", job.batch * 2); }

std::string against_fabric(const Job& job, const Plan& plan, int hosts) {
  const auto& strategy = job.strategy;
  if (says(strategy, "overlap", "off")) return fmt::format("--strategy {} without overlap=off, so that gradients travel while backward runs", strategy.name);
  if (job.fabric.empty() && hosts <= 1 && job.transport.starts_with("tcp")) return "--transport shm, which does not send bytes through the kernel";
  if (strategy.name == "data" && !strategy.options.contains("compress") && !strategy.options.contains("in-process") && !scales_loss(job.precision))
    return fmt::format("--strategy {}, which sends half of the bytes", with(strategy, "compress", "fp16", says(strategy, "bucket", "auto") ? "bucket" : ""));
  if (plan.serving.servers > 0 && plan.serving.servers < plan.workers())
    return fmt::format("more servers ({}), each of which has less to receive and to give", with(strategy, "servers", std::to_string(std::min(plan.workers(), 2 * plan.serving.servers))));
  if (strategy.name == "local") return "more steps between averagings (local[every=…])";
  if (plan.micro_batches > 1 && plan.stages.size() > 1) return fmt::format("a cut where fewer bytes cross ({}[stages=…])", strategy.name);
  return larger_batch(job);
}

std::string against_latency(const Job& job, const Plan& plan) {
  const auto buckets = plan.roles.front().buckets.size();
  if (job.strategy.name == "data" && buckets > 1) return fmt::format("fewer, larger buckets than its {} (data[bucket=…])", buckets);
  if (job.strategy.name == "sharded" && buckets > 1) return "larger units (sharded[unit=…])";
  return larger_batch(job);
}

}  // namespace

std::string advice_against(LossCause cause, const Job& job, const Plan& plan, int hosts) {
  switch (cause) {
    case LossCause::fabric: return against_fabric(job, plan, hosts);
    case LossCause::latency: return against_latency(job, plan);
    case LossCause::loader:
      return job.loader_threads == 0 ? "--loader 1, which reads batches beside the steps" : fmt::format("more threads that read batches (--loader {})", job.loader_threads + 1);
    case LossCause::bubble: {
      // Of a model in parts without micro-batches there is nothing but the strategy to change.
      if (job.strategy.name == "model") return fmt::format("--strategy pipeline[micro={}]", 2 * plan.workers());
      const auto most = std::max<std::int64_t>(1, job.batch / plan.shares());
      if (plan.micro_batches >= most) return larger_batch(job);
      // Its micro-batches are whole batches (strategy/pipeline/pipedream.cpp): what is left of the bubble is unlike stages and messages.
      if (says(job.strategy, "schedule", "pipedream")) return fmt::format("a schedule that works on batches in pieces ({})", with(job.strategy, "schedule", "pipedream-2bw"));
      // A strategy's own number and the job's are one too many.
      if (job.accumulate > 1) return fmt::format("more micro-batches (--accumulate {})", std::min<std::int64_t>(most, 2 * job.accumulate));
      return fmt::format("more micro-batches ({})", with(job.strategy, "micro", std::to_string(std::min<std::int64_t>(most, 2LL * plan.micro_batches))));
    }
    case LossCause::unequal:
      // One that has no bound has nobody wait for others.
      if (plan.serving.servers > 0 && plan.serving.stale != kNone) return fmt::format("a wider bound ({}), or none (async), by which fewer wait for the slowest, and gradients are older", with(job.strategy, "stale", std::to_string(2 * plan.serving.stale + 2)));
      if (plan.stages.size() > 1) return job.strategy.options.contains("stages") ? "a cut by time (balance=time in place of stages=…)" : "a cut by hand (stages=… in the strategy)";
      // Samples of one process's replicas go by turns.
      if (job.strategy.name == "data" && !says(job.strategy, "in-process", "parallel"))
        return job.strategy.options.contains("shares") ? "other shares of the batch (data[shares=…]), which ddlbench advise finds by what each worker takes" : "more of the batch for who computes faster (data[shares=…], which ddlbench advise finds)";
      return "";
    case LossCause::contention: {
      auto workers = job.workers;
      bool fewer = false;
      for (auto& worker : workers)
        if (worker.device == "cpu" && worker.threads > 1) {
          worker.threads /= 2;
          fewer = true;
        }
      return fewer ? fmt::format("workers of fewer threads (--workers {})", to_string(workers)) : "";
    }
    case LossCause::compute:
    case LossCause::undivided: return larger_batch(job);
    case LossCause::jitter: return "";
  }
  return "";
}

}  // namespace ddl
