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

/// A pipeline. `schedule`: of builtin_pipeline_schedules(), whose bubble is taken as published; workers in the order of their stages; `chunks` stages of each.
/// Errors: not_found for another schedule; those of the schedule.
PricedStep price_pipeline(const std::string& schedule, int chunks, int micro_batches, const std::vector<WorkerTerms>& workers);

/// What of a worker's buckets, and their updates, is not over when its backward is.
double exposed(const WorkerTerms& terms);

/// A step of workers in the order of their stages whose passes take so long: the first worker's backward is the last, the others have what comes before it for what they do after theirs. What a
/// worker's own terms leave of the step is its bubble.
PricedStep price_after_passes(double passes, int micro_batches, const std::vector<WorkerTerms>& workers);

}  // namespace ddl
