#pragma once

#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/lab/config.h"
#include "ddl/lab/step_book.h"
#include "ddl/nn/graph.h"
#include "ddl/plan/plan.h"

namespace ddl {

/// What the coordinator learnt of one run, whatever program trained.
struct Observed {
  explicit Observed(int ranks, TraceMode mode)
      : book(ranks, mode), pids(static_cast<std::size_t>(ranks)), done(static_cast<std::size_t>(ranks)), memory(static_cast<std::size_t>(ranks)) {}

  StepBook book;
  std::vector<int> pids;
  std::vector<Json> done;            ///< each rank's last message; null until it came
  std::vector<Json> memory;          ///< who held what when a rank had too little; null for the others
  std::vector<Json> epochs;          ///< {epoch, loss, top1?, top5?, tokens?, bleu?, test_loss?}, losses summed over ranks
  std::vector<std::string> messages; ///< last lines of the workers' own output
  std::string state = "ok";
  std::string reason;
  bool killed_for_memory = false;    ///< the kernel ended a rank while it ended some process for lack of memory
};

/// The fields of docs/record.md that exist before a run: schema, id, identity, config, build, environment.before.
Json new_record(const Experiment& experiment, const std::string& dataset_digest);

/// Adds what was observed of the workers of `plan`.
void complete_record(Json& record, const Experiment& experiment, const Observed& observed, const Plan& plan);

/// The job with what its run found out by itself: of buckets whose size it sought the one it took.
Job job_as_run(Job job, const Json& bucket_tuning);

/// The plan as its workers had it at the end, by the last message of one of them (null: it did not come) or the record made of it: with buckets of the size that was found, in the order in which gradients came.
Plan plan_as_run(const Job& job, const ModelGraph& graph, const Json& told);

}  // namespace ddl
