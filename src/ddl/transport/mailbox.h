#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "ddl/transport/futex.h"
#include "ddl/transport/transport.h"

namespace ddl {

// The words that ranks share, wherever they live: one process's heap or memory mapped by several.
//
// Invariants.
//  1. A lane's `posted`, `pieces` are written by its sender only; `taken`, `reading` by its receiver only.
//  2. taken <= posted <= taken + kPieces; piece n lies in pieces[n % kPieces] and is not touched until it is taken.
//  3. A receiver reads a sender's memory only between setting and clearing `reading`, and only if, after setting it,
//     it still found the sender open. A sender that gives up marks itself gone, then waits for `reading` to clear:
//     nobody reads its memory after exchange() has thrown.
//  4. A phase and a card are written by their owner only, the card only when every rank has raised its phase after the
//     meeting that showed the last one, and the phase's version tells that it was. A rank touches what a card shows between
//     seeing that everyone is at the meeting's phase, and nobody gone, and raising its own.
//  5. Whoever changes a word that a rank may wait for looks at that rank's `asleep` afterwards; whoever goes to sleep
//     sets `asleep` and looks at the words afterwards, with a barrier between on either side, so one sees the other. The
//     sleeper makes the barrier for both where the kernel lets it (see light_posts()): a post then does not wait for its
//     cache line, which costs as much as a meeting.

/// Bytes that are ready at a sender: `where` in its terms, and the length of the message that they are a part of.
struct Piece {
  std::uint64_t where = 0;
  std::uint64_t bytes = 0;
  std::uint64_t message = 0;
  Signature signature;
  double factor = 1;
};

/// Two, so that a bounce slot is filled while the other is emptied, and so that what a sender writes for one message
/// is two cache lines, fetched as a pair.
inline constexpr std::size_t kPieces = 2;

/// Two lines: processors fetch them in pairs.
inline constexpr std::size_t kApart = 128;

/// From one rank to another.
struct alignas(kApart) Lane {
  std::atomic<std::uint64_t> posted{0};
  std::array<Piece, kPieces> pieces{};
  alignas(kApart) std::atomic<std::uint64_t> taken{0};
  std::atomic<std::uint32_t> reading{0};
};

/// How far a rank is: what others spin on, so nothing else is in its line. As long as cards stay as they are, this word is
/// all that a meeting moves.
struct Phase {
  std::uint32_t number = 0;
  std::uint16_t version = 0;  ///< of the card
  std::uint16_t order = 0;    ///< of the signature, its lower bits

  std::uint64_t word() const { return std::uint64_t{number} << 32 | std::uint64_t{version} << 16 | order; }
  static Phase of(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word >> 32), static_cast<std::uint16_t>(word >> 16), static_cast<std::uint16_t>(word)};
  }
  /// Whether it is at `other` or further.
  bool reached(std::uint32_t other) const { return static_cast<std::int32_t>(number - other) >= 0; }
};

/// Where a rank's memory is, for everyone to see.
struct alignas(kApart) Card {
  std::uint64_t where = 0;
  std::uint64_t bytes = 0;
  bool reachable = false;
  bool stand_in = false;
  double factor = 1;
  std::uint64_t what = 0;  ///< of the signature
  std::uint64_t size = 0;

  bool operator==(const Card&) const = default;
};

/// What a rank is at, for those who wait long. `order` is cleared while the rest of the signature changes.
struct alignas(kApart) Current {
  std::atomic<std::uint32_t> beats{0};  ///< rises every while as long as it waits
  std::atomic<std::int32_t> awaits{-1};  ///< for whom, at the last beat
  std::atomic<std::uint64_t> order{0};
  std::atomic<std::uint64_t> what{0};
  std::atomic<std::uint64_t> size{0};

  void write(const Signature& signature) {
    order.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    what.store(signature.what, std::memory_order_relaxed);
    size.store(signature.size, std::memory_order_relaxed);
    order.store(signature.order, std::memory_order_release);
  }
  /// Of order 0 where it changes just now.
  Signature read() const {
    const std::uint64_t before = order.load(std::memory_order_acquire);
    Signature signature{what.load(std::memory_order_relaxed), size.load(std::memory_order_relaxed), before};
    std::atomic_thread_fence(std::memory_order_acquire);
    if (order.load(std::memory_order_relaxed) != before) signature.order = 0;
    return signature;
  }
};

/// Why a rank gave up; written before `gone`.
struct alignas(kApart) LastWords {
  std::uint32_t code = 0;
  std::uint32_t size = 0;  // of text; 0 where it left in peace
  std::array<char, 1016> text{};
};

/// One rank's words; its lane to each rank of the group follows in memory.
struct alignas(kApart) Desk {
  alignas(kApart) std::atomic<std::uint64_t> phase{0};
  Card card;
  alignas(kApart) std::atomic<std::uint32_t> asleep{0};
  std::atomic<std::uint32_t> gone{0};
  alignas(kApart) std::atomic<std::uint32_t> bell{0};
  Current current;
  LastWords last_words;

  Lane& lane(int to) { return reinterpret_cast<Lane*>(this + 1)[to]; }

  static std::size_t bytes(int ranks) { return sizeof(Desk) + static_cast<std::size_t>(ranks) * sizeof(Lane); }
  /// Makes a desk in zeroed memory that is aligned to kApart.
  static Desk* make(void* memory, int ranks) {
    auto* desk = new (memory) Desk;
    for (int rank = 0; rank < ranks; ++rank) new (&desk->lane(rank)) Lane;
    return desk;
  }

  void ring() {
    bell.fetch_add(1);
    futex_wake(bell);
  }
  /// After a change that this rank may be waiting for.
  void ring_if_asleep() {
    if (asleep.load() != 0) ring();
  }
};

}  // namespace ddl
