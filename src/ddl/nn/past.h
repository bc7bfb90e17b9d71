#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "ddl/nn/graph.h"

namespace ddl {

/// Of each layer, whether what it computes follows from the target's words.
std::vector<bool> reads_target(const ModelGraph& graph);

/// Whether a network can be given its target one word at a time: every layer that reads it computes each place by itself or from those
/// before it alone, as causal attention and an LSTM do.
bool goes_word_by_word(const ModelGraph& graph);

/// What the layers of a network keep of the places that it was given, so that only the new one is computed.
class Past {
 public:
  /// For at most `longest` places.
  Past(std::size_t layers, std::int64_t longest) : layers_(layers), longest_(longest) {}

  struct Kept {
    at::Tensor first, second;  ///< keys and values [n, heads, places, features each], or an LSTM's output and cell [n, hidden]
    bool grows = false;        ///< by a place with each word: only the first places() of it are filled
  };
  Kept& of(int layer) { return layers_[static_cast<std::size_t>(layer)]; }
  /// With one further place [n, heads, 1, features each]. Returns all there are, the new one too.
  std::pair<at::Tensor, at::Tensor> extend(int layer, const at::Tensor& first, const at::Tensor& second);

  /// Places that are done. The caller of a network goes on after each word.
  std::int64_t places() const { return places_; }
  void go_on() { ++places_; }
  /// Only these samples remain, in this order: [m] int64.
  void keep(const at::Tensor& samples);

 private:
  std::vector<Kept> layers_;
  std::int64_t longest_, places_ = 0;
};

}  // namespace ddl
