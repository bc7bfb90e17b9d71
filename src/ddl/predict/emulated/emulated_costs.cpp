#include "ddl/predict/emulated/emulated_costs.h"

#include "ddl/core/error.h"

namespace ddl {
namespace {

LayerCost times(double factor, LayerCost cost) { return {factor * cost.forward, factor * cost.backward_input, factor * cost.backward_weight}; }

/// Nothing where it was not measured.
template <typename Body>
auto if_known(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.code() != Code::not_found) throw;
    return {};
  }
}

}  // namespace

const EmulatedDevice* EmulatedCosts::device(int worker) const {
  const auto& found = workers_.at(static_cast<std::size_t>(worker));
  return found.profile ? &found : nullptr;
}

LayerCost EmulatedCosts::layer(int worker, const ModelGraph& graph, std::size_t number, std::int64_t samples) const {
  const auto* const own = device(worker);
  return times(slow(worker), (own != nullptr ? *own->profile : *machine_).layer(worker, graph, number, samples));
}

LayerCost EmulatedCosts::loss(int worker, const ModelGraph& graph, std::int64_t samples) const {
  const auto* const own = device(worker);
  return times(slow(worker), (own != nullptr ? *own->profile : *machine_).loss(worker, graph, samples));
}

double EmulatedCosts::update(int worker, std::int64_t bytes) const {
  const auto* const own = device(worker);
  return slow(worker) * (own != nullptr ? *own->profile : *machine_).update(worker, bytes);
}

double EmulatedCosts::copy(int worker, std::int64_t bytes) const {
  const auto* const own = device(worker);
  return slow(worker) * (own != nullptr ? *own->profile : *machine_).copy(worker, bytes);
}

std::vector<Demand> EmulatedCosts::computing(int worker, StepCosts& resources) const {
  return device(worker) != nullptr ? std::vector<Demand>{} : machine_->computing(worker, resources);
}

double EmulatedCosts::load(int worker, std::int64_t samples) const {
  return device(worker) == nullptr ? machine_->load(worker, samples) : if_known([&] { return machine_->load(worker, samples); });
}

TaskCost EmulatedCosts::loader(int worker, std::int64_t samples, StepCosts& resources) const {
  return device(worker) == nullptr ? machine_->loader(worker, samples, resources) : if_known([&] { return machine_->loader(worker, samples, resources); });
}

TaskCost EmulatedCosts::harness(int worker, double computes, StepCosts& resources) const {
  return device(worker) == nullptr ? machine_->harness(worker, computes, resources) : if_known([&] { return machine_->harness(worker, computes, resources); });
}

}  // namespace ddl
