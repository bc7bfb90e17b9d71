#include <algorithm>

#include "ddl/predict/closed/terms.h"

namespace ddl {

double exposed(const WorkerTerms& terms) {
  const double backward = terms.backward + terms.exchange_backward;
  double sent = terms.overlaps ? 0 : backward, updated = backward;
  for (const auto& bucket : terms.buckets) {
    sent = std::max(sent, terms.overlaps ? bucket.ready * backward : backward) + bucket.seconds;
    updated = std::max(updated, sent) + bucket.update;
  }
  return updated - backward;
}

namespace {

double updates_of(const WorkerTerms& terms) {
  double sum = terms.update;
  for (const auto& bucket : terms.buckets) sum += bucket.update;
  return sum;
}

}  // namespace

PricedStep price_replica(const WorkerTerms& terms, int micro_batches) {
  const double m = micro_batches;
  Ledger ledger;
  ledger[Cause::load] = terms.load;
  ledger[Cause::forward] = m * terms.forward;
  ledger[Cause::backward] = m * terms.backward;
  ledger[Cause::update] = updates_of(terms);
  ledger[Cause::harness] = terms.harness;
  ledger[Cause::communication] = m * (terms.exchange_forward + terms.exchange_backward) + exposed(terms) + terms.update - ledger[Cause::update];
  for (const double part : ledger.seconds) ledger.wall += part;
  if (const double late = terms.loader - ledger.wall; late > 0) {
    ledger[Cause::load] += late;
    ledger.wall += late;
  }
  return {ledger.wall, {ledger}};
}

PricedStep price_layers(const std::vector<WorkerTerms>& workers) {
  PricedStep out;
  for (const auto& own : workers) out.seconds += own.pass() + own.send_forward + own.send_backward;
  double tail = 0;
  // The first worker's backward is the last: what the others do after theirs is over by then, unless it takes longer.
  double left = 0;
  for (std::size_t s = 0; s < workers.size(); ++s) {
    tail = std::max(tail, exposed(workers[s]) + workers[s].update + workers[s].harness + workers[s].load - left);
    left += workers[s].backward + workers[s].exchange_backward + workers[s].send_backward;
  }
  out.seconds += tail;
  for (const auto& own : workers) {
    Ledger ledger = price_replica(own, 1).workers[0];
    ledger[Cause::bubble] = std::max(0.0, out.seconds - ledger.wall);
    ledger.wall = std::max(out.seconds, ledger.wall);
    out.workers.push_back(ledger);
  }
  return out;
}

}  // namespace ddl
