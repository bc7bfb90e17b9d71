#pragma once

#include <signal.h>
#include <sys/mman.h>

#include <filesystem>

#include "ddl/collective/testing.h"

// Ranks as processes, one of which is killed or stopped while the others watch.

namespace ddl::testing {

enum class Fate { killed, stopped };

struct Death {
  std::string transport;
  int victim;
  Fate fate;
};

inline std::string to_string(const Death& death) {
  return fmt::format("{}_rank_{}_{}", death.transport, death.victim, death.fate == Fate::killed ? "killed" : "stopped");
}

inline std::size_t names_in_dev_shm() {
  std::error_code unreadable;
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", unreadable))
    count += entry.path().filename().string().find("ddl") != std::string::npos ? 1 : 0;
  return count;
}

inline std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

/// What a survivor says at its end.
struct Testimony {
  bool failed = false;
  Code code = Code::io;
  Nanoseconds ended = 0;
  int descriptors_left = 0;
  std::uint64_t completed = 0;  // collectives, as far as the body counted them
  char said[1024] = {};
};

/// In memory of all processes: who is where.
struct Scene {
  static constexpr int kRanks = 3;

  std::atomic<bool> ready{false};  ///< the victim is where it is to be struck
  std::atomic<Nanoseconds> struck{0};
  Testimony survivors[kRanks];
  char places[kRanks][64] = {};  ///< what they told each other as they connected, where the phase writes it down

  /// What the victim calls where it is to stay for ever.
  [[noreturn]] void die_here() {
    ready = true;
    for (;;) ::pause();
  }
};

/// Runs `body`, and writes down how it ended.
template <typename Body>
void bear_witness(Testimony& testimony, const Body& body) {
  const std::size_t before = open_descriptors();
  try {
    body(testimony);
  } catch (const Error& error) {
    testimony.failed = true;
    testimony.code = error.code();
    std::snprintf(testimony.said, sizeof testimony.said, "%s", error.what());
  }
  testimony.ended = now();
  testimony.descriptors_left = static_cast<int>(open_descriptors()) - static_cast<int>(before);
}

/// Passes a meeting on, and then lets someone act.
class Watched final : public Rendezvous {
 public:
  Watched(Rendezvous& inner, std::function<void(const std::vector<std::string>&)> look) : inner_(inner), look_(std::move(look)) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::vector<std::string> exchange(const std::string& mine, Seconds timeout) override {
    auto all = inner_.exchange(mine, timeout);
    look_(all);
    return all;
  }

 private:
  Rendezvous& inner_;
  std::function<void(const std::vector<std::string>&)> look_;
};

/// Forks the ranks and strikes the victim once it is ready; end() waits for the others, and then there is what they said. Several
/// may be struck before the first is waited for: who waits for a stopped one does nothing meanwhile. `body` is every rank's; the
/// victim's must call die_here() or set `ready` and go on. A survivor that does not end by itself within `most` is
/// killed, and its testimony stays empty.
class Strike {
 public:
  using Body = std::function<void(ForkedTable::Seat&, Scene&, Testimony&)>;

  Strike(int victim, Fate fate, Seconds most, const Body& body)
      : scene_(new (::mmap(nullptr, sizeof(Scene), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Scene), victim_(victim) {
    for (int rank = 0; rank < Scene::kRanks; ++rank) children_.push_back(fork_rank([&, rank] { live(table_, rank, body); }));
    const pid_t doomed = children_[static_cast<std::size_t>(victim)];
    const Nanoseconds deadline = deadline_after({most.value + 10});  // to get ready: not what is measured
    while (!scene_->ready && now() < deadline) ::usleep(500);
    ::usleep(3'000);
    ::kill(doomed, fate == Fate::killed ? SIGKILL : SIGSTOP);
    scene_->struck = now();
    end_ = deadline_after(most);
  }
  ~Strike() {
    end();
    ::munmap(scene_, sizeof(Scene));
  }
  Strike(const Strike&) = delete;
  Strike& operator=(const Strike&) = delete;

  void end() {
    if (children_.empty()) return;
    const pid_t doomed = children_[static_cast<std::size_t>(victim_)];
    for (const pid_t child : children_)
      if (child != doomed) reap(child, end_);
    ::kill(doomed, SIGKILL);
    status_of(doomed);
    children_.clear();
  }

  const Testimony& of(int rank) const { return scene_->survivors[rank]; }
  std::string place_of(int rank) const { return scene_->places[rank]; }
  /// From the strike on.
  double seconds_to_end(int rank) const { return seconds(of(rank).ended - scene_->struck.load()); }

 private:
  void live(ForkedTable& table, int rank, const Body& body) {
    ForkedTable::Seat seat(table, rank, Scene::kRanks);
    bear_witness(scene_->survivors[rank], [&](Testimony& testimony) { body(seat, *scene_, testimony); });
  }

  static void reap(pid_t child, Nanoseconds end) {
    int status = 0;
    while (::waitpid(child, &status, WNOHANG) == 0) {
      if (now() > end) {
        ::kill(child, SIGKILL);
        status_of(child);
        return;
      }
      ::usleep(1'000);
    }
  }

  ForkedTable table_;
  Scene* scene_;
  int victim_;
  std::vector<pid_t> children_;  ///< by rank; none once they were waited for
  Nanoseconds end_ = 0;          ///< when whoever is left is killed
};

}  // namespace ddl::testing
