#pragma once

#include <map>
#include <utility>
#include <vector>

#include "ddl/plan/plan.h"
#include "ddl/strategy/pipeline_tasks/groups.h"
#include "ddl/strategy/pipeline_tasks/layout.h"
#include "ddl/strategy/pipeline_tasks/messages.h"

namespace ddl {

/// Appends the passes of a place to its role, of which the load is task 0: what computes, with the messages and the exchanges between parts around it.
class PassWriter {
 public:
  /// All outlive it.
  PassWriter(const PipelineLayout& layout, const PipelineMessages& messages, const PipelineGroups& groups, Role& role);

  /// In the order of the place's actions.
  void write(const Action& action);
  /// The last task that computes; 0: none yet.
  int last() const { return last_; }
  /// The last of those that others may wait for: what comes after it is of the gradients of weights alone, the worker's own. 0: none yet.
  int last_for_others() const { return last_for_others_; }

 private:
  void write_segment(const Action& pass);
  Task computation(const Action& pass) const;
  double flops(const Action& pass) const;
  /// Appends what the parts exchange where a segment begins: its value, forward, or its gradient. Returns its number; kNone: they need not.
  int exchange(const Action& pass, std::vector<int> after);

  const PipelineLayout& layout_;
  const PipelineMessages& messages_;
  const PipelineGroups& groups_;
  Role& role_;
  Inbox inbox_;
  int last_ = 0, before_last_ = 0, last_for_others_ = 0;  ///< tasks that compute, or the load
  std::map<std::pair<int, int>, int> returned_;  ///< exchanges of gradients, by segment and micro-batch
};

}  // namespace ddl
