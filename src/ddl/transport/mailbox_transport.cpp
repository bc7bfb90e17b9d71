#include "ddl/transport/mailbox_transport.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ddl/core/at.h"
#include "ddl/core/text.h"
#include "ddl/transport/check.h"
#include "ddl/transport/cores.h"
#include "ddl/transport/deadline.h"
#include "ddl/transport/rendezvous.h"

namespace ddl {
namespace {

/// Half of a second-level cache, for the two slots together.
constexpr std::size_t kBounceSlot = std::size_t{256} << 10;

/// How often a sleeper looks whether the others still run.
constexpr Nanoseconds kLook = WaitChain::kPeriod;

/// Of a card's versions; 0 is none.
std::uint16_t next(std::uint16_t version) { return version == 0xffff ? 1 : static_cast<std::uint16_t>(version + 1); }

}  // namespace

MailboxTransport::MailboxTransport(std::string name, int rank, int size, std::unique_ptr<SharedMemory> memory)
    : name_(std::move(name)), rank_(rank), size_(size), memory_(std::move(memory)), mine_(memory_->desk(rank)),
      spin_(spin_for(size)), crowded_(spin_ < 10'000), light_(light_posts()), posted_(at(size), 0), taken_(at(size), 0),
      bounce_(at(size), nullptr), busy_sending_(at(size), 0), busy_receiving_(at(size), 0), cards_(at(size)), beats_(at(size), 0),
      chain_(size) {
  for (int peer = 0; peer < size; ++peer) desks_.push_back(&memory_->desk(peer));
}

MailboxTransport::~MailboxTransport() { leave_interrupted(); }

/// Of an interruption itself the others are told nothing, of its reason where there is one.
void MailboxTransport::leave_interrupted() noexcept {
  const auto words = parting_words();
  leave(words ? &*words : nullptr);
}

/// What every call does around its work: a failure is said to all, and for ever.
template <typename Body>
void MailboxTransport::guarded(const Body& body) {
  if (interrupted_.load(std::memory_order_relaxed)) throw_interrupted(name_, rank_);
  if (failure_) throw Error(*failure_);
  try {
    body();
  } catch (const Error& error) {
    // That we were interrupted is no news to the others: for them we left.
    if (error.code() == Code::interrupted) leave_interrupted();
    abandon(error);
    throw;
  } catch (...) {
    leave(nullptr);
    throw;
  }
}

void MailboxTransport::exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming, Seconds timeout,
                                const Signature& signature) {
  check_messages(name_, rank_, size_, outgoing, incoming);
  guarded([&] {
    enter(signature);
    sending_.clear();
    receiving_.clear();
    for (const auto& message : outgoing) sending_.push_back({message, memory_->locate(message.data)});
    for (const auto& message : incoming) receiving_.push_back({message});
    wait([&] { return advance(); }, [&] { return unfinished(); }, timeout);
  });
}

void MailboxTransport::share(const Shown& mine, std::span<Shared> all, Seconds timeout, const Signature& signature) {
  guarded([&] {
    enter(signature);
    const auto where = memory_->locate(mine.data);
    const Card card{where.value_or(0), mine.data.size(), where.has_value(), mine.stand_in, mine.factor, signature.what, signature.size};
    if (auto& shown = cards_[at(rank_)]; card != shown.card || shown.version == 0) {
      shown.card = mine_.card = card;
      phase_.version = shown.version = next(shown.version);
    }
    phase_.order = static_cast<std::uint16_t>(signature.order);
    sharing_ = true;
    shared_at_ = phase_.number + 1;
    raise_phase();
    wait([&] { return all_at_phase(); }, [&] { return behind(); }, timeout);
    for (int rank = 0; rank < size_; ++rank) {
      Desk& desk = *desks_[at(rank)];
      auto& known = cards_[at(rank)];
      const auto phase = Phase::of(desk.phase.load(std::memory_order_acquire));
      if (phase.version != known.version) known = {desk.card, phase.version};
      if (known.card.what != signature.what || known.card.size != signature.size || phase.order != phase_.order)
        disagree(rank, desk.current.read());
      if (rank != rank_ && desk.gone.load() != 0) lost(rank);
      auto& shown = all[at(rank)];
      shown.factor = known.card.factor;
      shown.stand_in = known.card.stand_in;
      shown.data = known.card.reachable ? memory_->at(rank, known.card.where, known.card.bytes) : nullptr;
    }
  });
}

void MailboxTransport::unshare(Seconds timeout, const Traffic& moved) {
  guarded([&] {
    raise_phase();
    wait([&] { return all_at_phase(); }, [&] { return behind(); }, timeout);
    sharing_ = false;  // only now: a peer that has not come yet may be at our memory
    if (moved.sent != 0) sent_.fetch_add(moved.sent, std::memory_order_relaxed);
    if (moved.received != 0) received_.fetch_add(moved.received, std::memory_order_relaxed);
  });
}

void MailboxTransport::raise_phase() {
  ++phase_.number;
  post(mine_.phase, phase_.word(), light_);
  for (int rank = 0; rank < size_; ++rank)
    if (rank != rank_) desks_[at(rank)]->ring_if_asleep();
}

bool MailboxTransport::at_phase(const Desk& desk) const {
  return Phase::of(desk.phase.load(std::memory_order_acquire)).reached(phase_.number);
}

bool MailboxTransport::all_at_phase() {
  for (int rank = 0; rank < size_; ++rank) {
    const Desk& desk = *desks_[at(rank)];
    if (at_phase(desk)) continue;
    // Gone first, then the phase once more: its last word may have come in between.
    if (desk.gone.load() != 0 && !at_phase(desk)) lost(rank);
    return false;
  }
  return true;
}

std::vector<int> MailboxTransport::behind() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank)
    if (!at_phase(*desks_[at(rank)])) ranks.push_back(rank);
  return ranks;
}

template <typename Complete, typename Late>
void MailboxTransport::wait(const Complete& complete, const Late& late, Seconds timeout) {
  // Most peers are there within this, and then no clock is asked.
  for (int i = 0; i < (crowded_ ? 1 : 64); ++i) {
    if (complete()) return;
    pause();
  }
  const Nanoseconds deadline = deadline_after(timeout);
  Nanoseconds looked = now();
  // Where ranks outnumber cores, others want this one at once.
  for (;;) {
    const bool yields = crowded_ || PatientWait::here();
    const Nanoseconds begin = now(), alone = begin + (crowded_ ? 0 : spin_), until = begin + (yields ? kOfferCore : spin_);
    for (Nanoseconds time = begin; time < until;) {
      const bool offers = time >= alone;
      bool done = complete();
      for (int i = 1; i < 16 && !done; ++i) {
        offers ? static_cast<void>(::sched_yield()) : pause();
        done = complete();
      }
      const Nanoseconds before = std::exchange(time, now());
      if (offers) PatientWait::was_away(time - before);
      if (done) return;
    }
    if (interrupted_) throw_interrupted(name_, rank_);
    const std::uint32_t seen = mine_.bell.load();
    mine_.asleep.store(1);
    struct Awake {
      Desk& desk;
      ~Awake() { desk.asleep.store(0, std::memory_order_relaxed); }
    } awake{mine_};
    // Invariant 5: a change before `asleep` was set rang no bell, so look once more.
    light_barrier();
    if (complete()) return;
    if (interrupted_) continue;
    hear_farewells();
    const auto awaited = late();
    futex_wait(mine_.bell, seen, std::min(kLook, deadline - now()));
    if (now() - looked >= kLook / 2) {
      look_around(awaited);
      looked = now();
    }
    if (complete()) return;
    if (now() >= deadline) {
      // Who gave up just before us may know better.
      hear_farewells();
      throw Error(Code::timeout, fmt::format("[{}] rank {} waited {}; rank {} did not come", name_, rank_, to_string(timeout),
                                             list_of_ranks(chain_.culprits(late(), timeout))));
    }
  }
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
  Desk& desk = *desks_[at(peer)];
  Lane& lane = mine_.lane(peer);
  auto& posted = posted_[at(peer)];
  // Whether the peer is gone must be read before what it took, or its last word could be missed.
  const bool gone = desk.gone.load() != 0;
  const std::uint64_t taken = lane.taken.load();
  while (!sending.all_posted && posted - taken < kPieces) {
    Piece& piece = lane.pieces[posted % kPieces];
    piece = {sending.where.value_or(0), data.size(), data.size(), signature_, sending.message.factor};
    if (!sending.where) {
      // Piece n is free, so its bounce slot is.
      std::byte* slot = bounce(peer) + posted % kPieces * kBounceSlot;
      piece.bytes = std::min(kBounceSlot, data.size() - sending.posted);
      std::memcpy(slot, data.data() + sending.posted, piece.bytes);
      piece.where = *memory_->locate({slot, piece.bytes});
    }
    post(lane.posted, ++posted, light_);
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
  Desk& desk = *desks_[at(peer)];
  Lane& lane = desk.lane(rank_);
  const bool gone = desk.gone.load() != 0;
  const std::uint64_t posted = lane.posted.load();
  auto& taken = taken_[at(peer)];
  while (!receiving.done && taken < posted) {
    const Piece piece = lane.pieces[taken % kPieces];
    if (piece.signature != signature_) disagree(peer, piece.signature);
    if (piece.message != receiving.message.bytes)
      throw_wrong_length(name_, peer, rank_, piece.message, receiving.message.bytes);
    lane.reading.store(1);
    struct Read {
      Lane& lane;
      ~Read() { lane.reading.store(0); }
    } read{lane};
    if (desk.gone.load() != 0) lost(peer);
    take(receiving, piece);
    post(lane.taken, ++taken, light_);
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
      message.sink.take(message.sink.context, receiving.taken, {bytes, piece.bytes}, piece.factor);
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

void MailboxTransport::enter(const Signature& signature) {
  if (signature == signature_) return;
  signature_ = signature;
  mine_.current.write(signature);
}

/// Someone who gave up with words ends it for all, also for those who wait for others only.
void MailboxTransport::hear_farewells() {
  for (int peer = 0; peer < size_; ++peer)
    if (Desk& desk = *desks_[at(peer)]; desk.gone.load() != 0 && desk.last_words.size != 0) lost(peer);
}

/// After a while without news: whether the others still run, are at the same thing, and wait themselves.
void MailboxTransport::look_around(const std::vector<int>& awaited) {
  for (const int peer : awaited)
    if (!memory_->alive(peer)) lost(peer);
  if (!awaited.empty()) mine_.current.awaits.store(awaited.front(), std::memory_order_relaxed);
  mine_.current.beats.fetch_add(1, std::memory_order_release);
  for (int peer = 0; peer < size_; ++peer) {
    const Current& current = desks_[at(peer)]->current;
    const auto theirs = current.read();
    if (contradict(theirs, signature_)) disagree(peer, theirs);
    const std::uint32_t beats = current.beats.load(std::memory_order_acquire);
    if (beats != std::exchange(beats_[at(peer)], beats)) chain_.hear(peer, current.awaits.load(std::memory_order_relaxed));
  }
}

/// Tells everyone, and lets those finish who are at our memory (invariants 3 and 4), where it goes with us.
void MailboxTransport::leave(const Error* why) noexcept {
  if (mine_.gone.load() == 0 && why != nullptr) {
    LastWords& words = mine_.last_words;
    const std::string_view text = why->what();
    words.code = static_cast<std::uint32_t>(why->code());
    words.size = static_cast<std::uint32_t>(std::min(text.size(), words.text.size()));
    std::copy_n(text.begin(), words.size, words.text.begin());
  }
  mine_.gone.store(1);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    Desk& desk = *desks_[at(peer)];
    desk.ring_if_asleep();
    if (!memory_->dies_with_owner()) continue;
    const auto at_our_memory = [&] {
      return mine_.lane(peer).reading.load() != 0 ||
             (sharing_ && Phase::of(desk.phase.load()).number == shared_at_ && desk.gone.load() == 0);
    };
    // Without a limit, and it ends: the peer is a thread of this process that reads now, or is to learn that this rank has gone.
    // Whoever went on would free memory that is being read.
    while (at_our_memory()) ::sched_yield();
  }
  sharing_ = false;
}

void MailboxTransport::abandon(const Error& why) noexcept {
  leave(&why);
  if (!failure_) failure_ = why;
}

void MailboxTransport::interrupt() noexcept {
  interrupted_.store(true);
  mine_.ring();
}

Traffic MailboxTransport::traffic() const { return {sent_.load(), received_.load()}; }

std::unique_ptr<Transport> MailboxTransport::subgroup(const std::vector<int>& ranks, Rendezvous& rendezvous) {
  return std::make_unique<MailboxTransport>(name_, rendezvous.rank(), rendezvous.size(), memory_->among(ranks, rendezvous));
}

void MailboxTransport::disagree(int peer, const Signature& theirs) const {
  throw_disagreement(name_, peer, describe(theirs), rank_, describe(signature_));
}

/// With the reason that `peer` left, where it left one.
void MailboxTransport::lost(int peer) const {
  Desk& desk = *desks_[at(peer)];
  if (const LastWords& words = desk.last_words; desk.gone.load() != 0 && words.size != 0)
    throw Error(static_cast<Code>(words.code), std::string(words.text.data(), std::min<std::size_t>(words.size, words.text.size())));
  throw Error(Code::peer_lost, fmt::format("[{}] rank {} lost rank {}: it {}", name_, rank_, peer,
                                           memory_->alive(peer) ? "left the group" : "no longer runs"));
}

std::vector<int> MailboxTransport::unfinished() const {
  std::vector<int> peers;
  for (const auto& sending : sending_)
    if (!sending.done) peers.push_back(sending.message.peer);
  for (const auto& receiving : receiving_)
    if (!receiving.done) peers.push_back(receiving.message.peer);
  return peers;
}

}  // namespace ddl
