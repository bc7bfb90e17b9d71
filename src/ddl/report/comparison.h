#pragma once

#include <string>
#include <vector>

#include "ddl/report/report.h"
#include "ddl/report/run_view.h"

namespace ddl {

/// Runs that can be compared: the same study, model and data set, and the same global batch unless others were asked for.
struct RunGroup {
  std::string study, model, dataset;
  std::string batch;         ///< several, where they stand together: "64 and 128"
  std::vector<const RunView*> runs;
  std::string short_title;   ///< the model where that tells it from the other groups, else title()
  bool several_batches = false;      ///< in this group
  bool other_batches = false;        ///< in other groups, of the same model and data set
  bool several_strategies = false;

  /// `lenet on fashion-mnist, batch 64`
  std::string title() const;
  /// The fastest run that succeeded, ddlbench's own before a peer's, one with a speed-up before others; null if none.
  const RunView* best() const;
  /// The one-worker run of a subject that speed-ups refer to; null where there is none.
  const RunView* baseline(const std::string& subject) const;
};

/// Sets speed-up and efficiency of every run against the one-worker run of the same subject, model, data set and global
/// batch: of its own study where there is one, else of another. Where batches stand together one of the same batch per worker will do.
void compare(std::vector<RunView>& views, Batches batches = Batches::apart);

/// In the order in which the views come.
std::vector<RunGroup> group_runs(const std::vector<RunView>& views, Batches batches = Batches::apart);

/// Rows of a table under one heading.
struct Section {
  std::string heading;   ///< empty where there is one section alone
  std::vector<const RunView*> runs;
};
/// Studies one after the other; within them, where runs of one model and data set have different batches, group after group.
std::vector<Section> sections(const std::vector<RunGroup>& groups);

/// What a reader must know where global batches differ; empty where they do not.
std::string batches_note(const std::vector<RunGroup>& groups);

}  // namespace ddl
