#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "ddl/predict/step/cost_source.h"

namespace ddl {

/// What a worker computes with that waits instead of computing, or one that is slower than its processor.
struct EmulatedDevice {
  std::shared_ptr<const CostSource> profile;  ///< null: the worker is not emulated
  double slow = 1;                            ///< how many times as long as that says it takes; or as the machine's profile does
};

/// Workers of which some are emulated, on a machine that all of them are real processes of: what such a worker computes, updates and copies takes what its own profile says, and none of the
/// machine's cores or memory; messages, collectives, loaders and ddlbench itself take what they take there. What was not measured of the last two is left out: microseconds of a step, and what happens beside it.
/// Threads: one caller.
class EmulatedCosts final : public CostSource {
 public:
  /// `machine` may lack whatever is about computing where all workers are emulated.
  EmulatedCosts(std::unique_ptr<const CostSource> machine, std::vector<EmulatedDevice> workers) : machine_(std::move(machine)), workers_(std::move(workers)) {}

  int place(int worker) const override { return machine_->place(worker); }
  LayerCost layer(int worker, const ModelGraph& graph, std::size_t number, std::int64_t samples) const override;
  LayerCost loss(int worker, const ModelGraph& graph, std::int64_t samples) const override;
  double update(int worker, std::int64_t bytes) const override;
  double copy(int worker, std::int64_t bytes) const override;
  std::int64_t parameter_bytes() const override { return machine_->parameter_bytes(); }
  /// An emulated worker has its gradients from nowhere, and waits for as long as all copies take.
  bool writes_in_place(int worker) const override { return device(worker) == nullptr && machine_->writes_in_place(worker); }
  std::vector<Demand> computing(int worker, StepCosts& resources) const override;
  std::vector<Demand> updating(int worker, std::int64_t held, StepCosts& resources) const override { return device(worker) != nullptr ? std::vector<Demand>{} : machine_->updating(worker, held, resources); }
  TaskCost collective(Goal goal, std::int64_t bytes, const std::vector<int>& workers, StepCosts& resources) const override { return machine_->collective(goal, bytes, workers, resources); }
  TaskCost collective_after(Goal goal, std::int64_t bytes, std::int64_t touched, const std::vector<int>& workers, StepCosts& resources) const override { return machine_->collective_after(goal, bytes, touched, workers, resources); }
  TaskCost numbers(Goal goal, std::int64_t bytes, const std::vector<int>& workers, StepCosts& resources) const override { return machine_->numbers(goal, bytes, workers, resources); }
  TaskCost message(std::int64_t bytes, int from, int to, StepCosts& resources) const override { return machine_->message(bytes, from, to, resources); }
  TaskCost exchange(Goal goal, std::int64_t bytes, const std::vector<int>& workers, StepCosts& resources) const override { return machine_->exchange(goal, bytes, workers, resources); }
  TaskCost activation(std::int64_t bytes, int from, int to, StepCosts& resources) const override { return machine_->activation(bytes, from, to, resources); }
  /// Gradients, which mean nothing, are compressed all the same.
  TaskCost compressing(int worker, const std::string& compression, std::int64_t bytes, int ranks, StepCosts& resources) const override {
    return machine_->compressing(worker, compression, bytes, ranks, resources);
  }
  double load(int worker, std::int64_t samples) const override;
  TaskCost loader(int worker, std::int64_t samples, StepCosts& resources) const override;
  TaskCost harness(int worker, double computes, StepCosts& resources) const override;
  /// Waits do not vary; where all compute themselves, only slower, their steps do as they did.
  Jitter jitter(int workers) const override {
    return std::any_of(workers_.begin(), workers_.end(), [](const EmulatedDevice& each) { return each.profile != nullptr; }) ? Jitter{} : machine_->jitter(workers);
  }

 private:
  /// Null of a worker that is not emulated.
  const EmulatedDevice* device(int worker) const;
  double slow(int worker) const { return workers_.at(static_cast<std::size_t>(worker)).slow; }

  std::unique_ptr<const CostSource> machine_;
  std::vector<EmulatedDevice> workers_;
};

}  // namespace ddl
