#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddl/predict/images/operators.h"

namespace ddl {

/// Operators of a network by the name that tables use: ours (nn/builtin.h), VGG-19 and ResNet-152 v2 besides, and the sequential ones below. `image`: channels, height, width; empty: as published.
/// Made once for each name and image; safe from several threads.
/// Errors: not_found for other names, with those that are known; those of the network for images that it does not take.
const ImageOperators& image_network(const std::string& model, const std::vector<std::int64_t>& image);

/// The form that torchgpipe 0.0.7 cuts into stages, layer by layer as its benchmarks number them: resnet50, resnet101, resnet152, "U-Net(convolutions;channels)", "AmoebaNet-D(layers;filters)".
/// Errors: not_found for other names; unsupported for images that are not square or do not halve as often as the network does.
const SequentialNetwork& sequential_network(const std::string& model, const std::vector<std::int64_t>& image);
bool is_sequential(const std::string& model);

/// ResNet-101 has 370 layers so. Bottlenecks: of each of the four resolutions.
SequentialNetwork sequential_resnet(const std::vector<int>& bottlenecks, double size);
/// So many convolutions a cell, `channels` after the first cell, halved five times; one channel in the end. U-Net(5;64) has 241 layers, (6;72) 362.2 million parameters and (24;128) 4.99 thousand
/// million, as published.
SequentialNetwork sequential_unet(int convolutions, int channels, double size);
/// AmoebaNet-D: a stem, two cells that halve, `layers` cells with two more that halve between their thirds, a classifier. (18;256) has 24 layers, (18;208) 81.5 million parameters as published.
SequentialNetwork sequential_amoebanet(int layers, int filters, double size);

}  // namespace ddl
