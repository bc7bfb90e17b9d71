#pragma once

#include <string>
#include <vector>

#include "ddl/nn/graph.h"
#include "ddl/plan/plan.h"
#include "ddl/predict/step/loading.h"
#include "ddl/predict/step/step_costs.h"

namespace ddl {

/// Seconds of one layer, for so many samples at once.
struct LayerCost {
  double forward = 0;
  double backward_input = 0;   ///< the gradient of what it was given
  double backward_weight = 0;  ///< of its parameters
  double backward() const { return backward_input + backward_weight; }

  LayerCost& operator+=(const LayerCost& other) {
    forward += other.forward;
    backward_input += other.backward_input;
    backward_weight += other.backward_weight;
    return *this;
  }
};

/// What a machine takes for the parts of a step: measured, from a datasheet, or made up. Errors: not_found for what it does not know, naming the term and the probe that
/// measures it.
class CostSource {
 public:
  virtual ~CostSource() = default;
  /// The node or host that a worker is on: between two of them messages go over wires.
  virtual int place(int /*worker*/) const { return 0; }
  /// Of a layer of a worker's network, `worker` being its number.
  virtual LayerCost layer(int worker, const ModelGraph& graph, std::size_t number, std::int64_t samples) const = 0;
  /// A collective of `bytes`, the whole buffer, between these workers.
  virtual TaskCost collective(Goal goal, std::int64_t bytes, const std::vector<int>& workers, StepCosts& resources) const = 0;
  /// The same where each worker has touched `touched` bytes of parameters, and as many of their gradients, since the first byte of what it moves was last touched: no fewer than `bytes`, which collective() takes.
  virtual TaskCost collective_after(Goal goal, std::int64_t bytes, std::int64_t /*touched*/, const std::vector<int>& workers, StepCosts& resources) const { return collective(goal, bytes, workers, resources); }
  /// The same of votes and norms, a few numbers, for which no algorithm is asked.
  virtual TaskCost numbers(Goal goal, std::int64_t bytes, const std::vector<int>& workers, StepCosts& resources) const { return collective(goal, bytes, workers, resources); }
  virtual TaskCost message(std::int64_t bytes, int from, int to, StepCosts& resources) const = 0;
  /// The same of what layers make: it lies in memory that is not the transport's, and is copied on its way.
  virtual TaskCost exchange(Goal goal, std::int64_t bytes, const std::vector<int>& workers, StepCosts& resources) const { return collective(goal, bytes, workers, resources); }
  virtual TaskCost activation(std::int64_t bytes, int from, int to, StepCosts& resources) const { return message(bytes, from, to, resources); }
  /// What a rank itself does of an all-reduce of so many bytes of gradients under a compression, as users write it, between so many: all of it but its collectives.
  virtual TaskCost compressing(int worker, const std::string& compression, std::int64_t bytes, int ranks, StepCosts& resources) const = 0;
  /// The optimizer's step over so many bytes of parameters.
  virtual double update(int worker, std::int64_t bytes) const = 0;
  /// A copy of gradients or parameters of so many bytes within memory.
  virtual double copy(int worker, std::int64_t bytes) const = 0;
  /// Of a parameter, and of its gradient.
  virtual std::int64_t parameter_bytes() const { return 4; }
  /// Whether a worker's products write gradients of weights where they are gathered, or add them there, so that none is copied (nn/matrix_products.h).
  virtual bool writes_in_place(int) const { return false; }
  /// The loss of so many samples, forward and backward.
  virtual LayerCost loss(int worker, const ModelGraph& graph, std::int64_t samples) const = 0;
  /// Handing over a batch that the loader has ready, and making one, of so many samples.
  virtual double load(int worker, std::int64_t samples) const = 0;
  virtual TaskCost loader(int worker, std::int64_t samples, StepCosts& resources) const = 0;
  /// What is no task of a step: ddlbench's own bookkeeping. `computes`: s, how long the worker computes a step, or in its place waits; what it does for batches is not in it.
  virtual TaskCost harness(int worker, double computes, StepCosts& resources) const = 0;
  /// What a worker uses of shared resources while it computes, updates or copies; nothing where workers share nothing.
  virtual std::vector<Demand> computing(int, StepCosts&) const { return {}; }
  /// The same while it updates, of `held` bytes of parameters in all.
  virtual std::vector<Demand> updating(int worker, std::int64_t /*held*/, StepCosts& resources) const { return computing(worker, resources); }
  /// How what so many workers compute at once varies; none where that is not known.
  virtual Jitter jitter(int) const { return {}; }
};

/// Seconds of each layer of a network for so many samples: forward, and both parts of backward.
struct NetworkSeconds {
  std::vector<double> forward, backward;
};
/// On one worker. Errors: the source's.
NetworkSeconds layer_seconds(const CostSource& source, int worker, const ModelGraph& graph, std::int64_t samples);

/// Costs of every task of a plan of that network, `graph` being what one worker holds of it (a part, where it is split), for a global batch of so many samples. `compression`: what gradients are
/// compressed by (compressed.h); empty: nothing. `shares`: in what proportions workers, which are the actors then, share the batch; empty: alike.
StepCosts step_costs(const Plan& plan, const ModelGraph& graph, std::int64_t batch, const std::vector<Actor>& actors, const CostSource& source, const Loading& loading = {},
                     const std::string& compression = "", const std::vector<std::int64_t>& shares = {});

}  // namespace ddl
