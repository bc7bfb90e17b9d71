#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddl/core/units.h"
#include "ddl/data/dataset.h"
#include "ddl/nn/graph.h"
#include "ddl/train/job.h"

namespace ddl {

class Device;

/// Seconds of one training step of one worker, part by part.
struct PassTimes {
  std::vector<double> forward, backward;  ///< by layer of the network; of inputs 0
  double copy = 0;                        ///< making tensors of a batch
  double loss_forward = 0, loss_backward = 0;
  double update = 0;                      ///< of all parameters
  double whole = 0;
  double wall = 0;                        ///< `whole` by the clock on the wall
  double waited = 0;                      ///< of `wall`, for a core that others had; 0 where the kernel does not say
  double wall_forward = 0;                ///< of `wall`, until the loss was there
};

/// The same of a step that the product's own executor ran, by its trace. Of `whole` waiting for the loader is no part where core time counts.
struct StepTimes {
  double whole = 0;
  double wall = 0, load = 0, copy = 0, forward = 0, backward = 0, update = 0;  ///< by the clock on the wall
};

/// One worker's training steps, made to be timed: those that Executor runs with strategy `single`, and each layer's time is what it takes there, among the others. Forward is timed
/// between layers; backward by hooks on the graph of autograd, each called when the gradient of a layer's result is there. The engine takes operators in the reverse of the order in which
/// they were made, so that what passes until the next call is that layer's. Nothing is run that training does not run: caches, allocator, layout of tensors and
/// what writes over what are as in training.
/// Where a worker is one thread of the processor that never waits, seconds are those for which it had a core (CLOCK_THREAD_CPUTIME_ID): what others do on the machine disturbs them least, and
/// what workers take from each other is measured apart. On a device with a queue of its own layers are timed by points in that queue (Device::mark()) and nobody waits between them: a layer takes
/// what passes on the device until the next is done, and where the host is slower than the device, what it takes to queue it.
/// For a process of its own: it takes the job's threads, device and allocator. Batches are read before the first step, and used again and again.
class TrainingPasses {
 public:
  /// Errors: those of the job's parts; unsupported for networks that are one file.
  TrainingPasses(const Job& job, const Dataset& data);
  /// On that device, whichever the job names.
  TrainingPasses(const Job& job, const Dataset& data, std::unique_ptr<Device> device);
  ~TrainingPasses();
  TrainingPasses(const TrainingPasses&) = delete;
  TrainingPasses& operator=(const TrainingPasses&) = delete;

  PassTimes run();
  /// By the executor, with a loader that reads ahead: of the same network, so that both can be compared. Operation by operation, whatever the job says of graphs.
  StepTimes step();
  /// The same with passes as graphs of the device (pass_graphs.h), where the job asks for such. Nothing of a step that was not: the first three, one of a smaller batch, any where there are none.
  std::optional<StepTimes> step_by_graphs();
  /// Why step_by_graphs() has none: the job, the device, or what was found when they were to be recorded. Empty where it has, or may.
  std::string why_no_graphs() const;
  /// Whether seconds are those of a core.
  bool core_time() const;
  /// What seconds are counted by: "core", "wall", or "device", a queue of its own.
  std::string clock() const;
  const ModelGraph& graph() const;
  Device& device() const;
  /// Making one batch, by itself.
  double loader_seconds() const;
  std::int64_t parameter_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What the parts take of a step that takes as long as most do: the mean over the middle half of the steps, by how long each took as a whole, so that parts add up to the whole. Steps in which
/// the worker waited for a core more than 1 % of the time are left out, but for the quarter that waited least.
PassTimes typical(std::vector<PassTimes> passes);

/// What passes and steps took that were run by turns.
struct PassesAndSteps {
  std::vector<PassTimes> passes;
  std::vector<StepTimes> steps;
  std::vector<double> ratios;  ///< of each turn: its steps over its passes, medians, so that drift is in both
};
/// Until `budget` is over, no fewer than `least` of each, after two of each to warm up.
PassesAndSteps run_by_turns(TrainingPasses& passes, Seconds budget, std::size_t least = 5);

/// Steps whose passes are graphs, until `budget` is over and no fewer than `least`, after those that come before a recording; nothing where there are none (why_no_graphs()).
std::vector<StepTimes> run_by_graphs(TrainingPasses& passes, Seconds budget, std::size_t least = 5);

}  // namespace ddl
