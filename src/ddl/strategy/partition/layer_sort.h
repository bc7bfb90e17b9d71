#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ddl/nn/graph.h"

namespace ddl {

std::string_view name(LayerKind kind);

/// What a layer computes, with what shapes, in words: layers that say the same take as long. Stable, since machine profiles keep it:
/// `conv2d[kernel=3x3,stride=2x2,padding=1x1] (64x56x56 learning) -> 128x28x28 own 128x64x3x3 channels last`. How maps lie is as fast kernels have it. `learns`: learning_layers().
std::string layer_sort(const ModelGraph& graph, std::size_t number, const std::vector<bool>& learns);
/// The same of the loss of what the network gives out: `loss (1000)`; `loss (64x8000) and (1000)` with an auxiliary output.
std::string loss_sort(const ModelGraph& graph);

/// Layers that work alike, so that what they take goes by how much they work: `conv2d 3x3`, `conv2d depthwise channels last`, `linear`.
std::string layer_family(const ModelGraph& graph, std::size_t number);

/// How much a layer works.
struct LayerWork {
  double flops = 0;         ///< forward, one sample
  double elements = 0;      ///< of what it reads and makes, one sample
  double parameters = 0;    ///< elements, its own and borrowed
  bool learning_input = false;  ///< some gradient of an input is wanted
  bool trains = false;          ///< some parameter, its own or borrowed
};
LayerWork layer_work(const ModelGraph& graph, std::size_t number, const std::vector<bool>& learns);
/// Of the loss.
LayerWork loss_work(const ModelGraph& graph);

}  // namespace ddl
