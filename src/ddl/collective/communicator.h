#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "ddl/core/registry.h"
#include "ddl/measure/clock.h"
#include "ddl/plan/schedule.h"
#include "ddl/transport/transport.h"

namespace ddl {

enum class ElementType : std::uint8_t { fp32, fp64, int32, int64 };
enum class ReduceOp : std::uint8_t { sum, average, max, min };
std::size_t size_of(ElementType type);

/// A collective's buffer on one rank; it is read and written in place.
struct Buffer {
  std::byte* data = nullptr;
  std::size_t elements = 0;
  ElementType type = ElementType::fp32;
};

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
  /// When it was taken up, by the communication thread or in wait(), and when it was complete. Call after wait().
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

/// The collectives of one group of ranks, run one after the other on a thread of its own.
/// Every rank must start the same collectives in the same order. Threads: any, but one caller at a time.
/// The result has the same bits on every rank and in every run: each element is summed in an order that only the
/// algorithm, P and the size decide.
class Communicator {
 public:
  /// Takes the transport. `timeout` bounds each collective from the moment this rank enters it.
  Communicator(std::unique_ptr<Transport> transport, Seconds timeout);
  /// Interrupts what is pending and joins the thread.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const;
  int size() const;
  Transport& transport();

  /// `algorithm`: a name of builtin_collectives(), or "auto". An average of integers is rounded towards zero.
  /// Errors: not_found, invalid_argument for an algorithm or root that does not exist.
  /// Errors (from the handle): invalid_argument when ranks disagree on size, plus those of Transport::exchange().
  Handle all_reduce(Buffer buffer, ReduceOp op, std::string_view algorithm = "auto", Start start = Start::now);
  Handle broadcast(Buffer buffer, int root, Start start = Start::now);
  Handle barrier(Start start = Start::now);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// One algorithm of one collective.
struct CollectiveAlgorithm {
  Goal goal = Goal::all_reduce;
  Algorithm schedule;
};

/// all-reduce by `ring` and `direct`, `broadcast`, `barrier`.
Registry<CollectiveAlgorithm> builtin_collectives();

}  // namespace ddl
