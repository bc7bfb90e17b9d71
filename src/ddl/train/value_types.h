#pragma once

#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/nn/graph.h"

namespace ddl {

/// The element type of every layer's value in training at `precision`, with parameters as in `like`. Under autocast that is a matter of each operator's
/// place in LibTorch's lists, and of what it is given: each layer is run alone, on zeros of the types found before it, one after the other, so that
/// whoever is to receive a value knows what will come without being told.
/// Cost:   where precision is not mixed none; else one forward of each sort of layer on two samples, with the parameters of one at a time.
std::vector<at::ScalarType> value_types(const ModelGraph& graph, const at::TensorOptions& like, const std::string& precision);

}  // namespace ddl
