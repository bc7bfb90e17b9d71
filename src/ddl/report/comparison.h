#pragma once

#include <string>
#include <vector>

#include "ddl/report/run_view.h"

namespace ddl {

/// Runs that can be compared: the same study, model, data set and global batch.
struct Group {
  std::string study, model, dataset, batch;
  std::vector<const RunView*> runs;
  std::string short_title;   ///< the model where that tells it from the other groups, else title()

  /// `lenet on fashion-mnist, batch 64`
  std::string title() const;
  /// The fastest run that succeeded, ddlbench's own before a peer's, one with a speed-up before others; null if none.
  const RunView* best() const;
  /// The one-worker run of a subject that speed-ups refer to; null where there is none.
  const RunView* baseline(const std::string& subject) const;
};

/// Sets speed-up and efficiency of every run against the one-worker run of the same subject, model, data set and global
/// batch: of its own study where there is one, else of another.
void compare(std::vector<RunView>& views);

/// In the order in which the views come.
std::vector<Group> group_runs(const std::vector<RunView>& views);

}  // namespace ddl
