#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddl/collective/communicator.h"
#include "ddl/core/spec.h"
#include "ddl/core/units.h"
#include "ddl/data/dataset.h"
#include "ddl/train/board.h"
#include "ddl/train/job.h"

namespace ddl {

class Device;

// What a machine takes for what is no layer of a network, and what workers lose to each other. Each for a process of its own: they take threads and allocator.
// Of a device with a queue of its own seconds are from before the first call until nothing is queued.

/// Seconds of one update of so many bytes of fp32 parameters, in tensors of at most 1 MiB, none of which lies in a cache: as it is after a backward.
double measure_update(const Spec& optimizer, std::int64_t bytes, Device& device, int threads, Seconds budget);

/// Bytes a second of a = b + s c over three arrays of so many bytes each, counted as McCalpin's STREAM does (three times the array; what a write reads first does not count).
double measure_triad(std::int64_t bytes, Device& device, int threads, Seconds budget);

/// Seconds of one thread that copies so many bytes that were written just before, as gradients go into buckets.
double measure_copy(std::int64_t bytes, Seconds budget);

/// Of a device whose memory is not the host's: seconds of copies of so many bytes, as gradients go between it and memory that it was let at (Device::pin).
struct TransferSeconds {
  double within = 0;    ///< from one place of the device's memory to another
  double download = 0;  ///< to the host
  double upload = 0;
};
TransferSeconds measure_transfers(std::int64_t bytes, Device& device, Seconds budget);

/// Seconds of a layer that has next to nothing to compute: one linear layer of a few elements, done and waited for.
struct LaunchSeconds {
  double forward = 0, backward = 0;
  double queue = 0;  ///< for which the host is busy with one call of next to nothing, nobody waiting for it: what bounds networks of small layers on a device with a queue. On others, the call.
};
LaunchSeconds measure_launch(Device& device, Seconds budget);

/// Times of one process by itself while the others do nothing, which process 0 alone has, and of the same beside the others doing it too. Blocks of both by turns, so that drift hits both alike.
/// `core`: the same in seconds of a core, where one thread does it all; then what they lose to each other is not what others take from all of them.
struct CompanyTimes {
  std::vector<double> alone, together;
  std::vector<double> alone_core, together_core;
  std::vector<double> together_first = {};  ///< of `together`, what its first part took, where that is told
};

/// Training steps of the job's network, each after all have met. Collective: all processes of the board.
CompanyTimes steps_in_company(const Job& job, const Dataset& data, Board& board, int rank, Seconds budget);

/// A convolution that stays in the caches, and a pass over more memory than they hold.
struct LoadTimes {
  CompanyTimes compute, memory;
};
LoadTimes loads_in_company(Device& device, int threads, Board& board, int rank, Seconds budget);

/// The same loads beside all-reduces of the host's memory that go on meanwhile, which every process takes part in, and what becomes of those. Seconds, means. Of a device whose memory is not the
/// host's, each is there first and back afterwards, as buckets of gradients go.
struct BesideTimes {
  double compute_alone = 0, compute_beside = 0;
  double memory_alone = 0, memory_beside = 0;
  double collective_alone = 0, collective_beside_compute = 0, collective_beside_memory = 0;
};
BesideTimes beside_collective(Communicator& group, std::int64_t bytes, Device& device, int threads, Board& board, int rank, Seconds budget);

}  // namespace ddl
