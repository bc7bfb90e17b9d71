#include "ddl/lab/real_worker.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "ddl/predict/measured/measured_machine.h"
#include "ddl/strategy/batch_shares.h"

namespace ddl {

std::int64_t samples_of(const Job& job, const Plan& plan, int worker) {
  const auto batch = samples_of_share(job.strategy, job.batch, plan.shares(), plan.share_of(worker)), parts = std::int64_t{plan.micro_batches};
  return (batch + parts - 1) / parts;
}

std::vector<RealWorker> real_workers(const Job& job, const Plan& plan, const MeasuredMachine& machine) {
  // Counted once: of each worker anew is the square of their number.
  std::map<std::pair<int, std::string>, std::int64_t> computing;
  for (int worker = 0; worker < static_cast<int>(job.workers.size()); ++worker)
    if (const auto& own = machine.worker(worker); own.computes) ++computing[{own.host, own.kind()}];
  std::vector<RealWorker> found;
  std::set<std::tuple<std::string, int, std::int64_t, std::int64_t>> sorts;
  for (int worker = 0; worker < static_cast<int>(job.workers.size()); ++worker) {
    const auto& own = job.workers[static_cast<std::size_t>(worker)];
    if (own.emulated()) continue;
    const auto samples = samples_of(job, plan, worker);
    const auto& measured = machine.worker(worker);
    if (sorts.insert({measured.kind(), own.threads, samples, computing[{measured.host, measured.kind()}]}).second) found.push_back({worker, samples});
  }
  return found;
}

double waited(const Job& job, const Plan& plan, const JobCosts& costs) {
  double most = 0;
  if (costs.measured != nullptr)
    for (const auto& worker : real_workers(job, plan, *costs.measured)) most = std::max(most, costs.measured->waited(worker.number));
  return most;
}

}  // namespace ddl
