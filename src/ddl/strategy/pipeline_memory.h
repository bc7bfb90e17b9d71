#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "ddl/plan/holdings.h"
#include "ddl/strategy/pipeline/order.h"

namespace ddl {

/// What a stage of an order has to do with memory, of one micro-batch where it depends on that. Bytes.
struct StageBytes {
  std::int64_t given = 0;              ///< came from other stages
  std::int64_t made = 0;               ///< kept for backward; of the last stage, with what the loss keeps
  std::int64_t late = 0;               ///< made besides when backward begins: by the loss's
  std::int64_t gradients = 0;          ///< of its parameters that are in no bucket: there from its first backward on
  std::int64_t largest_parameter = 0;  ///< of which autograd has a gradient of its own while it is added to what is there, or goes to a bucket
};

/// Fills in activations and gradients as they are at the worst moment of the actions of one worker: after a forward, when a backward has begun, or when it is over.
/// `again`: whether what a micro-batch's forward made is dropped, and made again by its backward. Of an asynchronous order what steps before left in flight is
/// there when a step begins. holds.buckets is read: whether gradients go there.
void hold_worst(const std::vector<Action>& actions, const std::map<int, StageBytes>& stages, const std::function<bool(int micro_batch)>& again, Holdings& holds);

}  // namespace ddl
