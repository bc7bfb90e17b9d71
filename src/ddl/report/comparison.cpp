#include "ddl/report/comparison.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "ddl/core/text.h"
#include "ddl/report/format.h"
#include "ddl/report/traits.h"

namespace ddl {
namespace {

bool same_work(const RunView& a, const RunView& b) {
  return a.subject == b.subject && a.model == b.model && a.dataset == b.dataset && a.likeness == b.likeness;
}

/// The same batch before the same batch per worker, which is another one; none where neither is the same.
int equal_batches(const RunView& a, const RunView& b, Batches batches) {
  if (a.batch == b.batch) return 2;
  return batches == Batches::together && a.batch_per_worker && a.batch_per_worker == b.batch_per_worker ? 1 : 0;
}

bool can_be_baseline(const RunView& view) {
  return view.workers == 1 && view.ok() && view.throughput && view.throughput->low > 0;
}

/// `64`, `64 and 128`: numbers in their order.
std::string batches_of(const RunGroup& group) {
  std::set<std::pair<std::size_t, std::string>> all;
  for (const auto* run : group.runs) all.emplace(run->batch.size(), run->batch);
  std::vector<std::string> words;
  for (const auto& [size, batch] : all)
    if (!batch.empty()) words.push_back(batch);
  return enumerated(words);
}

void describe(RunGroup& group, const std::vector<RunGroup>& all) {
  const auto told_apart = differing(group.runs);
  group.several_batches = told_apart.contains("batch");
  group.several_strategies = told_apart.contains("strategy");
  if (group.several_batches) group.batch = batches_of(group);
  const auto count = [&](auto alike) { return std::count_if(all.begin(), all.end(), alike); };
  group.other_batches = count([&](const RunGroup& other) {
                          return !other.batch.empty() && !group.batch.empty() && other.model == group.model && other.dataset == group.dataset && other.batch != group.batch;
                        }) > 0;
  const bool alone = count([&](const RunGroup& other) { return other.model == group.model; }) == 1;
  group.short_title = alone && !group.model.empty() ? group.model : group.title();
}

}  // namespace

std::string RunGroup::title() const {
  std::string title = model.empty() ? "(no model)" : model;
  if (!dataset.empty()) title += " on " + dataset;
  if (!batch.empty()) title += (several_batches ? ", batches " : ", batch ") + batch;
  return title;
}

const RunView* RunGroup::best() const {
  const RunView* best = nullptr;
  const auto rank = [](const RunView& run) {
    return std::tuple(run.subject == "ddlbench", run.workers > 1 && run.speedup, run.throughput->median);
  };
  for (const auto* run : runs)
    if (run->ok() && run->throughput && (!best || rank(*run) > rank(*best))) best = run;
  return best;
}

const RunView* RunGroup::baseline(const std::string& subject) const {
  for (const auto* run : runs)
    if (run->subject == subject && can_be_baseline(*run)) return run;
  return nullptr;
}

void compare(std::vector<RunView>& views, Batches batches) {
  for (auto& view : views) {
    if (!view.ok() || !view.throughput || view.workers < 1) continue;
    const RunView* baseline = nullptr;
    const auto rank = [&](const RunView& run) { return std::pair(equal_batches(view, run, batches), run.study == view.study); };
    for (const auto& other : views) {
      if (!can_be_baseline(other) || !same_work(view, other) || equal_batches(view, other, batches) == 0) continue;
      if (!baseline || rank(other) > rank(*baseline)) baseline = &other;
    }
    if (!baseline) continue;
    view.baseline = baseline;
    view.speedup = view.throughput->median / baseline->throughput->median;
    view.efficiency = *view.speedup / view.workers;
    const bool itself = baseline == &view;
    view.speedup_low = itself ? 1 : view.throughput->low / baseline->throughput->high;
    view.speedup_high = itself ? 1 : view.throughput->high / baseline->throughput->low;
  }
}

std::vector<RunGroup> group_runs(const std::vector<RunView>& views, Batches batches) {
  std::vector<RunGroup> groups;
  for (const auto& view : views) {
    auto found = std::find_if(groups.begin(), groups.end(), [&](const RunGroup& group) {
      return group.study == view.study && group.model == view.model && group.dataset == view.dataset &&
             (batches == Batches::together || group.batch == view.batch);
    });
    if (found == groups.end()) {
      found = groups.insert(groups.end(), RunGroup{});
      std::tie(found->study, found->model, found->dataset, found->batch) = std::tie(view.study, view.model, view.dataset, view.batch);
    }
    found->runs.push_back(&view);
  }
  for (auto& group : groups) describe(group, groups);
  return groups;
}

std::vector<Section> sections(const std::vector<RunGroup>& groups) {
  std::set<std::string> studies;
  bool apart = false;
  for (const auto& group : groups) {
    studies.insert(group.study);
    apart = apart || group.other_batches;
  }
  std::vector<Section> all;
  for (const auto& group : groups) {
    std::vector<std::string> words;
    if (studies.size() > 1) words.push_back(group.study.empty() ? "outside a study" : "study " + group.study);
    if (apart) words.push_back(group.title());
    const auto heading = join(words, ": ");
    if (all.empty() || all.back().heading != heading) all.push_back({heading, {}});
    all.back().runs.insert(all.back().runs.end(), group.runs.begin(), group.runs.end());
  }
  // Under one heading runs stand as the views came.
  for (auto& section : all) std::sort(section.runs.begin(), section.runs.end());
  return all;
}

std::string batches_note(const std::vector<RunGroup>& groups) {
  const auto any = [&](bool RunGroup::*what) { return std::any_of(groups.begin(), groups.end(), [&](const RunGroup& group) { return group.*what; }); };
  if (any(&RunGroup::several_batches))
    return "Runs of different global batches stand together, as was asked for: a larger batch does more work in a step, and learns differently. Where no run of one worker "
           "has the same batch, speed-up is over one of the same batch per worker.";
  if (any(&RunGroup::other_batches))
    return "Global batches differ: only runs of the same one are compared, each batch by itself (--unequal-batch puts them together).";
  return "";
}

}  // namespace ddl
