#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/edge.h>

#include "ddl/data/loader.h"
#include "ddl/nn/network.h"
#include "ddl/plan/plan.h"
#include "ddl/strategy/stages.h"
#include "ddl/train/deferred_statistics.h"
#include "ddl/train/device.h"
#include "ddl/train/objective.h"
#include "ddl/train/part_move.h"
#include "ddl/train/recipe.h"
#include "ddl/train/split_backward.h"

namespace ddl {

class Replay;

/// Computes the stages that a worker holds, micro-batch by micro-batch: each has a graph of autograd of its own between the values that it was
/// given and those that leave it. What crosses to a stage of the same worker stays here; the rest is fetched and brought by whoever moves messages.
///
/// What is kept between forward and backward: what the stage was given, and what autograd keeps. What left a stage is not among it.
class StageRunner {
 public:
  /// All but the plan are kept by reference. The network has the layers of the stages that tasks of the plan's worker are of. `replay`: of an emulated worker, whose network it replays.
  StageRunner(Network& network, Device& device, const Recipe& recipe, const Plan& plan, Replay* replay = nullptr);

  /// `graph` with what a network of `stages` must not do: write over a value that came from another stage.
  static ModelGraph prepare(ModelGraph graph, const std::vector<Stage>& stages);

  /// Whether some micro-batch has its backward to come.
  bool in_flight() const { return !flights_.empty(); }

  /// Forgets what a step left, one that failed included. Asynchronous plans do not call it between their steps.
  void begin_step();
  /// Once all forwards are done: batch statistics that were deferred are up to date.
  void end_step();

  /// Samples [begin, end) of the batch. What other stages made must be there. Tells of the time that copies to the device took.
  void forward(const Task& task, const Batch& batch, std::int64_t begin, std::int64_t end);
  /// The same of a network in one stage, of samples that are on the device. No time is told.
  void forward(const Task& task, Example given);
  /// What the last stage lost on a micro-batch, a sum; undefined of other stages.
  at::Tensor loss(const Task& task) const;
  /// Adds to the gradients of parameters. The loss's own counts `scale`. What other stages found must be there.
  void backward(const Task& task, double scale);
  /// The same with a scale that is on the device: a scalar of any type.
  void backward(const Task& task, const at::Tensor& scale);
  /// The same in two parts (split_backward.h): the gradients of what the stage was given, then those of parameters. Where nothing that it was given
  /// learns, the second does all.
  void backward_input(const Task& task, double scale);
  void backward_weight(const Task& task, double scale);

  /// What a send task sends: dense tensors, taken out of here.
  std::vector<at::Tensor> leaving(const Task& task);
  /// What a receive task is to fill, for so many samples: dense tensors. They count as there from then on.
  std::vector<at::Tensor> arriving(const Task& task, std::int64_t samples);

  /// What the parts of a split network exchange at the beginning of a stage: taken out of here, and brought back when it is done. Nothing where the micro-batch has no samples.
  std::optional<PartMove> begin_exchange(const Task& task);
  void end_exchange(const Task& task, PartMove& move);

  /// Moments between which the last forward copied its samples to the device.
  const std::pair<Moment, Moment>& copied() const { return copied_; }

 private:
  /// A value that goes from stage to stage: which crossing, and which of its values. kNone for what an exchange made of one.
  struct Place {
    int crossing;
    std::size_t value;
  };
  /// The exchange that a stage begins with.
  struct Lead {
    const PartExchange* how = nullptr;
    Place from = {};           ///< what is exchanged
    bool alone = false;        ///< no other layer of the stage reads that
    bool overwrites = false;   ///< nor anybody else, so that its memory is free
  };
  struct Flight {
    NetworkInput input = {};
    at::Tensor expected = {};
    std::vector<std::pair<Place, at::Tensor>> given = {};              ///< leaves of this stage's graph
    std::vector<std::pair<Place, torch::autograd::Edge>> left = {};    ///< where the gradients of what left come in
    at::Tensor loss = {};
    bool recompute = false;
    std::vector<at::Tensor> weights = {};  ///< that its forward was computed with
  };
  using Key = std::pair<int, int>;  ///< crossing or stage, and micro-batch
  using Values = std::map<Key, std::vector<at::Tensor>>;

  void find_leads(const Plan& plan);
  PartMove move_of(int stage, bool forward, at::Tensor from) const;
  void take_back(int stage, int micro_batch, const at::Tensor& gradient);
  int crossing_of(const Task& task) const;
  int layer_of(int stage, const Place& place) const;
  bool learns(int stage, const Place& place) const;
  Flight begin(const Task& task, const Batch& batch, std::int64_t first, std::int64_t last);
  void advance(const Task& task, Flight flight, std::int64_t samples);
  std::vector<at::Tensor> run(int stage, Flight& flight);
  void keep(int stage, Flight& flight, const std::vector<at::Tensor>& values, Values* outputs, int micro_batch);
  at::Tensor loss_of(const NetworkOutput& output, const Flight& flight);
  void run_again(int stage, Flight& flight);
  /// The scale of the loss's own gradient: a number, or a scalar on the device.
  using Scale = std::variant<double, at::Tensor>;
  LateGradients roots(const Task& task, Flight& flight, const Scale& scale);
  void go_backward(const Task& task, const Scale& scale);
  void hand_back(const Task& task, Flight& flight);
  at::Tensor dense(const at::Tensor& value) const;

  Network& network_;
  Device& device_;
  const Recipe& recipe_;
  Replay* replay_;
  bool asynchronous_;
  std::vector<Stage> stages_;
  std::vector<Crossing> crossings_;
  std::vector<std::vector<int>> inputs_;    ///< input layers that each stage reads
  std::vector<at::ScalarType> types_;       ///< of each layer's value; empty where nothing crosses
  std::vector<Lead> leads_;                 ///< by stage
  std::optional<DeferredStatistics> deferred_;
  std::vector<std::size_t> cuts_;           ///< where recomputed segments of a single stage begin and end; empty: none
  std::map<Key, Flight> flights_;           ///< by stage
  std::map<Key, LateGradients> late_;       ///< by stage: between the two parts of backward
  std::map<int, at::Tensor> losses_;        ///< by micro-batch, detached
  Values activations_, gradients_;          ///< by crossing: on their way
  std::map<Key, at::Tensor> exchanged_;           ///< by stage: what its exchange made
  std::map<Key, at::Tensor> exchange_gradients_;  ///< by stage: of that
  std::pair<Moment, Moment> copied_;
};

}  // namespace ddl
