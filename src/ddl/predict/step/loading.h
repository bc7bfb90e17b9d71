#pragma once

#include <optional>
#include <vector>

namespace ddl {

/// Where a step's batches come from: loaders, and storage that they read, each a source of so much a second and no more.
struct Loading {
  int threads = 1;              ///< of each worker's loader, which make batches beside each other; 0: the worker makes each before its step
  double sample_bytes = 0;      ///< that are read from storage for a sample; 0: samples are in memory
  double bytes_per_s = 0;       ///< that storage gives all workers of a place together
  double read_seconds = 0;      ///< what reading a sample takes besides, in the thread that waits for it
  std::vector<int> places = {};  ///< of workers, by number: those at one share storage; empty: all of them
  std::optional<double> making = {};  ///< s, of a thread, to make a sample of what it has read; none: as the machine says
};

}  // namespace ddl
