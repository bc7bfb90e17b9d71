#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ddl/train/executor.h"
#include "ddl/train/executor_step.h"
#include "ddl/train/weight_versions.h"

namespace ddl {

/// What an asynchronous plan keeps from step to step.
struct Executor::Asynchronous {
  Asynchronous(const Plan& plan, int worker, Network& network, Optimizer& optimizer);

  int depth = 0;                 ///< batches that this worker is ahead of its updates, at most
  std::vector<int> shift;        ///< by task that sends: how many steps after this one the receiver takes it up
  WeightVersions versions;
  bool began = false;
  bool over = false;             ///< there are no more batches to load
  int deepest = 0;               ///< the most batches that any worker is ahead
  /// The step after which all stop, once they know: what was begun is ended by everybody, so that no message is left that nobody takes.
  std::optional<std::int64_t> stops_after = {};
  std::map<std::int64_t, std::shared_ptr<const Batch>> batches = {};

  /// A message that a step left on its way.
  struct Sent {
    std::vector<Step::Message> messages;
    std::vector<Handle> handles;
    Span span;
  };
  std::vector<Sent> sent = {};

  /// What the others say of a step is known some steps later: nobody waits for it while the pipeline is full.
  struct Control {
    std::array<double, 3> values{};
    Handle handle = {};
  };
  std::size_t lag = 1;
  std::deque<std::unique_ptr<Control>> controls = {};
};

}  // namespace ddl
