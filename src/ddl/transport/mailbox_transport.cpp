#include "ddl/transport/mailbox_transport.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "ddl/core/text.h"
#include "ddl/transport/check.h"
#include "ddl/transport/deadline.h"

namespace ddl {
namespace {

/// Half of a second-level cache, for the two slots together.
constexpr std::size_t kBounceSlot = std::size_t{256} << 10;

/// How often a sleeper looks whether the others still run.
constexpr Nanoseconds kLook = 100'000'000;

/// Waiting for a rank that has a core of its own, a few microseconds are cheaper than a sleep and a wake-up (about
/// 5 us on bare metal, 50 in a virtual machine). Where ranks outnumber cores, the core is better given away at once.
Nanoseconds spin_for(int ranks) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return ranks <= cores ? 20'000 : 1'000;
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("yield" ::: "memory");
#endif
}

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

}  // namespace

MailboxTransport::MailboxTransport(std::string name, int rank, int size, std::unique_ptr<SharedMemory> memory)
    : name_(std::move(name)), rank_(rank), size_(size), memory_(std::move(memory)), mine_(memory_->desk(rank)),
      spin_(spin_for(size)), posted_(at(size), 0), taken_(at(size), 0), bounce_(at(size), nullptr),
      busy_sending_(at(size), 0), busy_receiving_(at(size), 0) {}

MailboxTransport::~MailboxTransport() { leave(); }

void MailboxTransport::exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                                Seconds timeout) {
  check_messages(name_, rank_, size_, outgoing, incoming);
  if (interrupted_) throw_interrupted(name_, rank_);
  if (failure_) throw Error(*failure_);
  sending_.clear();
  receiving_.clear();
  for (const auto& message : outgoing) sending_.push_back({message, memory_->locate(message.data)});
  for (const auto& message : incoming) receiving_.push_back({message});
  try {
    run(deadline_after(timeout), timeout);
  } catch (const Error& error) {
    leave();
    failure_ = error;
    throw;
  } catch (...) {
    leave();
    throw;
  }
}

void MailboxTransport::run(Nanoseconds deadline, Seconds timeout) {
  if (advance()) return;
  for (;;) {
    for (const Nanoseconds until = now() + spin_; now() < until;)
      for (int i = 0; i < 16; ++i) {
        if (advance()) return;
        pause();
      }
    if (interrupted_) throw_interrupted(name_, rank_);
    sleep(deadline);
    if (advance()) return;
    if (now() >= deadline)
      throw Error(Code::timeout, fmt::format("[{}] rank {} waited {}; rank {} did not come", name_, rank_,
                                             to_string(timeout), late()));
  }
}

/// Sleeps until the bell rings, the deadline, or the next look after the others.
void MailboxTransport::sleep(Nanoseconds deadline) {
  const std::uint32_t seen = mine_.bell.load();
  mine_.asleep.store(1);
  struct Awake {
    Desk& desk;
    ~Awake() { desk.asleep.store(0, std::memory_order_relaxed); }
  } awake{mine_};
  // Invariant 4: a change before `asleep` was set rang no bell, so look once more.
  if (advance() || interrupted_) return;
  const Nanoseconds begin = now();
  futex_wait(mine_.bell, seen, std::min(kLook, deadline - begin));
  if (now() - begin >= kLook / 2) check_alive();
}

/// Moves what can be moved; true when every message is complete. A message waits for those before it to its peer.
bool MailboxTransport::advance() {
  ++pass_;
  gone_ = -1;
  bool complete = true;
  for (auto& sending : sending_) {
    auto& busy = busy_sending_[at(sending.message.peer)];
    if (!sending.done && busy != pass_) advance(sending);
    if (!sending.all_posted) busy = pass_;
    complete &= sending.done;
  }
  for (auto& receiving : receiving_) {
    auto& busy = busy_receiving_[at(receiving.message.peer)];
    if (!receiving.done && busy != pass_) advance(receiving);
    if (!receiving.done) busy = pass_;
    complete &= receiving.done;
  }
  // Only now: a peer that gave up because it disagrees has left the message that says so.
  if (gone_ >= 0) lost(gone_);
  return complete;
}

void MailboxTransport::advance(Sending& sending) {
  const int peer = sending.message.peer;
  const auto data = sending.message.data;
  Desk& desk = memory_->desk(peer);
  Lane& lane = mine_.lane(peer);
  auto& posted = posted_[at(peer)];
  // Whether the peer is gone must be read before what it took, or its last word could be missed.
  const bool gone = desk.gone.load() != 0;
  const std::uint64_t taken = lane.taken.load();
  while (!sending.all_posted && posted - taken < kPieces) {
    Piece& piece = lane.pieces[posted % kPieces];
    piece = {sending.where.value_or(0), data.size(), data.size()};
    if (!sending.where) {
      // Piece n is free, so its bounce slot is.
      std::byte* slot = bounce(peer) + posted % kPieces * kBounceSlot;
      piece.bytes = std::min(kBounceSlot, data.size() - sending.posted);
      std::memcpy(slot, data.data() + sending.posted, piece.bytes);
      piece.where = *memory_->locate({slot, piece.bytes});
    }
    lane.posted.store(++posted);
    desk.ring_if_asleep();
    sending.posted += piece.bytes;
    sending.last = posted;
    sending.all_posted = sending.posted == data.size();
  }
  if (sending.all_posted && taken >= sending.last) {
    sending.done = true;
    sent_.fetch_add(static_cast<std::int64_t>(data.size()), std::memory_order_relaxed);
  } else if (gone) {
    gone_ = peer;
  }
}

void MailboxTransport::advance(Receiving& receiving) {
  const int peer = receiving.message.peer;
  Desk& desk = memory_->desk(peer);
  Lane& lane = desk.lane(rank_);
  const bool gone = desk.gone.load() != 0;
  const std::uint64_t posted = lane.posted.load();
  auto& taken = taken_[at(peer)];
  while (!receiving.done && taken < posted) {
    const Piece piece = lane.pieces[taken % kPieces];
    if (piece.message != receiving.message.bytes)
      throw_disagreement(name_, peer, rank_, piece.message, receiving.message.bytes);
    lane.reading.store(1);
    struct Read {
      Lane& lane;
      ~Read() { lane.reading.store(0); }
    } read{lane};
    if (desk.gone.load() != 0) lost(peer);
    take(receiving, piece);
    lane.taken.store(++taken);
    desk.ring_if_asleep();
  }
  if (!receiving.done && gone) gone_ = peer;
}

void MailboxTransport::take(Receiving& receiving, const Piece& piece) {
  const auto& message = receiving.message;
  const std::byte* bytes = memory_->at(message.peer, piece.where, piece.bytes);
  if (bytes == nullptr || piece.bytes > message.bytes - receiving.taken)
    throw Error(Code::corrupt, fmt::format("[{}] rank {} points outside of its memory; got {} bytes at {}", name_,
                                           message.peer, piece.bytes, piece.where));
  if (piece.bytes != 0) {
    if (message.into != nullptr)
      std::memcpy(message.into + receiving.taken, bytes, piece.bytes);
    else
      message.sink.take(message.sink.context, receiving.taken, {bytes, piece.bytes});
  }
  receiving.taken += piece.bytes;
  receiving.done = receiving.taken == message.bytes;
  if (receiving.done) received_.fetch_add(static_cast<std::int64_t>(message.bytes), std::memory_order_relaxed);
}

std::byte* MailboxTransport::bounce(int peer) {
  auto& slots = bounce_[at(peer)];
  if (slots == nullptr) slots = memory_->allocate(kPieces * kBounceSlot).data();
  return slots;
}

void MailboxTransport::check_alive() {
  for (const auto& sending : sending_)
    if (!sending.done && !memory_->alive(sending.message.peer)) lost(sending.message.peer);
  for (const auto& receiving : receiving_)
    if (!receiving.done && !memory_->alive(receiving.message.peer)) lost(receiving.message.peer);
}

/// Tells everyone, and lets those finish who are reading our memory (invariant 3).
void MailboxTransport::leave() noexcept {
  mine_.gone.store(1);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    memory_->desk(peer).ring_if_asleep();
    for (int spins = 0; mine_.lane(peer).reading.load() != 0; ++spins) {
      if (spins % 1024 == 1023 && !memory_->alive(peer)) break;
      ::sched_yield();
    }
  }
}

void MailboxTransport::interrupt() noexcept {
  interrupted_.store(true);
  mine_.ring();
}

Traffic MailboxTransport::traffic() const { return {sent_.load(), received_.load()}; }

void MailboxTransport::lost(int peer) const {
  throw Error(Code::peer_lost, fmt::format("[{}] rank {} lost rank {}: it {}", name_, rank_, peer,
                                           memory_->alive(peer) ? "left the group" : "no longer runs"));
}

std::string MailboxTransport::late() const {
  std::vector<int> peers;
  for (const auto& sending : sending_)
    if (!sending.done) peers.push_back(sending.message.peer);
  for (const auto& receiving : receiving_)
    if (!receiving.done) peers.push_back(receiving.message.peer);
  return list_of_ranks(std::move(peers));
}

}  // namespace ddl
