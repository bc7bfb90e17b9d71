#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/transport/mailbox.h"
#include "ddl/transport/transport.h"
#include "ddl/transport/wait_chain.h"

namespace ddl {

/// Memory that the ranks of a group can read in each other: what tells inproc and shm apart.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;

  virtual Desk& desk(int rank) = 0;
  /// As Transport::allocate(). Threads: any.
  virtual std::span<std::byte> allocate(std::size_t bytes) = 0;
  /// Where peers find these bytes of ours; nothing where they cannot reach them.
  virtual std::optional<std::uint64_t> locate(std::span<const std::byte> data) const = 0;
  /// The bytes that `peer` calls `where`; null where it has no such bytes.
  virtual std::byte* at(int peer, std::uint64_t where, std::uint64_t bytes) const = 0;
  /// Whether a peer's access to our memory ends with us: then we stay until it has ended.
  virtual bool dies_with_owner() const = 0;
  /// The same for a part of the ranks.
  virtual std::unique_ptr<SharedMemory> among(const std::vector<int>& ranks, Rendezvous& rendezvous) = 0;
  /// Whether the process of `peer` still runs.
  virtual bool alive(int peer) const = 0;
};

/// Messages through mailboxes in shared memory. What a peer can reach it reads in place; the rest goes in pieces
/// through two bounce slots per peer. An exchange between two waiting ranks takes two cache-line transfers each way.
class MailboxTransport final : public Transport {
 public:
  MailboxTransport(std::string name, int rank, int size, std::unique_ptr<SharedMemory> memory);
  ~MailboxTransport() override;
  MailboxTransport(const MailboxTransport&) = delete;
  MailboxTransport& operator=(const MailboxTransport&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool shares_memory() const override { return true; }
  std::span<std::byte> allocate(std::size_t bytes) override { return memory_->allocate(bytes); }
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming, Seconds timeout,
                const Signature& signature) override;
  bool reachable(std::span<const std::byte> data) const override { return memory_->locate(data).has_value(); }
  void share(const Shown& mine, std::span<Shared> all, Seconds timeout, const Signature& signature) override;
  void unshare(Seconds timeout, const Traffic& moved) override;
  std::unique_ptr<Transport> subgroup(const std::vector<int>& ranks, Rendezvous& rendezvous) override;
  void abandon(const Error& why) noexcept override;
  void interrupt() noexcept override;
  Traffic traffic() const override;

 private:
  struct Sending {
    Outgoing message;
    std::optional<std::uint64_t> where;
    std::uint64_t posted = 0;  // bytes
    std::uint64_t last = 0;    // its last piece's number + 1, once all is posted
    bool all_posted = false;
    bool done = false;
  };
  struct Receiving {
    Incoming message;
    std::uint64_t taken = 0;  // bytes
    bool done = false;
  };

  /// Until `complete()`, which may throw; sleeps after a while. `late` names the ranks that did not come.
  template <typename Complete, typename Late>
  void wait(const Complete& complete, const Late& late, Seconds timeout);
  template <typename Body>
  void guarded(const Body& body);
  void raise_phase();
  bool all_at_phase();
  bool at_phase(const Desk& desk) const;
  std::vector<int> behind() const;
  std::vector<int> unfinished() const;
  [[noreturn]] void disagree(int peer, const Signature& theirs) const;
  bool advance();
  void advance(Sending& sending);
  void advance(Receiving& receiving);
  void take(Receiving& receiving, const Piece& piece);
  void enter(const Signature& signature);
  void hear_farewells();
  void look_around(const std::vector<int>& awaited);
  void leave(const Error* why) noexcept;
  void leave_interrupted() noexcept;
  std::byte* bounce(int peer);
  [[noreturn]] void lost(int peer) const;

  std::string name_;
  int rank_;
  int size_;
  std::unique_ptr<SharedMemory> memory_;
  Desk& mine_;
  Nanoseconds spin_;
  bool crowded_;  ///< there are more ranks than cores
  Signature signature_;     // of what is under way
  Phase phase_;
  bool light_;
  bool sharing_ = false;
  std::uint32_t shared_at_ = 0;  // the number of the phase in which peers are at our memory
  std::vector<Sending> sending_;
  std::vector<Receiving> receiving_;
  std::vector<std::uint64_t> posted_;  // pieces to each peer
  std::vector<std::uint64_t> taken_;   // pieces from each peer
  std::vector<std::byte*> bounce_;
  std::vector<std::uint32_t> busy_sending_;  // the pass in which an earlier message of the peer was unfinished
  std::vector<std::uint32_t> busy_receiving_;
  std::uint32_t pass_ = 0;
  struct KnownCard {
    Card card;
    std::uint16_t version = 0;
  };
  std::vector<KnownCard> cards_;  // as last seen, our own among them
  std::vector<Desk*> desks_;
  std::vector<std::uint32_t> beats_;  // of each, as last seen
  WaitChain chain_;
  int gone_ = -1;  // a peer that is gone and still needed, found in this pass
  std::atomic<bool> interrupted_{false};
  std::atomic<std::int64_t> sent_{0};
  std::atomic<std::int64_t> received_{0};
  std::optional<Error> failure_;
};

}  // namespace ddl
