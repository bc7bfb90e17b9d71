#include <algorithm>

#include "ddl/collective/communicator.h"
#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/nn/builtin.h"
#include "ddl/strategy/builtin.h"
#include "ddl/train/precision.h"
#include "ddl/train/worker.h"
#include "ddl/transport/builtin.h"

namespace ddl {

void check_job(const Job& job, const DatasetPair& data) {
  const auto workers = static_cast<std::int64_t>(job.workers.size());
  const auto& strategy = builtin_strategies().at(job.strategy.name);
  builtin_transports().at(job.transport);
  auto collective = job.collective;
  if (const auto own = job.strategy.options.find("collective"); own != job.strategy.options.end()) collective = own->second;
  if (collective != "auto" && builtin_collectives().at(collective).make.goal != Goal::all_reduce)
    throw Error(Code::invalid_argument, fmt::format("[job] collective must be an all-reduce; got '{}'", collective));
  const auto bytes = element_bytes(job.precision);
  for (const auto& worker : job.workers)
    if (worker.device != "cpu")
      throw Error(Code::unsupported, fmt::format("[job] unsupported: device '{}' is not in this build; expected cpu", worker.device));
  if (job.transport == "inproc" && workers > 1)
    throw Error(Code::invalid_argument, "[job] transport inproc joins threads of one process; workers are processes: use shm or tcp");
  if (job.batch < 1) throw Error(Code::invalid_argument, fmt::format("[job] batch must be positive; got {}", job.batch));
  if (workers > data.train->size())
    throw Error(Code::invalid_argument,
                fmt::format("[job] more workers than samples; got {} workers, {} samples", workers, data.train->size()));
  if (workers > job.batch)
    throw Error(Code::invalid_argument,
                fmt::format("[job] more workers than samples of a batch; got {} workers, batch {}", workers, job.batch));
  const auto graph = builtin_models().at(job.model.name).make(job.model, data.train->shape());
  const auto plan = strategy.make({graph, static_cast<int>(workers), (job.batch + workers - 1) / workers, bytes, job.strategy, {}});
  const auto findings = verify(plan, static_cast<int>(graph.parameter_specs().size()));
  if (!findings.empty())
    throw Error(Code::invalid_argument, fmt::format("[job] the plan of '{}' is not sound: {}", job.strategy.name, join(findings, "; ")));
}

}  // namespace ddl
