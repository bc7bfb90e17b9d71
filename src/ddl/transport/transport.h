#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/core/units.h"

namespace ddl {

class NativeCollectives;
class Rendezvous;

/// What ranks do together, in the words of whoever uses the transport. Every message carries its sender's; where the
/// receiver's is another, both fail and say so.
struct Signature {
  std::uint64_t what = 0;
  std::uint64_t size = 0;
  /// The how-manieth of the things that all ranks do together, from 1 on: ranks that wait at the same one for each other
  /// but are not at the same find out within a second, even where no message passes between them. 0: not counted.
  std::uint64_t order = 0;

  bool operator==(const Signature&) const = default;
};
constexpr bool contradict(const Signature& a, const Signature& b) { return a.order != 0 && a.order == b.order && a != b; }

/// One message leaving this rank. The bytes must stay as they are until exchange() returns.
struct Outgoing {
  int peer = 0;
  std::span<const std::byte> data;
  double factor = 1;  ///< goes with the message, for the receiver to apply
};

/// Takes a message piece by piece, in order; none but the last ends inside a run of 8 bytes, so none splits an
/// element. `piece` is only valid during the call; `factor` is the sender's.
struct Sink {
  void (*take)(void* context, std::size_t offset, std::span<const std::byte> piece, double factor) = nullptr;
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

/// What one rank shows the others in share().
struct Shown {
  std::span<std::byte> data;
  double factor = 1;
  bool stand_in = false;  ///< for bytes that the others cannot reach
};

/// The same, as this rank finds it.
struct Shared {
  std::byte* data = nullptr;  ///< null where it does not lie in memory that all can reach
  double factor = 1;
  bool stand_in = false;
};

/// One rank's end of a wire that reaches every other rank of its group. One thread at a time calls exchange(), share()
/// and unshare().
///
/// After an error of theirs the transport is unusable and says the same again, and the other ranks are told: whoever
/// waits for this one fails with the same code and words, so that the reason reaches everyone.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Whether peers read memory of allocate() in place, so that a message costs no copy; share() works where it does.
  virtual bool shares_memory() const = 0;

  /// Memory that this transport moves most cheaply (peers read it in place, where it is shared). Zeroed, aligned to
  /// 64 bytes (2 MiB from that size on), owned by the transport and gone with it. Touched first by the caller, so that
  /// it lies at the caller's NUMA node.
  /// Errors: io where the machine has no more of it.
  virtual std::span<std::byte> allocate(std::size_t bytes) = 0;

  /// Whether the other ranks can read and write these bytes in place.
  virtual bool reachable(std::span<const std::byte> data) const;

  /// Moves all messages of one round, both ways at once, and returns when every one is complete: what was sent may be
  /// overwritten (its peer took it, or the kernel carries it). Messages between two ranks keep their order across
  /// calls; empty ones count.
  /// Errors: peer_lost (which rank), timeout (which rank did not come), invalid_argument (signatures disagree: what
  /// each side says), corrupt (lengths disagree), interrupted. invalid_argument for a peer that does not exist: nothing
  /// was moved, and the transport is as it was.
  virtual void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming, Seconds timeout,
                        const Signature& signature = {}) = 0;

  /// Shows `mine` to all ranks and waits until all have shown theirs: `all`, by rank, is then where each one's bytes are
  /// for this rank to read and write, until unshare(). How many those are is for the ranks to agree on.
  /// Errors: those of exchange(); unsupported where shares_memory() is false.
  virtual void share(const Shown& mine, std::span<Shared> all, Seconds timeout, const Signature& signature);
  /// Waits until every rank is done with what was shown. May be called several times after one share(), as a barrier.
  /// Errors: those of exchange().
  /// `moved` is what share() let the caller move, for traffic().
  virtual void unshare(Seconds timeout, const Traffic& moved = {});

  /// A transport among `ranks` of this one's, in that order; this rank is one of them. Called by each of them, with a
  /// rendezvous of their own. Where memory is shared, the new one reaches that of this one's allocate() too.
  /// Errors: as making a transport.
  virtual std::unique_ptr<Transport> subgroup(const std::vector<int>& ranks, Rendezvous& rendezvous) = 0;

  /// Gives up: tells all ranks `why`. Later calls here throw it.
  virtual void abandon(const Error& why) noexcept = 0;

  /// Makes a pending and every later exchange() throw `interrupted`. Any thread may call it.
  virtual void interrupt() noexcept = 0;

  /// As interrupt(), and the other ranks are told `why`: by whoever is in a call, or as this object goes. The first words count; transports of libraries
  /// (gloo, nccl) have none to pass on.
  void depart(const Error& why) noexcept;

  virtual Traffic traffic() const = 0;

  /// The collectives that the library under this transport has of its own; null where it has none.
  virtual NativeCollectives* native() { return nullptr; }

  /// How messages put a signature into words.
  using Describe = std::string (*)(const Signature&);
  void describe_with(Describe words) { describe_ = words; }

 protected:
  std::string describe(const Signature& signature) const;
  /// Of depart().
  std::optional<Error> parting_words() const;

 private:
  mutable std::mutex parting_;
  std::optional<Error> words_;
  Describe describe_ = nullptr;
};

}  // namespace ddl
