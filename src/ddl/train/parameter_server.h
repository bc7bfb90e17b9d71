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

#include "ddl/core/error.h"
#include "ddl/measure/trace.h"
#include "ddl/train/optimizer.h"
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

/// How old the parameters were that gradients were computed with, which a server applied.
struct StalenessReport {
  std::int64_t updates = 0;
  std::int64_t largest_clocks = 0;   ///< steps that the slowest worker was behind, when the parameters were given
  double mean_clocks = 0;
  std::int64_t largest_updates = 0;  ///< updates by others between giving the parameters and applying their gradient
  double mean_updates = 0;
};

/// A part of the parameters, and what their gradients do to it.
///
/// Sums: gradients of a clock are added in the order of workers, straight from where they lie, and applied once; everybody waits for that. Else each is applied as
/// it comes (Dean et al., Large Scale Distributed Deep Networks, NIPS 2012, Downpour SGD), one at a time; with a bound of s clocks a worker at clock c is given parameters only when
/// the slowest has come to c - s (Ho et al., More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server, NIPS 2013).
/// Threads: one for each worker.
class ParameterServer {
 public:
  struct Options {
    int workers = 1;
    bool sums = true;
    int stale = -1;     ///< clocks; -1: any number
    int worker = 0;     ///< in whose process it lives: for spans
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
  std::int64_t state_bytes() const { return optimizer_->state_bytes(); }

 private:
  void add(int worker, std::size_t offset, std::span<const std::byte> piece);
  void apply(const std::byte* gradients, double learning_rate);
  void push_sum(int worker, const ServerWord& word, const Fetch& fetch);
  void push_alone(int worker, const ServerWord& word, const Fetch& fetch);
  template <typename Ready>
  void wait(std::unique_lock<std::mutex>& lock, const Ready& ready);
  std::int64_t slowest() const;
  bool told(const std::optional<std::int64_t>& since, std::int64_t clock) const { return since && (*since <= clock || !options_.sums); }

  Options options_;
  std::span<std::byte> memory_;        ///< parameters, packed
  std::vector<at::Tensor> parameters_; ///< views of it
  std::vector<std::byte> sum_;         ///< of gradients, laid out alike
  std::unique_ptr<Optimizer> optimizer_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Error> failure_;
  int turn_ = 0;                             ///< whose gradients are added next
  std::vector<std::int64_t> clocks_;         ///< by worker: pushed
  std::vector<std::int64_t> asked_;          ///< by worker: the clock of its last pull
  std::vector<std::int64_t> given_;          ///< by worker: updates when it was given parameters last
  std::vector<std::int64_t> behind_;         ///< by worker: clocks, then
  std::optional<std::int64_t> stops_, fails_;  ///< the first clock at which somebody asked for it
  std::int64_t updates_ = 0;                 ///< of the parameters
  StalenessReport report_;                   ///< means are sums here
  Trace trace_;
};

}  // namespace ddl
