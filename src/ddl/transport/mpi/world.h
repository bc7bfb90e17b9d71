#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ddl/core/units.h"
#include "ddl/transport/mpi/module.h"
#include "ddl/transport/mpi/processes.h"
#include "ddl/transport/rendezvous.h"

namespace ddl {

/// How long MPI itself may take to start: all processes of a large job.
inline constexpr Seconds kMpiStart{120};

class MpiRendezvous;

/// The processes that one mpirun or srun started. An MPI starts and ends once a process, so there is one of these: join()
/// makes it, and the end of the process leaves it.
/// What MPI does by itself (starting, making a communicator, its own collectives, ending) cannot be left. Where it takes longer
/// than it may, this process says so, and who is gone as far as it can see, and ends the job.
class MpiWorld {
 public:
  /// `implementation`: as choose_mpi(); a later call with another one fails.
  /// Errors: those of choose_mpi() and load_mpi(); io for what MPI says; unsupported for an MPI that does not let several
  /// threads call it at once; invalid_argument for a second implementation; peer_lost, timeout.
  static MpiWorld& join(const std::string& implementation, Seconds timeout = kMpiStart);

  /// Whether the end of the process will leave one: such a process must end by exit().
  static bool is_joined() noexcept;

  /// For a process that ends by _exit(): leaves now, if it has joined. Waits for the others, as the end of the process does,
  /// but not for one whose process has ended or stays stopped: then the job ends.
  static void leave_now() noexcept;

  const mpi::Module& mpi() const { return *mpi_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& implementation() const { return implementation_; }
  /// What the library says it is, in one line.
  const std::string& library() const { return library_; }

  /// A communicator of `world_ranks` in that order, called by each of them with one `tag`.
  mpi::Handle group(const std::vector<int>& world_ranks, int tag, Seconds timeout);
  const RankProcesses& processes() const { return processes_; }
  /// "rank 1's process has ended": what can be seen of who does not come, for those who cannot be left.
  std::string who_is_gone(const std::vector<int>& world_ranks) const;
  /// Of what is made here: for tags.
  int next_number() { return number_++; }
  /// A group failed: the others may not come to the end, so that this process waits only some seconds for them.
  void mark_broken() { broken_ = true; }

  /// Messages of a failed group are on their way out of its caller's memory, or into it, and cannot be called back: from now on MPI
  /// is not to be led on, by no group, and this process ends without it.
  void mark_lent(const std::string& why) noexcept;
  bool lent() const { return lent_; }
  /// Why the first group failed that left messages so.
  std::string lent_since() const;

  /// Errors: io, where `number` is not 0.
  void check(int number, const char* what) const;
  std::string text_of(int number, mpi::Trouble* trouble = nullptr) const;

  /// Says `why` and ends all processes of the job.
  [[noreturn]] void end_job(const std::string& why) noexcept;

 private:
  MpiWorld(const std::string& implementation, Seconds timeout);
  ~MpiWorld();
  void leave() noexcept;

  std::string implementation_;
  std::string library_;
  const mpi::Module* mpi_ = nullptr;
  int rank_ = 0;
  int size_ = 1;
  std::unique_ptr<MpiRendezvous> last_;  // where all meet before the end
  RankProcesses processes_;
  std::atomic<int> number_{0};
  std::atomic<bool> broken_{false};
  std::atomic<bool> lent_{false};
  mutable std::mutex lent_mutex_;
  std::string lent_since_;
  bool left_ = false;
  int started_by_ = 0;  // process
};

/// Where the launcher's processes meet: rank and size are the world's, and the words go through MPI. Every transport can be
/// made with one, so that mpirun and srun start tcp and shm, too. Called by all processes alike, or by `world_ranks` alone, in
/// whose order they then are.
/// `timeout` is for MPI's part: its start, and the making of a communicator. The exchanges are told theirs; where those who are
/// awaited have all ended, that is said at once.
/// Errors: those of MpiWorld::join().
std::unique_ptr<Rendezvous> mpi_rendezvous(const std::string& implementation = {}, std::vector<int> world_ranks = {}, Seconds timeout = kMpiStart);

}  // namespace ddl
