#include <algorithm>

#include "ddl/predict/closed/terms.h"

namespace ddl {

namespace {

double passes(const WorkerTerms& own, int micro_batches) { return own.load + micro_batches * own.pass(); }

/// When what role r pushes to a server is there, from the beginning of its step on.
double pushed(const WorkerTerms& own, const ServerTerm& server, std::size_t r, int micro_batches) {
  return passes(own, micro_batches) - (1 - server.ready[r]) * (own.backward + own.exchange_backward) + server.push[r];
}

/// A role's step, its servers having answered at these times.
double step_of(const WorkerTerms& own, const std::vector<ServerTerm>& servers, std::size_t r, const std::vector<double>& answered, int micro_batches) {
  double end = passes(own, micro_batches);
  for (std::size_t s = 0; s < servers.size(); ++s) end = std::max(end, std::max(answered[s], passes(own, micro_batches)) + servers[s].pull[r]) + servers[s].take[r];
  return std::max(end + own.harness, own.loader);
}

/// Of a step of so many seconds, what is neither computed nor waited for from a loader is communication.
Ledger ledger_of(const WorkerTerms& own, const std::vector<ServerTerm>& servers, std::size_t r, int micro_batches, double seconds) {
  Ledger ledger;
  ledger[Cause::load] = own.load;
  ledger[Cause::forward] = micro_batches * own.forward;
  ledger[Cause::backward] = micro_batches * own.backward;
  for (const auto& server : servers) ledger[Cause::update] += server.take[r];
  ledger[Cause::harness] = own.harness;
  double busy = 0;
  for (const double part : ledger.seconds) busy += part;
  ledger[own.loader >= seconds ? Cause::load : Cause::communication] += seconds - busy;
  ledger.wall = seconds;
  return ledger;
}

}  // namespace

PricedStep price_servers(const std::vector<WorkerTerms>& workers, const std::vector<ServerTerm>& servers, int micro_batches) {
  std::vector<double> answered;  // by server: when it has updated what all pushed
  for (const auto& server : servers) {
    double all = 0;
    for (std::size_t r = 0; r < workers.size(); ++r) all = std::max(all, pushed(workers[r], server, r, micro_batches));
    answered.push_back(all + server.update);
  }
  PricedStep out;
  for (std::size_t r = 0; r < workers.size(); ++r) out.seconds = std::max(out.seconds, step_of(workers[r], servers, r, answered, micro_batches));
  for (std::size_t r = 0; r < workers.size(); ++r) out.workers.push_back(ledger_of(workers[r], servers, r, micro_batches, out.seconds));
  return out;
}

PricedStep price_servers_apart(const std::vector<WorkerTerms>& workers, const std::vector<int>& counts, const std::vector<ServerTerm>& servers, bool bounded, int micro_batches) {
  std::vector<double> steps;  // by role, as if no other asked
  for (std::size_t r = 0; r < workers.size(); ++r) {
    std::vector<double> answered;
    for (const auto& server : servers) answered.push_back(pushed(workers[r], server, r, micro_batches) + server.update);
    steps.push_back(step_of(workers[r], servers, r, answered, micro_batches));
  }
  if (bounded) std::fill(steps.begin(), steps.end(), *std::max_element(steps.begin(), steps.end()));
  // A server does one thing at a time: where all ask for more than it can do, all take as much longer.
  double busiest = 1;
  for (const auto& server : servers) {
    double busy = 0;
    for (std::size_t r = 0; r < workers.size(); ++r) busy += counts[r] * (server.update + server.pull[r]) / steps[r];
    busiest = std::max(busiest, busy);
  }
  PricedStep out;
  double rate = 0, count = 0;
  for (std::size_t r = 0; r < workers.size(); ++r) {
    const double seconds = steps[r] * busiest;
    out.workers.push_back(ledger_of(workers[r], servers, r, micro_batches, seconds));
    rate += counts[r] / seconds;
    count += counts[r];
  }
  out.seconds = count / rate;
  return out;
}

}  // namespace ddl
