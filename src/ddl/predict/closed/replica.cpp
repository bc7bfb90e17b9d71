#include <algorithm>
#include <limits>

#include "ddl/predict/closed/terms.h"

namespace ddl {

double exposed(const WorkerTerms& terms) {
  const double backward = terms.backward + terms.exchange_backward;
  double sent = -std::numeric_limits<double>::infinity(), updated = backward;
  for (const auto& bucket : terms.buckets) {
    sent = std::max(sent, (terms.overlaps ? bucket.ready : 1) * backward - bucket.passes_before * terms.pass()) + bucket.seconds;
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
  ledger[Cause::communication] = m * (terms.exchange_forward + terms.exchange_backward) + exposed(terms) + terms.update - ledger[Cause::update] + terms.averaging;
  for (const double part : ledger.seconds) ledger.wall += part;
  if (const double late = terms.loader - ledger.wall; late > 0) {
    ledger[Cause::load] += late;
    ledger.wall += late;
  }
  return {ledger.wall, {ledger}};
}

PricedStep price_after_passes(double passes, int micro_batches, const std::vector<WorkerTerms>& workers) {
  double tail = 0, left = 0;
  for (const auto& own : workers) {
    tail = std::max(tail, exposed(own) + own.update + own.harness + own.load - left);
    left += own.backward + own.exchange_backward + own.send_backward;
  }
  return price_with_bubbles(passes + tail, micro_batches, workers);
}

PricedStep price_with_bubbles(double seconds, int micro_batches, const std::vector<WorkerTerms>& workers) { return price_with_bubbles(seconds, std::vector<int>(workers.size(), micro_batches), workers); }

PricedStep price_with_bubbles(double seconds, const std::vector<int>& passes, const std::vector<WorkerTerms>& workers) {
  PricedStep out{seconds, {}};
  for (const auto& own : workers) out.seconds = std::max(out.seconds, own.loader);
  for (std::size_t w = 0; w < workers.size(); ++w) {
    const auto& own = workers[w];
    auto fed = own;
    fed.loader = 0;
    auto ledger = price_replica(fed, passes.at(w)).workers[0];
    // Who has no slow loader stands still for those who have.
    const double late = std::max(0.0, own.loader - std::max(seconds, ledger.wall));
    ledger[Cause::load] += late;
    ledger.wall += late;
    ledger[Cause::bubble] = std::max(0.0, out.seconds - ledger.wall);
    ledger.wall = std::max(out.seconds, ledger.wall);
    out.workers.push_back(ledger);
  }
  return out;
}

PricedStep price_layers(const std::vector<WorkerTerms>& workers) {
  double passes = 0;
  for (const auto& own : workers) passes += own.pass() + own.send_forward + own.send_backward;
  return price_after_passes(passes, 1, workers);
}

}  // namespace ddl
