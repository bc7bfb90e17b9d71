#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ddl/core/units.h"

namespace ddl {

/// One message leaving this rank. The bytes must stay as they are until exchange() returns.
struct Outgoing {
  int peer = 0;
  std::span<const std::byte> data;
};

/// Takes a message piece by piece, in order; none but the last ends inside a run of 8 bytes, so none splits an
/// element. `piece` is only valid during the call.
struct Sink {
  void (*take)(void* context, std::size_t offset, std::span<const std::byte> piece) = nullptr;
  void* context = nullptr;
};

/// One message to come: placed at `into`, or, where that is null, handed to `sink` (which is how a reduction happens
/// while bytes arrive, and straight out of a peer's memory where the transport shares it).
struct Incoming {
  int peer = 0;
  std::size_t bytes = 0;
  std::byte* into = nullptr;
  Sink sink;
};

/// Payload bytes that this rank moved since it was made.
struct Traffic {
  std::int64_t sent = 0;
  std::int64_t received = 0;
};

/// One rank's end of a wire that reaches every other rank of its group. One thread at a time calls exchange().
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Whether peers read memory of allocate() in place, so that a message costs no copy.
  virtual bool shares_memory() const = 0;

  /// Memory that this transport moves most cheaply (peers read it in place, where it is shared). Zeroed, aligned to
  /// 64 bytes (2 MiB from that size on), owned by the transport and gone with it.
  /// Errors: io where the machine has no more of it.
  virtual std::span<std::byte> allocate(std::size_t bytes) = 0;

  /// Moves all messages of one round, both ways at once, and returns when every one is complete: what was sent may be
  /// overwritten (its peer took it, or the kernel carries it). Messages between two ranks keep their order across
  /// calls; empty ones count.
  /// Errors: peer_lost (which rank), timeout (which rank did not come), corrupt (lengths disagree: what each side
  /// says), interrupted; after any of these the transport is unusable, and says the same again. invalid_argument for
  /// a peer that does not exist: nothing was moved, and the transport is as it was.
  virtual void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming, Seconds timeout) = 0;

  /// Makes a pending and every later exchange() throw `interrupted`. Any thread may call it.
  virtual void interrupt() noexcept = 0;

  virtual Traffic traffic() const = 0;
};

}  // namespace ddl
