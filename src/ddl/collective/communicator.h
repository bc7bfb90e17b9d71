#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ddl/collective/algorithms.h"
#include "ddl/collective/execute.h"
#include "ddl/collective/operation.h"
#include "ddl/measure/clock.h"
#include "ddl/transport/transport.h"

namespace ddl {

/// A collective under way. Copies refer to the same one.
class Handle {
 public:
  struct State;
  Handle() = default;
  explicit Handle(std::shared_ptr<State> state) : state_(std::move(state)) {}

  bool valid() const { return state_ != nullptr; }
  bool done() const;
  /// Blocks until complete. Errors: whatever the collective failed with.
  void wait() const;
  /// When it was taken up with its buffer ready, by the communication thread or in wait(), and when it was complete. Call after wait().
  Nanoseconds began() const;
  Nanoseconds ended() const;

 private:
  std::shared_ptr<State> state_;
};

/// When a collective runs. A group's ranks need not choose alike.
enum class Start : std::uint8_t {
  now,      ///< in the background, as soon as those before it are done
  at_wait,  ///< on the thread that waits for it, or for a later one: no other thread is woken for it
};

struct CommunicatorOptions {
  /// How long a collective waits for a rank that does not move it on: the others fail so long after it stopped, or sooner.
  Seconds timeout{60};
  /// The host of every rank, for hierarchical; empty: all on one.
  std::vector<int> hosts = {};
  /// What "auto" means for a goal and so many bytes between so many ranks: of a group, its own. Must be the same on every rank. Empty: default_algorithm().
  std::function<std::string(Goal goal, std::size_t bytes, int ranks)> automatic = {};
};

/// The algorithm that "auto" stands for where nothing was measured.
std::string_view default_algorithm(Goal goal, std::size_t bytes, int ranks, bool shares_memory);

/// The collectives of one group of ranks, run one after the other on a thread of its own.
/// Every rank must start the same collectives in the same order; who does not gets an error, and so does everyone else.
/// Threads: any, but one caller at a time.
/// The result has the same bits on every rank and in every run: each element is reduced in an order that only the
/// algorithm, P and the size decide.
class Communicator {
 public:
  /// Takes the transport.
  Communicator(std::unique_ptr<Transport> transport, CommunicatorOptions options);
  Communicator(std::unique_ptr<Transport> transport, Seconds timeout)
      : Communicator(std::move(transport), CommunicatorOptions{timeout}) {}
  /// Interrupts what is pending and joins the thread.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const;
  int size() const;
  Transport& transport();

  /// Errors: not_found, invalid_argument for an algorithm, root or shape that cannot be, unsupported.
  /// Errors (from the handle): invalid_argument when ranks are not at the same collective, plus those of
  /// Transport::exchange(); each names the operation and its number.
  /// A group's errors count ranks as the group does, and name its members.
  /// `ready`, if given, is called first, on the thread that runs the collective: it waits until the buffer is filled. What it throws is the
  /// collective's error, on every rank.
  Handle start(const Collective& what, const Buffer& buffer, Start start = Start::now, std::function<void()> ready = {});
  /// The same, on this thread, until complete; after what was started before. Costs no hand-over and no allocation.
  void run(const Collective& what, const Buffer& buffer);
  /// What this rank would send in it. Nothing is moved. Errors: those of start().
  std::int64_t bytes_sent(const Collective& what, std::size_t elements, ElementType type);

  Handle all_reduce(Buffer buffer, ReduceOp op, std::string_view algorithm = "auto", Start start = Start::now, std::function<void()> ready = {});
  Handle broadcast(Buffer buffer, int root, Start start = Start::now);
  Handle barrier(Start start = Start::now);

  /// A group of some of these ranks, in that order, with a thread and an order of its own: collectives of both may be
  /// under way at once. Called by each of `ranks`, after what was started before. Where memory is shared, the group reaches
  /// that of this one's transport().allocate() in place.
  /// Errors: invalid_argument where `ranks` repeat, do not exist or lack this one; those of a transport's making.
  std::unique_ptr<Communicator> group(const std::vector<int>& ranks);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddl
