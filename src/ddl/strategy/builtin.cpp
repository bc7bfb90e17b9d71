#include "ddl/strategy/builtin.h"

namespace ddl {

Registry<Strategy> builtin_strategies() {
  Registry<Strategy> strategies("strategy");
  strategies.add({"single", "one worker: the reference", single});
  strategies.add({"data", "synchronous data parallelism, gradients all-reduced in buckets while backward runs", data_parallel});
  return strategies;
}

}  // namespace ddl
