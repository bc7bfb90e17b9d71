#include <algorithm>

#include "ddl/predict/closed/terms.h"

namespace ddl {

PricedStep price_servers(const std::vector<WorkerTerms>& workers, const std::vector<ServerTerm>& servers, int micro_batches) {
  const double m = micro_batches;
  const auto passes = [&](const WorkerTerms& own) { return own.load + m * own.pass(); };
  std::vector<double> answered;  // by server: when it has updated what all pushed
  for (const auto& server : servers) {
    double all = 0;
    for (std::size_t r = 0; r < workers.size(); ++r)
      all = std::max(all, passes(workers[r]) - (1 - server.ready[r]) * (workers[r].backward + workers[r].exchange_backward) + server.push[r]);
    answered.push_back(all + server.update);
  }
  PricedStep out;
  for (std::size_t r = 0; r < workers.size(); ++r) {
    const auto& own = workers[r];
    double end = passes(own);
    for (std::size_t s = 0; s < servers.size(); ++s) end = std::max(end, std::max(answered[s], passes(own)) + servers[s].pull[r]) + servers[s].take[r];
    out.seconds = std::max({out.seconds, end + own.harness, own.loader});
  }
  for (std::size_t r = 0; r < workers.size(); ++r) {
    const auto& own = workers[r];
    Ledger ledger;
    ledger[Cause::load] = own.load;
    ledger[Cause::forward] = m * own.forward;
    ledger[Cause::backward] = m * own.backward;
    for (const auto& server : servers) ledger[Cause::update] += server.take[r];
    ledger[Cause::harness] = own.harness;
    double busy = 0;
    for (const double part : ledger.seconds) busy += part;
    ledger[own.loader >= out.seconds ? Cause::load : Cause::communication] += out.seconds - busy;
    ledger.wall = out.seconds;
    out.workers.push_back(ledger);
  }
  return out;
}

}  // namespace ddl
