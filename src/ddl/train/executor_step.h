#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "ddl/train/executor.h"

namespace ddl {

/// What one step knows while it runs.
struct Executor::Step {
  std::int64_t number = 0;
  const NextBatch& next_batch;
  double learning_rate = 0;
  bool ask_to_stop = false;
  const std::vector<Task>& tasks;
  const NextBatch* peek = nullptr;        ///< null where nobody can tell
  std::shared_ptr<const Batch> batch = {};
  std::vector<int> last_backward = {};    ///< by stage: the task after which its gradients are complete
  at::Tensor loss_sum = {};               ///< of all micro-batches so far, fp64
  bool by_graphs = false;                 ///< passes are launched, not queued operation by operation
  bool judged = false;                    ///< the whole gradient: the two below are known
  bool skipped = false;
  double gradient_scale = 1;              ///< what makes of the gradients that came those that count
  std::vector<bool> done = {};            ///< by task
  std::vector<int> raised = {};           ///< by bucket: how often its gradients were complete
  std::vector<Moment> there = {};         ///< by bucket: when its gradients are where the collective reads them
  struct Message {
    at::Tensor host;                      ///< sent or received
    at::Tensor device = {};               ///< where it comes from or goes to, if that is elsewhere
  };
  std::vector<std::vector<Message>> messages = {};  ///< by task, until they are there or sent
  std::vector<std::vector<Handle>> handles = {};    ///< by task
  std::map<int, PartMove> moves = {};               ///< by task, until what parts exchange is there
  std::vector<bool> started = {};         ///< by task
  std::vector<int> sending = {};          ///< tasks whose messages are on their way
  std::vector<Pending> pending = {};      ///< spans whose times are not known yet
  std::vector<bool> due = {};             ///< by task: done in this step
  bool local = false;                     ///< gradients are those of the worker's own samples
  bool exchanges = false;                 ///< messages of parameters go to neighbours
  bool averages = false;                  ///< parameters become the mean of all
  bool ends = false;                      ///< the run, as far as is known before
  at::Tensor apart = {}, size = {};       ///< squares of own parameters less the mean, and of the mean
  std::vector<const Task*> gathered = {}; ///< by bucket: of which the bucket's memory holds what is sent
};

}  // namespace ddl
