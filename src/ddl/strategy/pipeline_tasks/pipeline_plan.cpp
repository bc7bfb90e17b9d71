#include "ddl/strategy/pipeline_tasks/pipeline_plan.h"

#include <utility>

#include <fmt/ranges.h>

#include "ddl/core/at.h"
#include "ddl/strategy/common.h"
#include "ddl/strategy/pipeline_tasks/buckets.h"
#include "ddl/strategy/pipeline_tasks/groups.h"
#include "ddl/strategy/pipeline_tasks/layout.h"
#include "ddl/strategy/pipeline_tasks/memory.h"
#include "ddl/strategy/pipeline_tasks/messages.h"
#include "ddl/strategy/pipeline_tasks/passes.h"
#include "ddl/strategy/tasks.h"

namespace ddl {
namespace {

/// Writes the roles of a pipeline, one for each place.
class Writer {
 public:
  Writer(const StrategyInput& input, const Pipeline& pipeline)
      : input_(input), pipeline_(pipeline), layout_(input, pipeline), groups_(pipeline), buckets_(gradient_buckets(layout_, groups_)), messages_(layout_),
        pieces_(input.parameter_norms ? groups_.of_pieces() : kNone) {}

  Plan write() const {
    Plan plan;
    plan.strategy = input_.spec.name;
    plan.mesh = groups_.mesh();
    plan.stages = layout_.segments;
    plan.groups = groups_.all();
    plan.micro_batches = pipeline_.micro_batches;
    plan.deferred_statistics = pipeline_.deferred_statistics;
    plan.split = pipeline_.split;
    for (int place = 0; place < layout_.places(); ++place) plan.roles.push_back(write_role(place));
    number_meetings(plan);
    return plan;
  }

 private:
  Role write_role(int place) const {
    const int abreast = pipeline_.replicas * pipeline_.shards * pipeline_.parts_of_stage();
    Role role{role_name(place), place * abreast, abreast};
    role.stages = layout_.segments_at(place);
    if (pipeline_.asynchronous()) role.staleness = pipeline_.staleness[at(place)];
    for (const auto& each : buckets_[at(place)]) role.buckets.push_back(each.bucket);
    Task load;
    load.label = "load";
    role.tasks.reserve(3 * pipeline_.order.actions[at(place)].size() + 16);  // a message in, a pass, a message out
    add(role, load);
    PassWriter passes(layout_, messages_, groups_, role);
    for (const auto& action : pipeline_.order.actions[at(place)]) passes.write(action);
    add_up(role, place, passes.last(), passes.last_for_others());
    role.holds = holdings_at(layout_, place, role);
    return role;
  }

  std::string role_name(int place) const {
    const auto stages = layout_.stages_at(place);
    if (stages.size() > 1) return fmt::format("stages {}", fmt::join(stages, ", "));
    const int stage = stages.front();
    if (pipeline_.order.replicas_of(stage) == 1) return fmt::format("stage {}", stage);
    return fmt::format("stage {}, replica {}", stage, place - pipeline_.order.worker_of_stage[at(stage)]);
  }

  /// What comes after the last backward; control, where it says nothing of gradients, after the last pass that others wait for: the losses are known, and told
  /// while gradients of weights are computed, so that whoever ends first begins the next step at once. Told after all of them, steps would end together.
  void add_up(Role& role, int place, int last_backward, int last_for_others) const {
    const auto reductions = reduce(role, place, last_backward);
    const int known = input_.whole_gradient ? last_backward : last_for_others;
    const int told = groups_.mesh().workers() > 1 ? add(role, control(input_, known, reductions)) : kNone;
    const int judged = pieces_ == kNone ? kNone : exchange_norms(role, place, last_backward, reductions, told);
    const auto updates = update_all(role, place, last_backward, reductions, judged == kNone && input_.whole_gradient ? told : judged);
    if (groups_.shards() != kNone) gather(role, updates);
  }

  /// Returns the tasks by bucket.
  std::vector<int> reduce(Role& role, int place, int last_backward) const {
    // Several of a worker's stages may use what is tied: it is complete after the last backward of all, and comes last.
    std::vector<int> order;
    for (const bool tied : {false, true})
      for (int b = 0; b < static_cast<int>(role.buckets.size()); ++b)
        if ((role.buckets[at(b)].stage == kNone) == tied) order.push_back(b);
    std::vector<int> tasks(role.buckets.size());
    for (const int b : order) {
      auto sum = reduction(role, b, buckets_[at(place)][at(b)].group);
      if (role.buckets[at(b)].stage == kNone)
        sum.after = {last_backward};
      else
        sum.waits_for = b;
      tasks[at(b)] = groups_.shards() == kNone ? add(role, at_stage(role, std::move(sum))) : reduce_parts(role, std::move(sum));
    }
    return tasks;
  }

  /// Among shards first, then, what is left of it, among those who have the same part. Returns the last task.
  int reduce_parts(Role& role, Task sum) const {
    auto scatter = collective(Goal::reduce_scatter, Cargo::gradients, groups_.shards(), role, sum.bucket, fmt::format("reduce-scatter {}", sum.bucket));
    scatter.after = std::exchange(sum.after, {});
    scatter.waits_for = std::exchange(sum.waits_for, kNone);
    const int scattered = add(role, at_stage(role, std::move(scatter)));
    if (members(groups_.mesh(), groups_.all()[at(sum.group)], role.first).size() == 1) return scattered;
    sum.after = {scattered};
    sum.bytes = longest_part(input_, sum.bytes, pipeline_.shards);
    return add(role, at_stage(role, std::move(sum)));
  }

  /// Sums of squares of each parameter and of its step, which come from those who have pieces of it. They are gathered, and each adds them up in one and the same order, so that copies of a
  /// tied weight at other places stay copies.
  int exchange_norms(Role& role, int place, int last_backward, const std::vector<int>& reductions, int told) const {
    auto norms = collective(Goal::all_gather, Cargo::norms, pieces_, "norms");
    norms.bytes = static_cast<std::int64_t>(members(groups_.mesh(), groups_.all()[at(pieces_)], role.first).size() * 2 * layout_.parameters_at(place).size() * sizeof(double));
    norms.after = {last_backward};
    norms.after.insert(norms.after.end(), reductions.begin(), reductions.end());
    if (input_.whole_gradient) norms.after.push_back(told);
    return add(role, at_stage(role, std::move(norms)));
  }

  /// Of each bucket, and of what is in none. `judged`: what tells how large their steps are, if something does. Returns the tasks, by bucket.
  std::vector<int> update_all(Role& role, int place, int last_backward, const std::vector<int>& reductions, int judged) const {
    std::size_t left = layout_.parameters_at(place).size();
    std::vector<int> tasks;
    const auto append = [&](int bucket, std::vector<int> after) {
      if (judged != kNone) after.push_back(judged);
      tasks.push_back(add(role, at_stage(role, update(bucket, std::move(after)))));
    };
    for (int b = 0; b < static_cast<int>(role.buckets.size()); ++b) {
      left -= role.buckets[at(b)].parameters.size();
      append(b, {last_backward, reductions[at(b)]});
    }
    if (left > 0) append(kNone, {last_backward});
    return tasks;
  }

  /// Parameters that shards have updated a part of each.
  void gather(Role& role, const std::vector<int>& updates) const {
    for (int b = 0; b < static_cast<int>(role.buckets.size()); ++b) {
      auto task = collective(Goal::all_gather, Cargo::parameters, groups_.shards(), role, b, fmt::format("all-gather {}", b));
      task.after = {updates[at(b)]};
      add(role, at_stage(role, std::move(task)));
    }
  }

  /// Not of one stage: of the first that the role has.
  static Task at_stage(const Role& role, Task task) {
    task.stage = role.stages.front();
    return task;
  }

  const StrategyInput& input_;
  const Pipeline& pipeline_;
  PipelineLayout layout_;
  PipelineGroups groups_;
  std::vector<std::vector<SummedBucket>> buckets_;  ///< by place
  PipelineMessages messages_;
  int pieces_;                                      ///< group of those who have pieces of parameters whose norms are read; else kNone
};

}  // namespace

Plan pipeline_plan(const StrategyInput& input, const Pipeline& pipeline) { return Writer(input, pipeline).write(); }

}  // namespace ddl
