#pragma once

#include <initializer_list>
#include <string>

#include "ddl/core/spec.h"
#include "ddl/data/dataset.h"
#include "ddl/nn/graph_builder.h"

namespace ddl {

/// Images under this many pixels a side get the stem for small ones, where a network has two.
constexpr int kSmallImages = 64;

inline bool small_images(const SampleShape& images) { return images.height < kSmallImages || images.width < kSmallImages; }

/// A builder whose input is a sample's image. Errors: invalid_argument where samples are not images with labels, or smaller
/// than `at_least` pixels a side.
GraphBuilder for_images(const std::string& network, const SampleShape& shape, int at_least = 1);

/// Errors: invalid_argument where another thing is learnt than the network is for.
void require_objective(const std::string& network, const SampleShape& shape, Objective objective);

/// Options as numbers. Errors: invalid_argument with what was got and the range.
std::int64_t whole_option(const Spec& spec, const std::string& key, std::int64_t standard, std::int64_t low, std::int64_t high);
double part_option(const Spec& spec, const std::string& key, double standard);  ///< 0 to less than 1
/// Errors: invalid_argument with the nearest of the words.
std::string word_option(const Spec& spec, const std::string& key, std::initializer_list<std::string> words);

}  // namespace ddl
