#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddl/transport/heap_blocks.h"
#include "ddl/transport/mpi/mpi.h"
#include "ddl/transport/mpi/watchdog.h"
#include "ddl/transport/native.h"
#include "ddl/transport/wait_chain.h"
#include "ddl/transport/wire.h"

namespace ddl {

/// A message is a head, with the payload in it where that is small, and else pieces of the payload after it, by another tag.
/// Both ends count pieces alike, and post those of one message before those of the next.
/// MPI has no wait with an end: a rank looks, yields, and then sleeps between its looks. Words about failures go by a tag of
/// their own, which everyone who waits looks at. Of a rank that was killed MPI says nothing: its process is watched, where it
/// can be seen.
class MpiTransport final : public Transport, public NativeCollectives {
 public:
  /// Of `members` of the world, in that order.
  MpiTransport(MpiWorld& world, int rank, std::vector<int> members, mpi::Handle group, TransportOptions options);
  ~MpiTransport() override;
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool shares_memory() const override { return false; }
  std::span<std::byte> allocate(std::size_t bytes) override { return blocks_->allocate(bytes); }
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming, Seconds timeout,
                const Signature& signature) override;
  std::unique_ptr<Transport> subgroup(const std::vector<int>& ranks, Rendezvous& rendezvous) override;
  void abandon(const Error& why) noexcept override;
  void interrupt() noexcept override { interrupted_.store(true); }
  Traffic traffic() const override { return {sent_.load(), received_.load()}; }
  NativeCollectives* native() override { return this; }

  void run(const NativeCall& call, Reducer reducer, bool meets, Seconds timeout, const Signature& signature) override;

 private:
  static constexpr std::size_t kSmall = 3968;  // with its head within the 4 KiB that Open MPI sends at once
  static constexpr std::size_t kPiece = std::size_t{512} << 10;
  static constexpr std::size_t kWindow = 3;

  /// What goes first.
  struct Head {
    wire::Frame frame;
    std::array<std::byte, kSmall> payload;
  };
  struct Request {
    mpi::Handle handle = 0;
    bool active = false;
    std::size_t offset = 0;
    std::size_t bytes = 0;
    std::byte* staging = nullptr;
  };
  struct Sending {
    Outgoing message;
    Request head;
    std::array<Request, kWindow> pieces;
    std::size_t posted = 0;  // bytes of pieces
    std::size_t ended = 0;
    bool large() const { return message.data.size() > kSmall; }
    bool all_posted() const { return !large() || posted == message.data.size(); }
    bool done() const { return !head.active && (!large() || ended == message.data.size()); }
  };
  struct Receiving {
    Incoming message;
    Request head;
    std::array<Request, kWindow> pieces;
    Head* place = nullptr;
    std::uint64_t sequence = 0;
    std::size_t posted = 0;
    std::size_t ended = 0;
    double factor = 1;
    bool large() const { return message.bytes > kSmall; }
    bool all_posted() const { return !large() || posted == message.bytes; }
    bool done() const { return !head.active && (!large() || ended == message.bytes); }
  };
  struct Peer {
    std::uint64_t sent = 0;  // messages
    std::uint64_t received = 0;
    wire::NoteReader notes;
    Signature waits_at;
    std::optional<Error> words;  // why it gave up
    Nanoseconds left = 0;        // when we heard that it left
    Nanoseconds gone = 0;        // when we saw that its process had ended
    std::uint32_t busy_sending = 0;  // the pass in which an earlier message had pieces to post
    std::uint32_t busy_receiving = 0;
  };
  struct Dropped {
    Request request;
    std::unique_ptr<std::byte[]> bytes;
  };
  struct IncomingNote {
    int from = 0;
    std::vector<std::byte> bytes;
    Request request;
  };
  struct OutgoingNote {
    std::string text;
    Request request;
  };

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  /// What fails in `body` ends this transport.
  template <typename Body>
  void guarded(const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      give_up(error);
      throw;
    }
  }
  /// Errors: peer_lost, where MPI may still touch memory of another group that failed.
  void refuse_while_lent() const;
  Head& next_head();
  std::byte* borrow_staging();
  void post(const Outgoing& message, const Signature& signature);
  void expect(const Incoming& message);
  void wait(Seconds timeout);
  bool advance();
  void advance(Sending& sending);
  void advance(Receiving& receiving);
  void take_head(Receiving& receiving);
  /// Whether it has ended; `bytes` of what came.
  bool ended(Request& request, int peer, int* bytes = nullptr);
  void look_around();
  void watch(const std::vector<int>& ranks);
  void read_notes();
  void hear(int rank, std::span<const std::byte> note);
  void tell_all(const std::string& note) noexcept;
  void give_up(const Error& why) noexcept;
  /// The words of depart(), if there are any.
  std::string parting_note() const noexcept;
  void release() noexcept;
  void keep_what_mpi_uses() noexcept;
  bool drop_one(int tag, std::deque<Dropped>& dropped) noexcept;
  std::vector<int> late() const;
  [[noreturn]] void lost(int peer, const std::string& why);
  void call_library(const mpi::Call& call, const char* name);
  /// Looks at every member's process; not `now_and_here`: if it has not done so lately.
  void require_that_all_run(bool now_and_here);

  MpiWorld& world_;
  const mpi::Module& mpi_;
  int rank_;
  int size_;
  std::vector<int> members_;
  mpi::Handle group_;
  TransportOptions options_;
  Nanoseconds spin_;
  std::vector<Peer> peers_;
  WaitChain chain_;
  std::vector<Sending> sending_;
  std::vector<Receiving> receiving_;
  std::vector<std::unique_ptr<Head>> heads_;
  std::size_t heads_used_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> staging_;
  std::vector<std::byte*> free_staging_;
  std::deque<OutgoingNote> notes_;
  std::list<IncomingNote> arriving_;  // probed, and on its way
  Signature signature_;
  Nanoseconds watched_ = 0;  // when it was last looked whether the others' processes run
  std::uint32_t pass_ = 0;
  std::uint32_t ended_ = 0;  ///< requests, of all there were
  std::unique_ptr<HeapBlocks> blocks_ = std::make_unique<HeapBlocks>();
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_size_ = 0;
  Seconds guarded_for_;
  std::unique_ptr<Watchdog> watchdog_;
  std::atomic<bool> interrupted_{false};
  std::atomic<std::int64_t> sent_{0};
  std::atomic<std::int64_t> received_{0};
  std::optional<Error> failure_;
};

}  // namespace ddl
