#include "ddl/train/executor_asynchronous.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/plan/meetings.h"

namespace ddl {
namespace {

int least_ahead(const Role& role) {
  int least = std::numeric_limits<int>::max();
  for (const auto& task : role.tasks)
    if (task.kind == TaskKind::forward) least = std::min(least, task.ahead);
  return least;
}

}  // namespace

Executor::Asynchronous::Asynchronous(const Plan& plan, int worker, Network& network, Optimizer& optimizer)
    : depth(ddl::depth(plan.role_of(worker))),
      versions(network, optimizer, plan.role_of(worker).staleness, least_ahead(plan.role_of(worker))),
      lag(static_cast<std::size_t>(plan.workers())) {
  for (const auto& role : plan.roles) deepest = std::max(deepest, ddl::depth(role));
  for (const auto& task : plan.role_of(worker).tasks) {
    shift.push_back(0);
    if (task.kind != TaskKind::send) continue;
    const auto& receiver = plan.roles[static_cast<std::size_t>(task.peer)].tasks;
    const auto met = std::find_if(receiver.begin(), receiver.end(), [&](const Task& other) { return other.meeting == task.meeting; });
    invariant(met != receiver.end(), "every message of a sound plan is received");
    shift.back() = task.ahead - met->ahead;
  }
}

void Executor::load_ahead(Step& step, std::int64_t batch) {
  auto& state = *asynchronous_;
  if (state.stops_after && batch > *state.stops_after) state.over = true;
  if (state.over) return;
  death_.at(step.number, name(TaskKind::load));
  auto loaded = step.next_batch();
  if (loaded)
    state.batches[batch] = std::move(loaded);
  else
    state.over = true;
}

/// Tasks on batches that do not exist count as done; micro-batches are numbered over all steps.
std::vector<Task> Executor::tasks_of_step(std::int64_t number) const {
  auto tasks = role().tasks;
  for (auto& task : tasks) task.micro_batch += static_cast<int>((number + task.ahead) * plan_.micro_batches);
  return tasks;
}

StepResult Executor::step_asynchronous(std::int64_t number, const NextBatch& next_batch, double learning_rate, bool ask_to_stop) {
  auto& state = *asynchronous_;
  const auto run_step = [&](std::int64_t which, bool real) {
    const auto tasks = tasks_of_step(which);
    Step step{which, next_batch, learning_rate, ask_to_stop, tasks};
    prepare(step);
    if (real) {
      const auto begin = device_.mark();
      load_ahead(step, which + state.depth);
      record(step, begin, device_.mark(), span(which, kNone, Cause::load));
      step.batch = state.batches.at(which);
      if (buckets_) begin_buckets(step);
    }
    step.last_backward.assign(plan_.stages.size(), kNone);  // buckets are complete with the step alone
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      const auto batch = which + tasks[t].ahead;
      step.due[t] = tasks[t].kind != TaskKind::load && batch >= 0 && (real || tasks[t].ahead > 0) && state.batches.contains(batch);
      step.done[t] = !step.due[t];
    }
    run_tasks(step);
    leave(step);
    StepResult result;
    if (step.batch) {
      result.loss = read_loss(step);
      result.samples = samples_with_loss(step);
    }
    tell_pending(step.pending);
    return result;
  };
  if (!std::exchange(state.began, true)) {
    Step none{number, next_batch, learning_rate, ask_to_stop, role().tasks};
    for (int ahead = 0; ahead < state.depth; ++ahead) load_ahead(none, number + ahead);
    for (int before = state.depth; before > 0; --before) run_step(number - before, false);
  }
  auto result = run_step(number, true);
  state.batches.erase(number);
  // By the number: who is not ahead has no batches left after any step.
  const bool last = number == state.stops_after.value_or(last_step_);
  settle_sent(last);
  const auto not_finite = [&](const std::string& got) { throw Error(Code::invalid_argument, fmt::format("[executor] loss is not finite at step {}; got {}", number, got)); };
  if (!std::isfinite(result.loss)) not_finite(fmt::format("{}", result.loss));
  result.stop = ask_to_stop && control_task_ == kNone;
  while (state.controls.size() > (last ? 0 : state.lag)) {
    auto& control = *state.controls.front();
    // Nobody gets further ahead of the slowest worker than this.
    const auto begin = now();
    control.handle.wait();
    trace_.push_back(span(number, control_task_, Cause::wait, begin, now()));
    const double votes = control.values[0] + control.values[1];
    if (!std::isfinite(votes)) not_finite("that of another worker, some steps ago");
    if (votes > 0 && !state.stops_after) state.stops_after = last_step_ == kNone ? number + state.deepest : std::min(last_step_, number + state.deepest);
    state.controls.pop_front();
  }
  if (number == state.stops_after) {
    settle_sent(true);
    result.stop = true;
  }
  ++updates_.updates;
  return result;
}

/// What of a step goes on after it: messages that are not taken up yet, and the control.
void Executor::leave(Step& step) {
  auto& state = *asynchronous_;
  for (const int task : communication_tasks_) {
    const auto i = static_cast<std::size_t>(task);
    if (step.handles[i].empty()) continue;
    auto communication = communication_span(step, task);
    communication.step += state.shift[i];
    if (step.tasks[i].kind == TaskKind::send)
      state.sent.push_back({std::move(step.messages[i]), std::move(step.handles[i]), communication});
    else
      tell(communication, step.handles[i]);
  }
}

void Executor::settle_sent(bool all) {
  std::erase_if(asynchronous_->sent, [&](Asynchronous::Sent& each) {
    const auto done = [](const Handle& handle) { return handle.done(); };
    if (!all && !std::all_of(each.handles.begin(), each.handles.end(), done)) return false;
    for (const auto& handle : each.handles) handle.wait();
    tell(each.span, each.handles);
    return true;
  });
}

void Executor::start_late_control(Step& step, int number) {
  auto control = std::make_unique<Asynchronous::Control>();
  control->values = control_of(step);
  control->handle = channels_->of_collective(step.tasks[static_cast<std::size_t>(number)])
                        .all_reduce({reinterpret_cast<std::byte*>(control->values.data()), control->values.size(), ElementType::fp64}, ReduceOp::sum);
  asynchronous_->controls.push_back(std::move(control));
}

}  // namespace ddl
