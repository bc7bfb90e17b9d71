#pragma once

#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/measure/core_claims.h"
#include "ddl/train/job.h"

namespace ddl {

/// Keeps the threads that a worker computes with on cores of their own while it lives: as the job's `pin` says, where the workers of this machine have a core for each of their threads
/// and no other run has those (docs/decisions/036-workers-on-cores-of-their-own.md). Threads that are started meanwhile are bound with it, unless within roam().
/// Threads: those that compute, which wait for it; made and destroyed on one of them, after at::set_num_threads().
class Pinning {
 public:
  /// What it cannot do it leaves undone, and says so in json().
  Pinning(const Job& job, int rank);
  ~Pinning();
  Pinning(const Pinning&) = delete;
  Pinning& operator=(const Pinning&) = delete;

  /// {bound: [the processing unit of each thread], not_bound: null}, or {bound: null, not_bound: why}.
  Json json() const;

  /// While it lives the calling thread, and all that it starts, may use every core that the process may.
  class Roaming {
   public:
    explicit Roaming(const Pinning& pinning);
    ~Roaming();
    Roaming(const Roaming&) = delete;
    Roaming& operator=(const Roaming&) = delete;

   private:
    const Pinning& pinning_;
  };
  /// For a thread that was started by one that computes: the same, for good.
  void release_this_thread() const noexcept;
  [[nodiscard]] Roaming roam() const { return Roaming(*this); }

 private:
  /// Why it is not to be, or nothing.
  std::string bind(const Job& job, int rank);

  std::vector<int> allowed_, bound_;  ///< bound_: empty where it is not
  CoreClaims claims_;
  std::string not_bound_;
};

/// Of the workers on the machine of `rank` those that compute on its processor, in order.
std::vector<int> computing_workers(const Job& job, int rank);

}  // namespace ddl
