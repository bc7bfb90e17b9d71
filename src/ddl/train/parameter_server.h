#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/core/element.h"
#include "ddl/core/error.h"
#include "ddl/measure/trace.h"
#include "ddl/train/death_testing.h"
#include "ddl/train/optimizer.h"
#include "ddl/train/staleness.h"
#include "ddl/transport/transport.h"

namespace ddl {

/// What a worker says to a server ahead of what it sends or asks for.
struct ServerWord {
  enum class Kind : std::int32_t {
    push,  ///< gradients follow
    pull,  ///< parameters are wanted, as new as the server's rule has them
    look,  ///< parameters are wanted as they are
  };
  Kind kind = Kind::push;
  std::int32_t stops = 0;       ///< of pull: the worker asks all to stop after this step
  std::int32_t fails = 0;       ///< of pull: its loss is not finite
  std::int32_t reserved = 0;
  std::int64_t clock = 0;       ///< steps of the worker, this one included
  std::int64_t bytes = 0;       ///< of the gradients that follow; 0: it had no samples
  double learning_rate = 0;
};

/// What a server says ahead of its parameters.
struct ServerAnswer {
  std::int32_t stops = 0;
  std::int32_t fails = 0;
  std::int64_t behind = 0;      ///< clocks that the slowest worker is behind the one that is answered
};

/// A part of the parameters, and what their gradients do to it.
///
/// Sums: gradients of a clock are added in the order of workers and applied once; everybody waits for that. Each worker's thread adds its own, part after part, behind the
/// thread of the worker before it; the last applies a part as soon as it is complete, while it is in the cache. So a sum is never in memory as a whole, but for optimizers
/// that read norms of whole parameters.
/// Else each is applied as it comes (Dean et al., Large Scale Distributed Deep Networks, NIPS 2012, Downpour SGD), one at a time; with a bound of s clocks a worker at clock c is given
/// parameters only when the slowest has come to c - s (Ho et al., More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server, NIPS 2013).
/// Threads: one for each worker.
class ParameterServer {
 public:
  /// What messages with a worker are in the plan: of spans.
  struct Message {
    std::int32_t task = -1;
    std::uint32_t meeting = 0;
  };
  struct Options {
    int workers = 1;
    bool sums = true;
    int stale = -1;           ///< clocks; -1: any number
    int worker = 0;           ///< in whose process it lives: for spans
    std::int64_t window = 0;  ///< bytes of the sum that are kept at once; 0: all of it
    std::vector<Message> pushed = {}, answered = {};  ///< by worker; empty: not known
    double slow = 1;          ///< updates take so many times as long, as of a slower processor
  };
  using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(std::vector<at::Tensor>)>;

  /// Takes copies of `start`, packed in that order in memory that the transport moves most cheaply. On the host.
  ParameterServer(const Options& options, const std::vector<at::Tensor>& start, Transport& transport, const MakeOptimizer& make);

  /// Moves a message, which is there or comes soon, into the sink.
  using Fetch = std::function<void(const Sink& sink)>;
  /// Errors: what the server failed with; those of `fetch`.
  void push(int worker, const ServerWord& word, const Fetch& fetch);

  using Send = std::function<void(const ServerAnswer& answer, std::span<const std::byte> parameters)>;
  /// Waits as the rule says, then sends. Errors: as push().
  void pull(int worker, const ServerWord& word, const Send& send);
  void look(const Send& send);

  /// Whoever waits, or comes, fails with it. The first one counts.
  void fail(const Error& why);

  StalenessReport report() const;
  Trace take_trace();
  std::int64_t bytes() const { return static_cast<std::int64_t>(memory_.size()); }
  std::int64_t sum_bytes() const { return static_cast<std::int64_t>(sum_.size()); }
  std::int64_t state_bytes() const { return optimizer_->state_bytes(); }

 private:
  /// Consecutive bytes that are added as one, and applied so where the optimizer does not mind: `views` that no other part has any of.
  struct Part {
    std::size_t begin = 0, end = 0;
    std::size_t first_view = 0, last_view = 0;
    std::size_t at = 0;  ///< where its sum lies
  };

  void cut(const std::vector<at::Tensor>& start, bool whole);
  void apply(std::size_t first, std::size_t last, const std::byte* gradients, double learning_rate);
  void push_sum(int worker, const ServerWord& word, const Fetch& fetch);
  void push_alone(int worker, const ServerWord& word, const Fetch& fetch);
  /// Takes a piece of a worker's gradients, from where it lies.
  void add(std::size_t worker, double learning_rate, std::size_t offset, std::span<const std::byte> piece);
  void wait_for_turn(std::size_t worker);
  /// Of one that ends now; those of a server do not overlap. With the lock held.
  void tell(const std::vector<Message>& messages, int worker, const ServerWord& word, Nanoseconds begin, Cause cause);
  template <typename Ready>
  void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, const Ready& ready);
  std::int64_t slowest() const;
  bool told(const std::optional<std::int64_t>& since, std::int64_t clock) const { return since && (*since <= clock || !options_.sums); }

  Options options_;
  TestDeath death_;
  std::span<std::byte> memory_;        ///< parameters, packed
  std::vector<at::Tensor> views_;      ///< of it: parameters, or pieces of them where the optimizer does not mind
  std::vector<Part> parts_;            ///< in the order of memory
  std::size_t slots_ = 1;              ///< parts whose sums there is room for
  bool at_once_ = false;               ///< sums are applied when they are complete
  ElementType type_ = ElementType::fp32;
  std::vector<std::byte> sum_;         ///< of gradients: the window of it that is being made
  std::unique_ptr<Optimizer> optimizer_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Error> failure_;
  std::vector<std::condition_variable> moved_;  ///< by worker: its added_ grew
  std::vector<std::size_t> added_;              ///< by worker: parts of all clocks; changed by its thread alone, with the lock held
  std::vector<std::int64_t> clocks_;            ///< by worker: pushed
  std::vector<std::int64_t> asked_;             ///< by worker: the clock of its last pull
  std::vector<std::int64_t> given_;             ///< by worker: updates when it was given parameters last
  std::vector<std::int64_t> behind_;            ///< by worker: clocks, then
  std::optional<std::int64_t> stops_, fails_;   ///< the first clock at which somebody asked for it
  std::int64_t updates_ = 0;                    ///< of the parameters
  StalenessReport report_;                      ///< means are sums here
  Trace trace_;
};

}  // namespace ddl
