#pragma once

#include <cstdint>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/collective/communicator.h"
#include "ddl/nn/graph.h"

namespace ddl {

/// One move of one value between the parts of a split network, or of its gradient back: what is put into the collective's buffer, and what is made of
/// it when the collective is done. Values are [samples, …], or [1, …] where a batch has one.
///
/// Maps lie in the buffer with their channels together, whatever memory format a part has, so that all parts mean the same.
class PartMove {
 public:
  /// `from`: this part's value. `overwrite`: an all-reduce may work in its memory. Move::none and Move::slice need no collective: result() is there at once.
  PartMove(const PartExchange& how, bool forward, at::Tensor from, bool overwrite = false);

  Collective collective() const;
  /// Dense; of the collective.
  const at::Tensor& buffer() const { return buffer_; }
  /// Once the collective is done.
  at::Tensor result();

 private:
  using Parts = std::vector<std::vector<IndexRange>>;
  std::vector<std::int64_t> shape(std::int64_t indices) const;
  /// The first `indices` of a slot of the buffer, as a value.
  at::Tensor slot(int number, std::int64_t indices) const;
  void fill(const std::vector<IndexRange>& own);

  const PartExchange& how_;
  Move move_;
  const Parts &before_, &after_;   ///< of the value that moves
  at::Tensor from_;                ///< as long as it is needed
  std::int64_t samples_;
  std::int64_t slot_elements_;     ///< of all samples
  at::Tensor buffer_;
};

}  // namespace ddl
