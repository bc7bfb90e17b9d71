#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

namespace ddl {

/// A place in the order of a graph's work (Device::milestone()): each launch passes it anew. Copies refer to the same one.
class Milestone {
 public:
  struct State {
    virtual ~State() = default;
  };
  Milestone() = default;
  explicit Milestone(std::shared_ptr<State> state) : state_(std::move(state)) {}

  /// What the device that made it keeps of it; null where there is none.
  State* state() const { return state_.get(); }

 private:
  std::shared_ptr<State> state_;
};

/// Work of a device that was recorded once and is done again as often as it is launched, as it was: the same operations, of the same sizes, at
/// the same places in memory, with the same numbers where those came from the host. None of the host's own work is. What is to differ from
/// launch to launch therefore lies in tensors that were there before and stay.
class DeviceGraph {
 public:
  /// What the work made that is read after it: in these places from launch to launch.
  using Work = std::function<std::vector<at::Tensor>()>;

  virtual ~DeviceGraph() = default;
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  /// Queues all of it, in order with what else is computed. Errors: c10::Error.
  virtual void launch() = 0;
  /// Garbage before the first launch.
  virtual const std::vector<at::Tensor>& made() const = 0;

 protected:
  DeviceGraph() = default;
};

}  // namespace ddl
