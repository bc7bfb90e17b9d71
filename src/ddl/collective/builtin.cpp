#include "ddl/collective/algorithms/algorithms.h"
#include "ddl/collective/communicator.h"

namespace ddl {

Registry<CollectiveAlgorithm> builtin_collectives() {
  Registry<CollectiveAlgorithm> registry("collective");
  registry.add({"ring", "all-reduce around a ring; even load on every link", {Goal::all_reduce, ring_all_reduce}});
  registry.add({"direct", "all-reduce, each rank one slice from all others", {Goal::all_reduce, direct_all_reduce}});
  registry.add({"broadcast", "binomial tree from the root", {Goal::broadcast, binomial_broadcast}});
  registry.add({"barrier", "dissemination, empty messages", {Goal::barrier, dissemination_barrier}});
  return registry;
}

}  // namespace ddl
