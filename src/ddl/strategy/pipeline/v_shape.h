#pragma once

#include <array>
#include <deque>
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

  void forward(int chunk) { add(Pass::forward, chunk, forwards_.at(at(chunk))++); }
  void backward(int chunk) { add(Pass::backward, chunk, backwards_.at(at(chunk))++); }
  void backward_input(int chunk);
  /// The oldest that is owed: of a chunk, or of both, if any is.
  void backward_weight(int chunk);
  void oldest_backward_weight();
  bool owes() const { return !owed_.empty(); }

  std::vector<Action> take() { return std::move(actions_); }

 private:
  struct Owed {
    int chunk, micro_batch;
  };
  static std::size_t at(int chunk) { return static_cast<std::size_t>(chunk); }
  void add(Pass pass, int chunk, int micro_batch);

  int micro_batches_;
  std::array<int, 2> stages_;
  std::array<int, 2> forwards_{}, backwards_{};
  std::deque<Owed> owed_;
  std::vector<Action> actions_;
};

/// Both chunks of every worker in a V, each worker's actions written by `write`. Errors: invalid_argument for shapes that schedule `name` cannot do.
PipelineOrder v_order(std::string_view name, const PipelineShape& shape, std::vector<Action> (*write)(const PipelineShape& shape, int worker));

}  // namespace ddl
