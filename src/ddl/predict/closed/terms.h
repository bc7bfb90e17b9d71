#pragma once

#include <string>
#include <vector>

#include "ddl/measure/ledger.h"

namespace ddl {

// What closed forms are made of: sums over a step's tasks, and nothing of their order. Seconds. docs/model.md derives what is made of them.

/// A collective that begins when so much of a backward is over, and what is done with its result.
struct BucketTerm {
  double ready = 1;     ///< share of the last backward
  double seconds = 0;
  double update = 0;
  double passes_before = 0;  ///< micro-batches between its own and the last
};

/// What one worker does of a micro-batch, and once a step.
struct WorkerTerms {
  double forward = 0, backward = 0;                      ///< of one micro-batch, computation alone
  double backward_weight = 0;                            ///< of `backward`: what a schedule that splits it may leave for later
  double exchange_forward = 0, exchange_backward = 0;    ///< of one micro-batch: collectives that computation stands still for
  double send_forward = 0, send_backward = 0;            ///< of one micro-batch: to the next worker of the pipeline; from it
  std::vector<BucketTerm> buckets = {};                  ///< in the order in which they go
  bool overlaps = true;                                  ///< whether buckets go while backward runs; else after it
  double update = 0;                                     ///< of what is in no bucket
  double averaging = 0;                                  ///< after the updates: exchanges of parameters with neighbours, as often as they are
  double load = 0, harness = 0;
  double loader = 0;                                     ///< what it takes to make a batch, beside all else: no step is shorter

  double pass() const { return forward + backward + exchange_forward + exchange_backward; }
};

/// A step in closed form, with the ledger of each worker; those of `seconds` add up to it.
struct PricedStep {
  double seconds = 0;
  std::vector<Ledger> workers;
};

/// One worker's step alone: what it computes and exchanges, then what of its buckets is not hidden behind the last backward. After micro-batch 1 to m - 1 nothing is sent.
PricedStep price_replica(const WorkerTerms& terms, int micro_batches);

/// Layers over workers, one micro-batch: one after the other, and back.
PricedStep price_layers(const std::vector<WorkerTerms>& workers);

/// Pipelines of schedules `gpipe` and `1f1b`, workers in the order of their stages, one stage each, which may be unequal. 1F1B's is of at least as many micro-batches as workers, and of messages that are short beside a pass.
PricedStep price_gpipe(int micro_batches, const std::vector<WorkerTerms>& workers);
PricedStep price_one_f_one_b(int micro_batches, const std::vector<WorkerTerms>& workers);

/// Layers whose parameters are gathered before they are used and dropped after (`sharded` level 3).
struct UnitTerm {
  double forward = 0, backward = 0;    ///< of one micro-batch
  double gather = -1, reduce = 0;      ///< of its parameters; of its gradients, for each micro-batch. Below 0: it has none of its own
  double ready = 1;                    ///< share of its backward after which its gradients are there
  double replicas = 0;                 ///< the sum of a part over those who have the same, once a step
  double update = 0;
  bool reads_tied = false;             ///< parameters of several units, which are gathered once
};

struct UnitTerms {
  std::vector<UnitTerm> units;
  int micro_batches = 1;
  int prefetch = 1;                    ///< units gathered ahead of the one in use
  bool reshard = true;                 ///< dropped after each use; else kept from the first forward to the last backward
  double tied_gather = 0, tied_reduce = 0, tied_update = 0;
  double control = 0;
  double load = 0, harness = 0, loader = 0;
};

/// One worker's step of units: gathers and reductions go over the wire one after the other in the order in which they are asked for, what is next used before what was just found.
PricedStep price_units(const UnitTerms& terms);

/// What passes between a server of parameters and each role of workers, by role.
struct ServerTerm {
  std::vector<double> ready;           ///< share of a role's last backward after which its gradients are there
  std::vector<double> push, pull, take;
  double update = 0;
};

/// Workers that push gradients to servers and go on once they have what became of the parameters.
PricedStep price_servers(const std::vector<WorkerTerms>& workers, const std::vector<ServerTerm>& servers, int micro_batches);
/// The same where a server applies each gradient as it comes, and workers, so many of each role, step by themselves: all together do as many steps as they are in what this says. `bounded`: nobody is more
/// than some steps ahead of the slowest, so that in the long run all are as fast as that.
PricedStep price_servers_apart(const std::vector<WorkerTerms>& workers, const std::vector<int>& counts, const std::vector<ServerTerm>& servers, bool bounded, int micro_batches);

/// One exchange with neighbours: seconds by bucket of each way, which are queues beside each other, and of the mean that is then taken.
struct ExchangeRound {
  std::vector<std::vector<double>> ways;
  std::vector<double> averages;
};
/// What rounds of one step add to it after updates of so many seconds, bucket by bucket.
double averaging_seconds(const std::vector<double>& updates, const std::vector<ExchangeRound>& rounds);

/// The time from one update to the next of a pipeline without a flush: workers in the order of their stages.
PricedStep price_asynchronous(int micro_batches, const std::vector<WorkerTerms>& workers);

/// What of a worker's buckets, and their updates, is not over when its backward is.
double exposed(const WorkerTerms& terms);

/// A step of so many seconds, or longer where a loader is slower: what a worker's own terms leave of it is its bubble.
PricedStep price_with_bubbles(double seconds, int micro_batches, const std::vector<WorkerTerms>& workers);
/// The same of workers that have so many micro-batches each.
PricedStep price_with_bubbles(double seconds, const std::vector<int>& passes, const std::vector<WorkerTerms>& workers);

/// A step of workers in the order of their stages whose passes take so long: the first worker's backward is the last, the others have what comes before it for what they do after theirs. The rest of the step is bubbles.
PricedStep price_after_passes(double passes, int micro_batches, const std::vector<WorkerTerms>& workers);

}  // namespace ddl
