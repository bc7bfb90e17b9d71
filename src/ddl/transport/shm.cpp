#include "ddl/transport/shm.h"

#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/syscall.h>

#include <cerrno>
#include <charconv>

#include "ddl/core/text.h"
#include "ddl/transport/check.h"
#include "ddl/transport/mailbox_transport.h"
#include "ddl/transport/shm_arena.h"

namespace ddl {
namespace {

/// What lies at the beginning of an arena: proof that it is the one its owner told us about.
struct Header {
  std::uint64_t nonce = 0;
};

/// What a rank tells the others about its arena.
struct Card {
  pid_t pid = 0;
  int fd = 0;
  std::uint64_t capacity = 0;
  std::uint64_t nonce = 0;
};

std::string write(const Card& card) {
  return fmt::format("shm {} {} {} {}", card.pid, card.fd, card.capacity, card.nonce);
}

Card read(int rank, const std::string& text) {
  const auto words = split(text, ' ');
  Card card;
  const auto number = [&](std::size_t at, auto& value) {
    if (words.size() != 5 || words[0] != "shm" ||
        std::from_chars(words[at].data(), words[at].data() + words[at].size(), value).ec != std::errc{})
      throw Error(Code::corrupt, fmt::format("[shm] rank {} says no arena; got '{}', expected 'shm PID FD CAPACITY "
                                             "NONCE'", rank, text));
  };
  number(1, card.pid);
  number(2, card.fd);
  number(3, card.capacity);
  number(4, card.nonce);
  return card;
}

/// A process that can be asked whether it still runs, also when its number has been given to another one.
class Process {
 public:
  explicit Process(pid_t pid) : pid_(pid), fd_(pid == ::getpid() ? -1 : static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}
  bool alive() const {
    if (pid_ == ::getpid()) return true;
    if (!fd_.valid()) return ::kill(pid_, 0) == 0 || errno != ESRCH;
    pollfd ended{fd_.get(), POLLIN, 0};
    return ::poll(&ended, 1, 0) == 0;
  }

 private:
  pid_t pid_;
  UniqueFd fd_;
};

/// The ranks' memory, whichever groups they form.
struct Segment {
  std::shared_ptr<ShmArena> arena;
  std::shared_ptr<Process> process;
};

class Arenas final : public SharedMemory {
 public:
  Arenas(int rank, std::vector<Segment> segments, Seconds timeout)
      : rank_(rank), segments_(std::move(segments)), desks_(segments_.size()), timeout_(timeout) {}

  /// Makes this group's desks: everyone says where its own lies in its arena.
  void meet(Rendezvous& rendezvous) {
    auto& mine = *segments_[index(rank_)].arena;
    const std::size_t size = Desk::bytes(rendezvous.size());
    // Room to align by hand: allocate() promises 64 bytes only.
    const auto memory = mine.allocate(size + kApart);
    const auto begin = (static_cast<std::size_t>(memory.data() - mine.base()) + kApart - 1) / kApart * kApart;
    Desk::make(mine.base() + begin, rendezvous.size());
    const auto places = rendezvous.exchange(std::to_string(begin), timeout_);
    for (std::size_t rank = 0; rank < places.size(); ++rank) {
      const auto& text = places[rank];
      std::uint64_t place = 0;
      const auto& arena = *segments_[rank].arena;
      if (std::from_chars(text.data(), text.data() + text.size(), place).ec != std::errc{} || place % kApart != 0 ||
          place > arena.capacity() || size > arena.capacity() - place)
        throw Error(Code::corrupt, fmt::format("[shm] rank {} says no place in its arena; got '{}', expected a multiple of {} "
                                               "below {}", rank, text, kApart, arena.capacity()));
      desks_[rank] = reinterpret_cast<Desk*>(arena.base() + place);
    }
  }

  Desk& desk(int rank) override { return *desks_[index(rank)]; }
  std::span<std::byte> allocate(std::size_t bytes) override { return segments_[index(rank_)].arena->allocate(bytes); }
  std::optional<std::uint64_t> locate(std::span<const std::byte> data) const override {
    return segments_[index(rank_)].arena->offset_of(data);
  }
  std::byte* at(int peer, std::uint64_t where, std::uint64_t bytes) const override {
    const auto& arena = *segments_[index(peer)].arena;
    if (where > arena.capacity() || bytes > arena.capacity() - where) return nullptr;
    return arena.base() + where;
  }
  bool alive(int peer) const override { return segments_[index(peer)].process->alive(); }
  // Every process has its own mapping: what a late peer writes into ours reaches nobody who has failed already.
  bool dies_with_owner() const override { return false; }

  std::unique_ptr<SharedMemory> among(const std::vector<int>& ranks, Rendezvous& rendezvous) override {
    std::vector<Segment> part;
    for (const int rank : ranks) part.push_back(segments_.at(index(rank)));
    auto group = std::make_unique<Arenas>(rendezvous.rank(), std::move(part), timeout_);
    group->meet(rendezvous);
    return group;
  }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  int rank_;
  std::vector<Segment> segments_;
  std::vector<Desk*> desks_;
  Seconds timeout_;
};

constexpr Nanoseconds kEnding = 200'000'000;

/// Whoever found out before us that a rank is lost may have ended as well: all that have are named.
void require_all_alive(int rank, const std::vector<Segment>& segments) {
  std::vector<int> ended;
  for (std::size_t peer = 0; peer < segments.size(); ++peer)
    if (!segments[peer].process->alive()) ended.push_back(static_cast<int>(peer));
  if (!ended.empty())
    throw Error(Code::peer_lost, fmt::format("[shm] rank {} lost rank {}: no such process runs, or not on this host, in this process "
                                             "namespace", rank, list_of_ranks(std::move(ended))));
}

/// Makes this rank's arena and maps those of the others.
std::vector<Segment> meet(Rendezvous& rendezvous, Seconds timeout) {
  const auto arena = std::make_shared<ShmArena>(rendezvous.rank());
  Card card{::getpid(), arena->fd(), arena->capacity(), 0};
  if (::getrandom(&card.nonce, sizeof card.nonce, 0) < 0) throw system_error("[shm] no random number", errno);
  new (arena->allocate(sizeof(Header)).data()) Header{card.nonce};
  std::vector<Segment> segments;
  const auto cards = rendezvous.exchange(write(card), timeout);
  std::vector<Card> theirs;
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    theirs.push_back(read(static_cast<int>(rank), cards[rank]));
    segments.push_back({nullptr, std::make_shared<Process>(theirs.back().pid)});
  }
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    const int number = static_cast<int>(rank);
    auto& mapped = segments[rank].arena;
    try {
      mapped = number == rendezvous.rank() ? arena : std::make_shared<ShmArena>(number, theirs[rank].pid, theirs[rank].fd, theirs[rank].capacity);
    } catch (const Error&) {
      // A process that ends loses its files a moment before it has ended.
      for (const auto until = now() + kEnding; now() < until; ::usleep(1'000)) require_all_alive(rendezvous.rank(), segments);
      throw;
    }
    const auto* header = reinterpret_cast<const Header*>(mapped->base());
    if (theirs[rank].capacity < sizeof(Header) || header->nonce != theirs[rank].nonce)
      throw Error(Code::io, fmt::format("[shm] process {} here is not rank {}; expected all ranks on one host", theirs[rank].pid, rank));
  }
  return segments;
}

}  // namespace

std::unique_ptr<Transport> make_shm(Rendezvous& rendezvous, const TransportOptions& options) {
  auto arenas = std::make_unique<Arenas>(rendezvous.rank(), meet(rendezvous, options.connect_timeout), options.connect_timeout);
  // Nobody goes on, and perhaps ends, before everyone has mapped its arena: the second meeting is for that, too.
  arenas->meet(rendezvous);
  return std::make_unique<MailboxTransport>("shm", rendezvous.rank(), rendezvous.size(), std::move(arenas));
}

}  // namespace ddl
