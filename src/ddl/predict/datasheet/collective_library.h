#pragma once

#include <string>
#include <variant>
#include <vector>

#include "ddl/core/json.h"

namespace ddl {

struct Gpu;

/// A few constants, fitted to what a library's all-reduces took: latency and bus bandwidth, which short messages do not reach.
struct FittedCollectives {
  double latency = 0, latency_per_rank = 0, half_bytes = 0, bandwidth = 0, bandwidth_of_two = 0;
  double across_latency = 0, across_latency_per_node = 0;
};

/// What NCCL itself expects when it chooses: the fastest of its algorithms and protocols, each with latencies by wire and a share of the bus (graph/tuning.cc).
struct TuningTable {
  struct Algorithm {
    bool tree = false, capped = false, nvlink_alone = false, plateau = false;
    double base = 0, nvlink = 0, pci = 0, network = 0;  ///< s; the latter three each step
    double share = 0, share_across = 0;                 ///< of the bus
    double overheads = 1;                               ///< times network_overhead that a step within a node costs at least where there is more than one
    std::vector<double> correction = {};                ///< of a tree's bandwidth, by log2(bytes / 64)
  };
  struct Generation {
    double below = 0, plateau = 1;
    std::vector<double> ll_bandwidth = {};  ///< most that protocol LL moves: on one node, two, more
  };
  std::vector<Algorithm> algorithms;
  std::vector<Generation> generations;  ///< by compute capability, ascending
  double network_overhead = 0, channel_bandwidth = 0, plateau_bytes = 0;
};

/// An MPI's: by size one of the textbook algorithms, whose steps cost latency and bytes (Thakur, Rabenseifner & Gropp 2005).
struct DecidedCollectives {
  enum class Algorithm { recursive_doubling, halving_doubling, ring };
  struct Decision {
    double below = 0;  ///< bytes; the last has no end
    Algorithm algorithm = Algorithm::ring;
  };
  std::vector<Decision> decisions;
  double latency = 0, rdma_latency = 0, network_latency = 0, bandwidth = 0, reduce_passes = 0;
};

/// Of a library that knows nothing of GPUs: what Horovod's all-reduces of their memory took through the host's, whatever wires there are.
struct StagedCollectives {
  struct Calls {
    double call = 0, call_per_doubling = 0, per_byte = 0;  ///< s; of ranks; of what a ring moves
  };
  Calls of_two, of_more;
  DecidedCollectives between_processors;  ///< its messages
};

/// What a library's collectives take between devices of a profile: a `ddlbench.library/1` (docs/machine.md). Seconds, bytes.
class CollectiveLibrary {
 public:
  /// `form`: which of the document's descriptions, as its keys are called; empty: the one that it says is used. Errors: not_found, naming library and term; unsupported for a form or an algorithm that is not known.
  static CollectiveLibrary read(const Json& document, std::string form = "");

  /// Of `ranks`, `on_node` of which share a node, the fewest of any; 0 of one rank. `nodes`: how many; 0: as many ranks on each.
  double all_reduce(const Gpu& gpu, double bytes, double ranks, double on_node, double nodes = 0) const;
  /// Before the first byte of a message between nodes is there.
  double message_latency(const Gpu& gpu) const;
  /// Share of a wire between nodes that is reached.
  double network_bandwidth() const { return network_bandwidth_; }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  double network_bandwidth_ = 1;
  std::variant<FittedCollectives, TuningTable, DecidedCollectives, StagedCollectives> form_;
};

/// The one that a profile names (`node.library`); where it names none, NCCL of GPUs and Open MPI of processors. Between GPUs one that is described under Horovod is taken as it is there. Errors: those of find_library() and read().
CollectiveLibrary library_of(const Json& machine);

}  // namespace ddl
