#include <algorithm>
#include <cmath>
#include <limits>

#include "ddl/core/error.h"
#include "ddl/core/units.h"
#include "ddl/strategy/partition/blocks.h"
#include "ddl/strategy/partition/pipedream_solver.h"

namespace ddl {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Some hundredths of a second. Rounds double the blocks until one more might cost more than that.
constexpr std::int64_t kOperations = 10'000'000;
constexpr int kFirstBlocks = 32;
// Numbers of stages under a memory limit: each up to the first, then half as many again each time, up to the second.
constexpr int kEveryNumber = 16, kMostStages = 32;

[[noreturn]] void fail(const std::string& what) { throw Error(Code::invalid_argument, "[partition] pipedream: " + what); }

int workers_of(const PartitionInput& input) {
  if (input.machines.empty()) fail("levels of machines; got none, expected one or more");
  int workers = 1;
  for (const auto& level : input.machines) {
    if (level.count < 1) fail(fmt::format("machines of a level; got {}, expected 1 or more", level.count));
    if (!(level.bandwidth > 0)) fail(fmt::format("bandwidth of a level; got {}, expected more than 0 bytes per second", level.bandwidth));
    if (workers > 4096 / level.count) fail("workers of all levels; got more than 4096, expected 4096 at most");
    workers *= level.count;
  }
  if (!(input.exchanges >= 0)) fail(fmt::format("exchanges of gradients per micro-batch; got {}, expected 0 or more", input.exchanges));
  return workers;
}

/// Bytes of the worker that holds the most, at least: with more workers to a stage each holds as much.
double least_memory(const PartitionInput& input, int stages) {
  auto whole = input;
  whole.stages = stages;
  return partition_by_memory(whole).largest;
}

void require_memory(const PartitionInput& input, double least, int stages) {
  if (least <= input.memory_limit) return;
  fail(fmt::format("nothing fits into the memory of a worker; got a limit of {}, expected {} or more, which {} stages need",
                   to_string(Bytes{static_cast<std::int64_t>(input.memory_limit)}), to_string(Bytes{static_cast<std::int64_t>(std::ceil(least))}),
                   stages));
}

bool fits(const PartitionInput& input, const Partition& partition) {
  // Stages begin at layers, which are blocks of a network with cuts there alone.
  Intervals layers(input.costs);
  const int stages = static_cast<int>(partition.cuts.size());
  std::vector<int> starts;
  for (int place = 0; place < layers.size(); ++place)
    if (std::binary_search(partition.cuts.begin(), partition.cuts.end(), layers.layer(place))) starts.push_back(place);
  layers.keep(starts);
  for (int stage = 0; stage < stages; ++stage)
    if (layers.held_bytes(stage, stage + 1, input.in_flight(stage, stages)) > input.memory_limit) return false;
  return true;
}

std::vector<int> numbers_to_try(int most) {
  most = std::min(most, kMostStages);
  std::vector<int> numbers;
  for (int stages = 1; stages < most; stages += stages < kEveryNumber ? 1 : stages / 2) numbers.push_back(stages);
  numbers.push_back(most);
  return numbers;
}

/// The best that is faster than `bound`, or one without cuts.
Partition search(const PartitionInput& input, const Intervals& layers, int stages, std::int64_t most_operations, double bound) {
  double fastest = 0;
  for (const auto& level : input.machines) fastest = std::max(fastest, level.bandwidth);
  int workers = 1;
  for (const auto& level : input.machines) workers *= level.count;
  const auto wanted = wanted_starts(input, layers, stages == 0 ? std::min({workers, layers.size(), kMostStages}) : stages);
  const auto order = merging_order(layers, fastest, wanted);
  // Runs that begin anywhere are asked for below the top: twice the blocks are eight times the work, else four times.
  const std::int64_t growth = input.machines.size() > 1 ? 8 : 4;
  Partition best;
  for (int count = std::min(layers.size(), std::max(kFirstBlocks, static_cast<int>(wanted.size()) + 1));; count = std::min(layers.size(), 2 * count)) {
    auto blocks = layers;
    blocks.keep(starts_of_blocks(order, count));
    PipedreamSolver solver(input, blocks, stages);
    if (const auto found = solver.solve(bound); !found.cuts.empty()) {
      best = found;
      bound = best.largest;
    }
    if (count == layers.size() || growth * solver.operations() > most_operations) return best;
  }
}

}  // namespace

/// Stages of neighbouring layers, and how many workers share the samples of each, for machines in levels; the slowest stage or transfer is
/// as fast as can be. With W_k components at level k, each of which is W_{k-1} of level k-1, and bandwidth B_k between them:
///
///   A^0(i→j)    = seconds forward and backward of layers i to j on one worker, if their bytes fit into its memory
///   T^k(i→j, m) = max(A^{k-1}(i→j, W_{k-1}), 2(m-1)/m * bytes of parameters / B_k) / m       one stage with m replicas
///   A^k(i→j, m) = min(T^k(i→j, m), min over s, m' of max(A^k(i→s-1, m-m'), bytes that cross before s / B_k, T^k(s→j, m')))
///
/// the result is A^K of all layers and workers, which are all used: one stage with a replica on each where plain data parallelism is best.
/// Bytes that cross are values forward and gradients backward. Replicas exchange gradients in a ring while others compute.
/// With a number of stages q, or a limit of memory, A also counts stages, min over q' of A(…, q-q') and T(…, q'): of a stage's place depend
/// its micro-batches in flight.
/// Exact while the network has few layers or workers: it is solved over 32 blocks of layers, then twice as many, up to single layers, each
/// time only for what can beat the result before, until that might take more than about 10 million operations.
/// With a limit and any number of stages, these are tried one by one: each number to 16, some to 32. That may take seconds.
/// A parameter that stages share counts in each; their exchange of it is not counted.
/// Errors:  invalid_argument for impossible machines and numbers of stages; where nothing fits into memory, with what would.
/// Source:  Narayanan et al., PipeDream, SOSP 2019, section 3.1. Bytes of an exchange are those that one of m workers of a ring sends.
Partition partition_pipedream(const PartitionInput& input) {
  const Intervals layers(input.costs);
  const int workers = workers_of(input);
  const int most = std::min(workers, layers.size());
  if (input.stages != 0) {
    require_stages(input, layers.size());
    if (input.stages > workers)
      fail(fmt::format("a stage has a worker or more; got {} stages for {} workers, expected 0 (any number) or 1 to {}", input.stages, workers, most));
  }
  if (input.stages != 0) require_memory(input, least_memory(input, input.stages), input.stages);
  if (input.stages != 0 || input.memory_limit == kNever) return search(input, layers, input.stages, kOperations, kNever);
  // Where the best of all partitions fits, it is the best of those that fit; else nothing can be faster than it.
  auto unlimited = input;
  unlimited.memory_limit = kNever;
  const auto fastest = search(unlimited, layers, 0, kOperations, kNever);
  if (fits(input, fastest)) return fastest;
  Partition best;
  best.largest = kNever;
  double least = kNever;
  int least_stages = 1;
  for (const int stages : numbers_to_try(most)) {
    if (best.largest <= fastest.largest) break;
    const double needs = least_memory(input, stages);
    if (needs < least) {
      least = needs;
      least_stages = stages;
    }
    if (needs > input.memory_limit) continue;
    if (const auto found = search(input, layers, stages, kOperations / std::min(most, kEveryNumber), best.largest); !found.cuts.empty()) best = found;
  }
  require_memory(input, least, least_stages);
  return best;
}

}  // namespace ddl
