#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "ddl/strategy/pipeline/order.h"

namespace ddl {

/// The actions of one worker that has two chunks, there (0) and back (1), written pass by pass: of each pass through each chunk,
/// the next micro-batch. What comes after the last micro-batch is left out, which makes an order for many micro-batches one
/// for few: no micro-batch waits for a later one.
class VActions {
 public:
  VActions(const PipelineShape& shape, int worker)
      : micro_batches_(shape.micro_batches), stages_{worker, 2 * shape.workers - 1 - worker} {}

  void forward(int chunk) { add(Pass::forward, chunk, forwards_[at(chunk)]++); }
  void backward(int chunk) { add(Pass::backward, chunk, backwards_[at(chunk)]++); }
  void backward_input(int chunk);
  /// The oldest that is owed: of a chunk, or of both, if any is.
  void backward_weight(int chunk);
  void oldest_backward_weight();
  bool owes() const { return owes(0) || owes(1); }

  /// Whether every micro-batch is there and back: what would follow is left out anyway, and thousands of workers write a lot of it.
  bool complete() const { return finished_ == 2 * micro_batches_; }

  std::vector<Action> take() { return std::move(actions_); }

 private:
  struct Owed {
    int number;  ///< among all gradients of inputs
    int micro_batch;
  };
  static std::size_t at(int chunk) { return static_cast<std::size_t>(chunk); }
  bool owes(int chunk) const { return weights_[at(chunk)] < owed_[at(chunk)].size(); }
  void add(Pass pass, int chunk, int micro_batch) {
    if (micro_batch >= micro_batches_) return;
    actions_.push_back({pass, stages_[at(chunk)], micro_batch});
    finished_ += finishes(pass) ? 1 : 0;
  }

  int micro_batches_;
  std::array<int, 2> stages_;
  std::array<int, 2> forwards_{}, backwards_{};
  std::array<std::vector<Owed>, 2> owed_;  ///< by chunk; of those so many are done:
  std::array<std::size_t, 2> weights_{};
  int inputs_ = 0, finished_ = 0;
  std::vector<Action> actions_;
};

/// Both chunks of every worker in a V, each worker's actions written by `write`. Errors: invalid_argument for shapes that schedule `name` cannot do.
PipelineOrder v_order(std::string_view name, const PipelineShape& shape, std::vector<Action> (*write)(const PipelineShape& shape, int worker));

}  // namespace ddl
