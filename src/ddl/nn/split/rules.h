#pragma once

#include "ddl/nn/split/splitter.h"

namespace ddl {

/// How one kind of layer is split: reads its inputs in the layouts that it takes, cuts its parameters and gives its value.
using SplitRule = void (*)(Splitter& s, int layer);

SplitRule split_rule_of(LayerKind kind);

/// As it is, on every part: what cannot be split, or is not asked to be.
void run_whole(Splitter& s, int layer);

void split_product(Splitter& s, int layer);          ///< linear and convolution, products.cpp
void split_window(Splitter& s, int layer);           ///< pools, windows.cpp
void split_adaptive_pool(Splitter& s, int layer);
void split_batch_norm(Splitter& s, int layer);       ///< normalisation.cpp
void split_layer_norm(Splitter& s, int layer);
void split_pointwise(Splitter& s, int layer);        ///< elementwise.cpp
void split_add(Splitter& s, int layer);
void split_concatenate(Splitter& s, int layer);
void split_flatten(Splitter& s, int layer);
void split_embedding(Splitter& s, int layer);        ///< words.cpp
void split_positions(Splitter& s, int layer);
void split_attention(Splitter& s, int layer);
// What earlier axes of a mesh have put in, exchanges.cpp and normalisation.cpp.
void split_exchange(Splitter& s, int layer);
void split_bias(Splitter& s, int layer);
void split_batch_moments(Splitter& s, int layer);
void split_batch_normalise(Splitter& s, int layer);

/// A convolution or pool along height or width, if the options ask for it and every part gets some rows; whether it was done. windows.cpp.
bool split_spatially(Splitter& s, int layer);

/// A layer that adds a bias to what lies so: the bias is cut as that is, along channels or features.
void cut_bias(Splitter& s, Layer& made, const Layout& home);

/// Layer `partial` of the part gives summands of the value of `layer`: exchanges them, then adds the bias, if there is one.
void complete_with_bias(Splitter& s, int layer, int partial, const std::vector<ParameterSpec>& bias, const Layout& to);

}  // namespace ddl
