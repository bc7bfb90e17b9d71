#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

namespace ddl {

// The words of pipeline parallelism, as used in this folder. The network is cut into S stages; each of P workers holds v of
// them, its chunks, S = Pv. A batch is cut into m micro-batches. Every stage does a forward and a backward pass of every
// micro-batch; the backward of a stage can be done in two parts, the gradient of its input, for which the stage before it
// waits, and the gradient of its weights, for which nobody does.

/// `backward` is both parts at once.
enum class Pass { forward, backward, backward_input, backward_weight };

std::string_view name(Pass pass);
constexpr bool is_forward(Pass pass) { return pass == Pass::forward; }
/// Whether the stage before can go on after it.
constexpr bool gives_input_gradient(Pass pass) { return pass == Pass::backward || pass == Pass::backward_input; }
/// Whether a micro-batch is done with a stage, and what it kept there is let go, after it.
constexpr bool finishes(Pass pass) { return pass == Pass::backward || pass == Pass::backward_weight; }

/// One pass of one micro-batch through one stage.
struct Action {
  Pass pass = Pass::forward;
  int stage = 0;
  int micro_batch = 0;
  /// Of asynchronous orders: in step t it is done on batch t + ahead.
  int ahead = 0;

  auto operator<=>(const Action&) const = default;
};

/// As in messages and dumps: "forward of stage 2, micro-batch 5", and "…, batch +1" where it is ahead.
std::string to_string(const Action& action);

struct PipelineShape {
  int workers = 1;
  int micro_batches = 1;
  int chunks = 1;  ///< stages of each worker

  int stages() const { return workers * chunks; }
};

/// What every worker does in a step, in order. A worker starts an action once the one before it is done and what the action
/// needs of other workers is there.
struct PipelineOrder {
  std::vector<int> worker_of_stage;          ///< the first of its workers
  std::vector<std::vector<Action>> actions;  ///< by worker
  /// Workers of each stage, which stand together and take micro-batches in turn: number r of R those m with m mod R = r (Narayanan et al.,
  /// PipeDream, SOSP 2019, section 3.2). Empty: one each.
  std::vector<int> replicas = {};

  int workers() const { return static_cast<int>(actions.size()); }
  int stages() const { return static_cast<int>(worker_of_stage.size()); }
  int replicas_of(int stage) const { return replicas.empty() ? 1 : replicas[static_cast<std::size_t>(stage)]; }
  /// Who computes a micro-batch in a stage.
  int worker_of(int stage, int micro_batch) const { return worker_of_stage[static_cast<std::size_t>(stage)] + micro_batch % replicas_of(stage); }
  bool operator==(const PipelineOrder&) const = default;
};

/// Stage s on worker s mod P: chunk c of worker w is stage cP + w.
std::vector<int> looped_placement(const PipelineShape& shape);
/// There and back, two chunks a worker: stages w and 2P-1-w on worker w, so that the last stage lies beside the first.
std::vector<int> v_placement(const PipelineShape& shape);

/// The most micro-batches of a stage between their forward and the end of their backward on one of its workers, whatever passes take.
int most_in_flight(const PipelineOrder& order, int stage);

/// Every stage's every micro-batch has, on the stage's worker, one forward, then one backward or its two parts in turn.
/// Empty if so, else what is wrong. It does not look at what workers wait for: timing.h does.
std::vector<std::string> verify(const PipelineOrder& order, int micro_batches);

}  // namespace ddl
