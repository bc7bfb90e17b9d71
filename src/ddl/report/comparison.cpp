#include "ddl/report/comparison.h"

#include <algorithm>
#include <tuple>

namespace ddl {
namespace {

bool same_work(const RunView& a, const RunView& b) {
  return a.subject == b.subject && a.model == b.model && a.dataset == b.dataset && a.batch == b.batch &&
         a.likeness == b.likeness;
}

bool can_be_baseline(const RunView& view) {
  return view.workers == 1 && view.ok() && view.throughput && view.throughput->low > 0;
}

}  // namespace

std::string Group::title() const {
  std::string title = model.empty() ? "(no model)" : model;
  if (!dataset.empty()) title += " on " + dataset;
  if (!batch.empty()) title += ", batch " + batch;
  return title;
}

const RunView* Group::best() const {
  const RunView* best = nullptr;
  const auto rank = [](const RunView& run) {
    return std::tuple(run.subject == "ddlbench", run.workers > 1 && run.speedup, run.throughput->median);
  };
  for (const auto* run : runs)
    if (run->ok() && run->throughput && (!best || rank(*run) > rank(*best))) best = run;
  return best;
}

const RunView* Group::baseline(const std::string& subject) const {
  for (const auto* run : runs)
    if (run->subject == subject && can_be_baseline(*run)) return run;
  return nullptr;
}

void compare(std::vector<RunView>& views) {
  for (auto& view : views) {
    if (!view.ok() || !view.throughput || view.workers < 1) continue;
    const RunView* baseline = nullptr;
    for (const auto& other : views) {
      if (!can_be_baseline(other) || !same_work(view, other)) continue;
      if (!baseline || (baseline->study != view.study && other.study == view.study)) baseline = &other;
    }
    if (!baseline) continue;
    view.speedup = view.throughput->median / baseline->throughput->median;
    view.efficiency = *view.speedup / view.workers;
    const bool itself = baseline == &view;
    view.speedup_low = itself ? 1 : view.throughput->low / baseline->throughput->high;
    view.speedup_high = itself ? 1 : view.throughput->high / baseline->throughput->low;
  }
}

std::vector<Group> group_runs(const std::vector<RunView>& views) {
  std::vector<Group> groups;
  for (const auto& view : views) {
    auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
      return group.study == view.study && group.model == view.model && group.dataset == view.dataset &&
             group.batch == view.batch;
    });
    if (found == groups.end())
      found = groups.insert(groups.end(), Group{view.study, view.model, view.dataset, view.batch, {}, {}});
    found->runs.push_back(&view);
  }
  for (auto& group : groups) {
    const bool alone =
        std::count_if(groups.begin(), groups.end(), [&](const Group& g) { return g.model == group.model; }) == 1;
    group.short_title = alone && !group.model.empty() ? group.model : group.title();
  }
  return groups;
}

}  // namespace ddl
