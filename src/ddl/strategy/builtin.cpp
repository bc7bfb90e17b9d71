#include "ddl/strategy/builtin.h"

namespace ddl {

Registry<Strategy> builtin_strategies() {
  Registry<Strategy> strategies("strategy");
  strategies.add({"single", "one worker: the reference", single});
  strategies.add({"data", "synchronous data parallelism, gradients all-reduced in buckets while backward runs", data_parallel});
  strategies.add({"model", "layers over workers, one worker computing at a time", model_parallel});
  strategies.add({"pipeline", "layers over workers, micro-batches one behind the other: GPipe, 1F1B, interleaved, looped, PipeDream's", pipeline});
  strategies.add({"tensor", "each layer over all workers: Megatron's heads and hidden features, channels, rows, or any dimensions by name", tensor_parallel});
  strategies.add({"sharded", "data parallelism with optimizer, gradients and parameters in parts: ZeRO 1, 2 and 3 (FSDP)", sharded});
  strategies.add({"hybrid", "a mesh of workers: data x pipeline x tensor x sharded", hybrid});
  strategies.add({"local", "each worker trains alone, parameters are averaged now and then: local SGD, post-local, gossip", local_sgd});
  strategies.add({"parameter-server", "parameters live with servers: synchronous, asynchronous, or stale by a bounded number of steps", parameter_server});
  return strategies;
}

}  // namespace ddl
