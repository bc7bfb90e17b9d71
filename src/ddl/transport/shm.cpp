#include "ddl/transport/shm.h"

#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/syscall.h>

#include <cerrno>
#include <charconv>

#include "ddl/core/text.h"
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

class Arenas final : public SharedMemory {
 public:
  Arenas(int rank, int size) : rank_(rank), arenas_(static_cast<std::size_t>(size)), desks_(arenas_.size()) {
    if (::getrandom(&card_.nonce, sizeof card_.nonce, 0) < 0) throw system_error("[shm] no random number", errno);
    auto& mine = arenas_[index(rank)];
    mine = std::make_unique<ShmArena>(rank);
    new (mine->allocate(sizeof(Header)).data()) Header{card_.nonce};
    // Room to align by hand: allocate() promises 64 bytes only.
    const auto memory = mine->allocate(Desk::bytes(size) + kApart);
    const auto begin = static_cast<std::size_t>(memory.data() - mine->base());
    desk_at_ = (begin + kApart - 1) / kApart * kApart;
    desks_[index(rank)] = Desk::make(mine->base() + desk_at_, size);
    card_.pid = ::getpid();
    card_.fd = mine->fd();
    card_.capacity = mine->capacity();
  }

  std::string card() const { return write(card_); }

  /// The ranks' arenas are laid out alike, so that a peer's desk lies where ours does.
  void meet(const std::vector<std::string>& cards) {
    for (std::size_t rank = 0; rank < cards.size(); ++rank) {
      const Card card = read(static_cast<int>(rank), cards[rank]);
      processes_.emplace_back(card.pid);
      if (index(rank_) == rank) continue;
      arenas_[rank] = std::make_unique<ShmArena>(static_cast<int>(rank), card.pid, card.fd, card.capacity);
      const auto* header = reinterpret_cast<const Header*>(arenas_[rank]->base());
      if (card.capacity < desk_at_ || header->nonce != card.nonce)
        throw Error(Code::io, fmt::format("[shm] process {} here is not rank {}; expected all ranks on one host",
                                          card.pid, rank));
      desks_[rank] = reinterpret_cast<Desk*>(arenas_[rank]->base() + desk_at_);
    }
  }

  Desk& desk(int rank) override { return *desks_[index(rank)]; }
  std::span<std::byte> allocate(std::size_t bytes) override { return arenas_[index(rank_)]->allocate(bytes); }
  std::optional<std::uint64_t> locate(std::span<const std::byte> data) const override {
    return arenas_[index(rank_)]->offset_of(data);
  }
  const std::byte* at(int peer, std::uint64_t where, std::uint64_t bytes) const override {
    const auto& arena = *arenas_[index(peer)];
    if (where > arena.capacity() || bytes > arena.capacity() - where) return nullptr;
    return arena.base() + where;
  }
  bool alive(int peer) const override { return processes_[index(peer)].alive(); }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  int rank_;
  Card card_;
  std::size_t desk_at_ = 0;
  std::vector<std::unique_ptr<ShmArena>> arenas_;
  std::vector<Desk*> desks_;
  std::vector<Process> processes_;
};

}  // namespace

std::unique_ptr<Transport> make_shm(Rendezvous& rendezvous, const TransportOptions& options) {
  auto arenas = std::make_unique<Arenas>(rendezvous.rank(), rendezvous.size());
  arenas->meet(rendezvous.exchange(arenas->card(), options.connect_timeout));
  // Nobody goes on, and perhaps ends, before everyone has mapped its arena.
  rendezvous.exchange("mapped", options.connect_timeout);
  return std::make_unique<MailboxTransport>("shm", rendezvous.rank(), rendezvous.size(), std::move(arenas));
}

}  // namespace ddl
