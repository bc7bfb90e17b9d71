#include "ddl/strategy/pipeline/timing.h"

#include <algorithm>
#include <optional>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/strategy/pipeline/steps.h"

namespace ddl {
namespace {

/// One thing that an action waits for: that a pass of its micro-batch through a stage is done, in both parts or one.
struct Need {
  Pass pass;
  int stage;
};

std::vector<Need> needs_of(const Action& action, int stages) {
  if (is_forward(action.pass)) return action.stage == 0 ? std::vector<Need>{} : std::vector<Need>{{Pass::forward, action.stage - 1}};
  if (action.pass == Pass::backward_weight) return {{Pass::backward_input, action.stage}};
  if (action.stage + 1 == stages) return {{Pass::forward, action.stage}};
  return {{Pass::forward, action.stage}, {Pass::backward_input, action.stage + 1}};
}

class Simulation {
 public:
  Simulation(const PipelineOrder& order, const PipelineCosts& costs) : order_(order), costs_(costs) {
    if (costs.of_stage.size() != order.worker_of_stage.size())
      throw Error(Code::invalid_argument, fmt::format("[pipeline] costs of stages; got {}, expected {}", costs.of_stage.size(), order.stages()));
    for (const auto& actions : order.actions)
      for (const Action& action : actions) {
        if (action.ahead != 0 || action.micro_batch < 0 || action.stage < 0 || action.stage >= order.stages())
          throw Error(Code::invalid_argument,
                      fmt::format("[pipeline] timing takes micro-batches from 0 on of {} stages, and orders of several steps unrolled; got {}",
                                  order.stages(), to_string(action)));
        micro_batches_ = std::max(micro_batches_, action.micro_batch + 1);
      }
    forward_done_.resize(index(order.stages(), 0));
    owners_.resize(forward_done_.size());
    for (int worker = 0; worker < order.workers(); ++worker)
      for (const Action& action : order.actions[static_cast<std::size_t>(worker)]) owners_[index(action.stage, action.micro_batch)] = worker;
    gradient_done_ = forward_done_;
    next_.resize(order.actions.size());
    held_.resize(order.actions.size());
    held_of_stage_.resize(order.worker_of_stage.size());
    timing_.workers.resize(order.actions.size());
    timing_.in_flight_of_stage.resize(order.worker_of_stage.size());
  }

  PipelineTiming run() {
    // Who may be able to go on: everybody at first, then the worker of a neighbouring stage whenever a pass is done.
    std::vector<int> to_try;
    for (int worker = 0; worker < order_.workers(); ++worker) to_try.push_back(worker);
    while (!to_try.empty()) {
      const int worker = to_try.back();
      to_try.pop_back();
      const auto w = static_cast<std::size_t>(worker);
      for (; next_[w] < order_.actions[w].size(); ++next_[w]) {
        const Action& action = order_.actions[w][next_[w]];
        const auto ready = ready_seconds(action, worker);
        if (!ready) break;
        perform(action, w, *ready);
        for (const int stage : {action.stage - 1, action.stage + 1})
          if (stage >= 0 && stage < order_.stages() && worker_of(stage, action.micro_batch) != worker) to_try.push_back(worker_of(stage, action.micro_batch));
      }
    }
    require_all_done();
    for (const auto& worker : timing_.workers) timing_.makespan_seconds = std::max(timing_.makespan_seconds, worker.end_seconds);
    return std::move(timing_);
  }

 private:
  std::size_t index(int stage, int micro_batch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(micro_batches_) + static_cast<std::size_t>(micro_batch);
  }
  int worker_of(int stage, int micro_batch) const { return owners_[index(stage, micro_batch)]; }

  std::optional<double> done(const Need& need, int micro_batch) const {
    return (need.pass == Pass::forward ? forward_done_ : gradient_done_)[index(need.stage, micro_batch)];
  }

  /// When what an action needs has come, nothing if it is not on its way yet.
  std::optional<double> ready_seconds(const Action& action, int worker) const {
    double ready = 0;
    for (const Need& need : needs_of(action, order_.stages())) {
      const auto seconds = done(need, action.micro_batch);
      if (!seconds) return std::nullopt;
      ready = std::max(ready, *seconds + (worker_of(need.stage, action.micro_batch) == worker ? 0 : costs_.transfer_seconds));
    }
    return ready;
  }

  void perform(const Action& action, std::size_t w, double ready) {
    const auto stage = static_cast<std::size_t>(action.stage);
    const PassSeconds& cost = costs_.of_stage[stage];
    WorkerTiming& worker = timing_.workers[w];
    const double start = std::max(ready, worker.end_seconds);
    if (next_[w] == 0) worker.begin_seconds = start;
    double seconds = 0;
    if (is_forward(action.pass)) seconds += cost.forward;
    if (gives_input_gradient(action.pass)) seconds += cost.backward_input;
    if (finishes(action.pass)) seconds += cost.backward_weight;
    worker.end_seconds = start + seconds;
    worker.busy_seconds += seconds;
    if (is_forward(action.pass)) forward_done_[index(action.stage, action.micro_batch)] = worker.end_seconds;
    if (gives_input_gradient(action.pass)) gradient_done_[index(action.stage, action.micro_batch)] = worker.end_seconds;
    const int change = is_forward(action.pass) ? 1 : finishes(action.pass) ? -1 : 0;
    worker.in_flight = std::max(worker.in_flight, held_[w] += change);
    timing_.in_flight_of_stage[stage] = std::max(timing_.in_flight_of_stage[stage], held_of_stage_[stage] += change);
  }

  void require_all_done() const {
    std::vector<std::string> waiting;
    for (int worker = 0; worker < order_.workers(); ++worker) {
      const auto w = static_cast<std::size_t>(worker);
      if (next_[w] == order_.actions[w].size()) continue;
      const Action& action = order_.actions[w][next_[w]];
      for (const Need& need : needs_of(action, order_.stages()))
        if (!done(need, action.micro_batch))
          waiting.push_back(fmt::format("worker {} waits in {} for {} of worker {}", worker, to_string(action),
                                        to_string({need.pass, need.stage, action.micro_batch}), worker_of(need.stage, action.micro_batch)));
    }
    if (!waiting.empty()) throw Error(Code::invalid_argument, fmt::format("[pipeline] the order never ends: {}", join(waiting, "; ")));
  }

  const PipelineOrder& order_;
  const PipelineCosts& costs_;
  int micro_batches_ = 0;
  std::vector<int> owners_;                                          ///< by stage and micro-batch: who does it
  std::vector<std::optional<double>> forward_done_, gradient_done_;  ///< by stage and micro-batch
  std::vector<std::size_t> next_;                                    ///< by worker: which action is the next
  std::vector<int> held_, held_of_stage_;
  PipelineTiming timing_;
};

}  // namespace

PipelineCosts uniform_costs(int stages, const PassSeconds& each, double transfer_seconds) {
  return {std::vector<PassSeconds>(static_cast<std::size_t>(stages), each), transfer_seconds};
}

PipelineTiming time_pipeline(const PipelineOrder& order, const PipelineCosts& costs) { return Simulation(order, costs).run(); }

double step_seconds(const PipelineOrder& order, int micro_batches, const PipelineCosts& costs) {
  // By then the first steps' start has run through every worker, however few micro-batches there are to a step.
  const int settled = 2 * order.stages() + 4;
  const auto after = [&](int steps) { return time_pipeline(unroll(order, micro_batches, steps), costs).makespan_seconds; };
  return (after(2 * settled) - after(settled)) / settled;
}

}  // namespace ddl
