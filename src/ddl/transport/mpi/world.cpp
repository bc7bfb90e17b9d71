#include "ddl/transport/mpi/world.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include <fmt/ranges.h>

#include "ddl/core/error.h"
#include "ddl/core/numbers.h"
#include "ddl/transport/check.h"
#include "ddl/transport/deadline.h"
#include "ddl/transport/mpi/implementations.h"
#include "ddl/transport/mpi/launcher.h"
#include "ddl/transport/mpi/watchdog.h"

namespace ddl {
namespace {

/// How long a process whose group failed waits for the others at its end, and any process for a stopped one there.
constexpr Seconds kLastWait{5};
/// How long a process that ends without MPI lets the others speak.
constexpr Seconds kLastWords{1};
/// How long MPI's own end may take once all have come to it.
constexpr Seconds kFinish{10};
/// How often those who wait look whether the others' processes still run.
constexpr Nanoseconds kLook = 100'000'000;
constexpr int kLengthTag = 1, kTextTag = 2;
/// How long a waiting rank yields between its looks, and how long it sleeps from then on.
constexpr Nanoseconds kYield = 2'000'000;
constexpr unsigned kNapMicroseconds = 50;
constexpr int kGroupTag = 0x7fff;
/// No rendezvous says more.
constexpr std::uint64_t kMost = 1 << 20;

std::mutex joining;
MpiWorld* joined = nullptr;

/// Ends this process even where MPI's own end hangs.
void exit_after(unsigned wait) {
  std::thread([wait] {
    ::sleep(wait);
    ::_exit(1);
  }).detach();
}

/// A launcher that ends a job drops what it has not passed on yet (MPICH's does, one time in some tens on busy cores).
void say_last(const std::string& why) noexcept {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::fflush(nullptr);
  ::usleep(100'000);
}

/// What MPI did not end in `timeout` ends the job; from before there is a job to end, this process, which has its launcher do it.
void exit_saying(const std::string& why) noexcept {
  say_last(why);
  ::_exit(1);
}

/// As the launcher numbers this process; negative where it does not say.
int rank_by_launcher() {
  try {
    const auto launched = launched_process();
    return launched ? launched->rank : -1;
  } catch (const Error&) {
    return -1;
  }
}

/// Files in /dev/shm that this process has mapped.
std::set<std::string> shared_files() {
  std::set<std::string> files;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (const auto at = line.find("/dev/shm/"); at != std::string::npos) files.insert(line.substr(at));
  return files;
}

/// Ends this process, whose MPI does not start.
void give_up_starting(const std::string& implementation, Seconds timeout, const std::set<std::string>& had) {
  // Intel MPI's first rank of a host makes one for all, and unlinks it when they have come.
  for (const auto& file : shared_files())
    if (!had.contains(file)) ::unlink(file.c_str());
  const int rank = rank_by_launcher();
  // The first one has made what is shared, and must not be killed for another's end before it has removed that.
  if (rank != 0) ::usleep(500'000);
  exit_saying(fmt::format("[mpi] {} waited {} while {} started; not all of its {} processes came, so that this job ends",
                          rank < 0 ? "a rank" : fmt::format("rank {}", rank), to_string(timeout), implementation, launched_ranks()));
}

}  // namespace

class MpiRendezvous final : public Rendezvous {
 public:
  // The group is kept to the end of the process: what a rank that came late says must not reach another one.
  MpiRendezvous(MpiWorld& world, std::vector<int> members, Seconds timeout)
      : world_(world), members_(std::move(members)),
        rank_(static_cast<int>(std::find(members_.begin(), members_.end(), world.rank()) - members_.begin())),
        size_(static_cast<int>(members_.size())), group_(world.group(members_, kGroupTag, timeout)) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::vector<std::string> exchange(const std::string& mine, Seconds timeout) override {
    const Nanoseconds deadline = deadline_after(timeout);
    const auto ranks = static_cast<std::size_t>(size());
    // On the heap, and kept for ever where it fails: a message that has begun cannot be called back.
    struct Words {
      std::string mine;
      std::uint64_t length;
      std::vector<std::uint64_t> lengths;
      std::vector<std::string> texts;
    };
    auto words = std::make_unique<Words>(mine, mine.size(), std::vector<std::uint64_t>(ranks, mine.size()));
    try {
      to_all(&words->length, sizeof words->length, kLengthTag,
             [&](std::size_t rank) { return std::pair<void*, std::size_t>(&words->lengths[rank], sizeof words->length); }, timeout, deadline);
      for (const auto each : words->lengths) {
        if (each > kMost) throw Error(Code::corrupt, fmt::format("[mpi] a rank says {} bytes; expected at most {}", each, kMost));
        words->texts.emplace_back(each, '\0');
      }
      to_all(words->mine.data(), words->mine.size(), kTextTag,
             [&](std::size_t rank) { return std::pair<void*, std::size_t>(words->texts[rank].data(), words->texts[rank].size()); }, timeout, deadline);
    } catch (...) {
      words.release();
      throw;
    }
    words->texts[static_cast<std::size_t>(rank())] = mine;
    return std::move(words->texts);
  }

  /// The same, without words, and without waiting for one who has been stopped for so long.
  void part(Seconds timeout, Seconds stopped_for) {
    patience_ = stopped_for;
    exchange({}, timeout);
  }

 private:
  template <typename Into>
  void to_all(const void* data, std::size_t bytes, int tag, const Into& into, Seconds timeout, Nanoseconds deadline) {
    const auto& mpi = world_.mpi();
    struct Waiting {
      mpi::Handle request = 0;
      int peer = 0;
      bool done = false;
      std::string failed = {};  // what MPI says; some notice that a process has ended, some do not
    };
    const auto attempt = [&](Waiting& each, int number, const char* what) {
      if (number != 0) each.failed = fmt::format("{} cannot {}: {}", world_.implementation(), what, world_.text_of(number));
    };
    std::vector<Waiting> all;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      const auto [place, room] = into(static_cast<std::size_t>(peer));
      all.push_back({0, peer});
      attempt(all.back(), mpi.receive(group_, place, static_cast<int>(room), peer, tag, &all.back().request), "receive");
      all.push_back({0, peer});
      attempt(all.back(), mpi.send(group_, data, static_cast<int>(bytes), peer, tag, &all.back().request), "send");
    }
    const auto fail = [&](const Error& why) {
      for (auto& each : all)
        if (!each.done && each.failed.empty()) mpi.cancel(&each.request);
      world_.mark_broken();
      throw Error(why);
    };
    const Nanoseconds begin = now();
    Nanoseconds looked = begin, someone_ran = begin;
    for (;;) {
      std::vector<int> late;
      std::map<int, std::string> failed;
      for (auto& each : all) {
        int done = 0;
        mpi::Completion completion;
        if (!each.done && each.failed.empty()) attempt(each, mpi.test(&each.request, &done, &completion), "test");
        each.done |= done != 0 && each.failed.empty();
        if (!each.done) late.push_back(each.peer);
        if (!each.failed.empty()) failed[each.peer] = each.failed;
      }
      if (late.empty()) return;
      if (left_until(deadline).value == 0)
        fail({Code::timeout, fmt::format("[rendezvous] rank {} waited {}; rank {} did not come", rank(), to_string(timeout), list_of_ranks(late))});
      const Nanoseconds at = now();
      if (at - looked >= kLook) {
        looked = at;
        using State = RankProcesses::State;
        const auto is = [&](int each) { return world_.processes().state(members_[static_cast<std::size_t>(each)]); };
        // Who lives may still come.
        if (std::all_of(late.begin(), late.end(), [&](int each) { return is(each) == State::ended || failed.contains(each); })) {
          const bool ended = std::any_of(late.begin(), late.end(), [&](int each) { return is(each) == State::ended; });
          fail({Code::peer_lost, fmt::format("[rendezvous] rank {} lost rank {}: {}", rank(), list_of_ranks(late), ended ? "its process has ended" : failed.begin()->second)});
        }
        const bool someone_runs = std::any_of(late.begin(), late.end(), [&](int each) { return is(each) == State::runs; });
        if (someone_runs) someone_ran = at;
        if (patience_ && !someone_runs && seconds(at - someone_ran) >= patience_->value)
          fail({Code::timeout, fmt::format("[rendezvous] rank {} waits no longer for rank {}, which is stopped", rank(), list_of_ranks(late))});
      }
      if (at - begin < kYield)
        ::sched_yield();
      else
        ::usleep(kNapMicroseconds);
    }
  }

  MpiWorld& world_;
  std::vector<int> members_;
  int rank_;
  int size_;
  mpi::Handle group_ = 0;
  std::optional<Seconds> patience_;
};

MpiWorld::MpiWorld(const std::string& implementation, Seconds timeout) : started_by_(::getpid()) {
  const auto chosen = choose_mpi(implementation);
  implementation_ = chosen.name;
  mpi_ = &load_mpi(chosen);
  int threads = 0, already = 0;
  {
    Watchdog watchdog([&, had = shared_files()] { give_up_starting(implementation_, timeout, had); });
    watchdog.guard(deadline_after(timeout));
    check(mpi_->start(&rank_, &size_, &threads, &already), "start");
  }
  if (threads == 0)
    throw Error(Code::unsupported, fmt::format("[mpi] {} does not let several threads call it at once (MPI_THREAD_MULTIPLE), "
                                               "and groups run beside each other", chosen.title));
  // Another implementation's launcher starts each process as a world of its own.
  if (const int launched = launched_ranks(); size_ == 1 && launched > 1)
    throw Error(Code::invalid_argument, fmt::format("[mpi] {} finds itself alone, but its launcher started {} processes; start them with its own "
                                                    "mpirun, or srun --mpi={}", chosen.title, launched, chosen.name == "openmpi" ? "pmix" : "pmi2"));
  std::array<char, 512> text{};
  mpi_->library(text.data(), static_cast<int>(text.size()));
  library_ = text.data();
  library_ = library_.substr(0, library_.find('\n'));
}

MpiWorld::~MpiWorld() = default;

MpiWorld& MpiWorld::join(const std::string& implementation, Seconds timeout) {
  const std::lock_guard lock(joining);
  if (joined == nullptr) {
    joined = new MpiWorld(implementation, timeout);
    joined->last_ = std::make_unique<MpiRendezvous>(*joined, first_numbers(joined->size()), timeout);
    std::atexit([] { joined->leave(); });
    joined->processes_ = RankProcesses(joined->last_->exchange(RankProcesses::mine(), timeout));
  } else if (!implementation.empty() && implementation != joined->implementation_) {
    throw Error(Code::invalid_argument, fmt::format("[mpi] a process can be in one MPI; got {} after {}", implementation, joined->implementation_));
  }
  return *joined;
}

bool MpiWorld::is_joined() noexcept {
  const std::lock_guard lock(joining);
  return joined != nullptr;
}

void MpiWorld::leave_now() noexcept {
  if (joined != nullptr) joined->leave();
}

void MpiWorld::leave() noexcept {
  // A child that was forked is no rank.
  if (left_ || ::getpid() != started_by_) return;
  left_ = true;
  // Whoever still sends from memory that is gone by now must not be led on by MPI: it ends as it is, and the launcher ends the others.
  // The others may still be about to say what they met with.
  const auto someone_runs = [&] {
    for (int rank = 0; rank < size_; ++rank)
      if (rank != rank_ && processes_.state(rank) == RankProcesses::State::runs) return true;
    return false;
  };
  for (const auto deadline = deadline_after(kLastWords); lent_ && left_until(deadline).value != 0 && someone_runs();) ::usleep(10'000);
  if (lent_) exit_saying(fmt::format("[mpi] rank {} ends the job, since a group of its failed with messages on their way", rank_));
  // MPI's own end waits for all, and cannot be left where one does not come.
  const bool failed = broken_;
  try {
    last_->part(failed ? kLastWait : Seconds{1e12}, failed ? Seconds{0} : kLastWait);
  } catch (const std::exception& error) {
    end_job(fmt::format("[mpi] rank {} ends the job, since {}not all come to the end: {}", rank_, failed ? "a group of its failed and " : "", error.what()));
  }
  // From here on MPI refuses to end a job.
  Watchdog watchdog([this] {
    exit_saying(fmt::format("[mpi] rank {} waited {} while {} ended; {}, so that this job ends", rank_, to_string(kFinish), implementation_, who_is_gone(first_numbers(size_))));
  });
  watchdog.guard(deadline_after(kFinish));
  mpi_->finish();
}

void MpiWorld::mark_lent(const std::string& why) noexcept {
  const std::lock_guard lock(lent_mutex_);
  if (!lent_) {
    try {
      lent_since_ = why;
    } catch (const std::bad_alloc&) {  // no memory for words
    }
  }
  lent_ = true;
}

std::string MpiWorld::lent_since() const {
  const std::lock_guard lock(lent_mutex_);
  return lent_since_;
}

void MpiWorld::end_job(const std::string& why) noexcept {
  say_last(why);
  exit_after(2);
  mpi_->end_job(1);
  ::_exit(1);
}

std::string MpiWorld::who_is_gone(const std::vector<int>& world_ranks) const {
  std::string said;
  for (const int rank : world_ranks)
    if (const auto state = processes_.state(rank); state != RankProcesses::State::runs)
      said += fmt::format("{}rank {}'s process {}", said.empty() ? "" : ", ", rank, state == RankProcesses::State::ended ? "has ended" : "is stopped");
  return said.empty() ? "a rank is lost in it" : said;
}

mpi::Handle MpiWorld::group(const std::vector<int>& world_ranks, int tag, Seconds timeout) {
  mpi::Handle made = 0;
  Watchdog watchdog([&] {
    end_job(fmt::format("[mpi] rank {} waited {} while {} made a communicator of ranks {}; {}, so that this job ends", rank_, to_string(timeout),
                        implementation_, fmt::join(world_ranks, ", "), who_is_gone(world_ranks)));
  });
  watchdog.guard(deadline_after(timeout));
  check(mpi_->make_group(world_ranks.data(), static_cast<int>(world_ranks.size()), tag & 0x7fff, &made), "make a group");
  return made;
}

std::string MpiWorld::text_of(int number, mpi::Trouble* trouble) const {
  std::array<char, 1024> text{};
  mpi::Trouble kind = mpi::Trouble::other;
  mpi_->error_text(number, text.data(), static_cast<int>(text.size()), &kind);
  if (trouble != nullptr) *trouble = kind;
  std::string said = text.data();
  for (auto& letter : said)
    if (letter == '\n') letter = ' ';
  return said;
}

void MpiWorld::check(int number, const char* what) const {
  if (number != 0) throw Error(Code::io, fmt::format("[mpi] {} cannot {}: {}", implementation_, what, text_of(number)));
}

std::unique_ptr<Rendezvous> mpi_rendezvous(const std::string& implementation, std::vector<int> world_ranks, Seconds timeout) {
  auto& world = MpiWorld::join(implementation, timeout);
  if (world_ranks.empty()) world_ranks = first_numbers(world.size());
  if (std::find(world_ranks.begin(), world_ranks.end(), world.rank()) == world_ranks.end())
    throw Error(Code::invalid_argument, fmt::format("[mpi] rank {} of the world is not among those who meet", world.rank()));
  return std::make_unique<MpiRendezvous>(world, std::move(world_ranks), timeout);
}

}  // namespace ddl
