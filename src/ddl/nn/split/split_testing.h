#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include <c10/core/GradMode.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "ddl/nn/model.h"
#include "ddl/nn/network_testing.h"
#include "ddl/nn/split/lockstep_testing.h"

// Holds all parts of a split network together against the whole one.
namespace ddl {

inline constexpr double kExact = 1e-12;

inline std::vector<SplitOptions> options_of(const std::string& words) { return split_options(parse_spec("tensor[" + words + "]")); }

inline double largest(const at::Tensor& x) { return x.numel() == 0 ? 0 : x.abs().max().item<double>(); }

/// Relative to the largest element of what is expected.
inline void expect_near(const at::Tensor& got, const at::Tensor& expected, const std::string& what, double within = kExact) {
  ASSERT_EQ(got.sizes(), expected.sizes()) << what;
  EXPECT_LE(largest(got - expected), within * std::max(1.0, largest(expected))) << what;
}

/// Over a mesh of so many places on each axis.
struct Parts : std::vector<int> {
  Parts(int parts) : std::vector<int>{parts} {}
  Parts(std::initializer_list<int> axes) : std::vector<int>(axes) {}
};

inline std::vector<SplitAxis> axes_of(const std::string& words, const Parts& parts) {
  std::vector<SplitAxis> axes;
  for (auto& options : options_of(words)) axes.push_back({std::move(options), parts.at(axes.size())});
  return axes;
}

/// Calls body(block of the whole, block of the piece) for what lies together of a piece.
template <typename Body>
void for_each_block(const TensorPiece& piece, const at::Tensor& whole, const at::Tensor& own, const Body& body, std::size_t cut = 0) {
  if (cut == piece.cuts.size()) return body(whole, own);
  std::int64_t at = 0;
  for (const auto& [begin, end] : piece.cuts[cut].ranges) {
    for_each_block(piece, whole.narrow(piece.cuts[cut].dimension, begin, end - begin), own.narrow(piece.cuts[cut].dimension, at, end - begin), body, cut + 1);
    at += end - begin;
  }
}

/// What the parts have of one tensor of the whole network, put together: summands along the axes that have them, pieces along those that cut it, and the same along others.
inline at::Tensor together(const std::vector<SplitAxis>& axes, const std::vector<const ParameterSpec*>& specs, const PartValues& values, bool gradients, const std::string& what) {
  const auto& first = *specs[0];
  const auto is_along = [](const std::vector<int>& some, int axis) { return std::find(some.begin(), some.end(), axis) != some.end(); };
  std::map<int, at::Tensor> sums;      // of each piece, by the first part that has it
  std::map<int, at::Tensor> summands;  // of one place on axes where all have the same
  for (std::size_t p = 0; p < values.size(); ++p) {
    int same = 0;
    bool counts = true;
    for (int axis = 0; axis < static_cast<int>(axes.size()); ++axis) {
      const int place = place_on(axes, axis, static_cast<int>(p));
      const bool apart = is_along(first.cut_along, axis) || (gradients && is_along(first.partial_along, axis));
      same = same * axes[static_cast<std::size_t>(axis)].parts + (apart ? place : 0);
      counts = counts && (apart || place == 0);
    }
    if (!counts) {
      expect_near(values[p], summands.at(same), what + " is the same on all parts");
      continue;
    }
    summands[same] = values[p];
    auto& sum = sums[first_with(axes, first, static_cast<int>(p))];
    sum = sum.defined() ? sum + values[p] : values[p];
  }
  if (!first.piece) return sums.at(0);
  auto whole = at::zeros(first.piece->whole, values[0].options()), times = at::zeros_like(whole);
  for (const auto& [part, sum] : sums)
    for_each_block(*specs[static_cast<std::size_t>(part)]->piece, whole, sum, [](at::Tensor to, const at::Tensor& from) { to.add_(from); });
  for (const auto& [part, sum] : sums)
    for_each_block(*specs[static_cast<std::size_t>(part)]->piece, times, sum, [](at::Tensor to, const at::Tensor&) { to.add_(1); });
  EXPECT_TRUE(times.eq(1).all().item<bool>()) << what << " is cut into pieces";
  return whole;
}

enum class Run { joint, in_pieces };

/// Trains one step of both, in fp64, and compares all there is to compare.
inline void expect_equal(const ModelGraph& graph, const SampleShape& shape, const std::string& words, const Parts& over, std::int64_t samples = 3,
                         Run run = Run::joint, double within = kExact) {
  SCOPED_TRACE(fmt::format("{} {} in {} parts", graph.name, words, fmt::join(over, "x")));
  const NetworkOptions how{at::kDouble, at::kCPU, Kernels::fast, 5};
  Network whole(graph, how);
  const auto axes = axes_of(words, over);
  Lockstep split(graph, axes, how);
  const int parts = split.parts();
  auto given = made_up_samples(samples, shape, at::kDouble);
  given.input.step = 3;

  std::vector<std::vector<ParameterSpec>> specs, statistics(static_cast<std::size_t>(parts));
  for (int p = 0; p < parts; ++p) {
    specs.push_back(split.part(p).graph().parameter_specs());
    for (const auto& layer : split.part(p).graph().layers)
      if (!layer.frozen) statistics[static_cast<std::size_t>(p)].insert(statistics[static_cast<std::size_t>(p)].end(), layer.statistics.begin(), layer.statistics.end());
    ASSERT_EQ(split.part(p).parameters().size(), whole.parameters().size());
    ASSERT_EQ(split.part(p).buffers().size(), whole.buffers().size());
    ASSERT_EQ(split.part(p).parameter_names(), whole.parameter_names());
  }
  const auto gathered = [&](std::size_t i, bool gradients) {
    std::vector<const ParameterSpec*> of_parts;
    PartValues values;
    for (int p = 0; p < parts; ++p) {
      of_parts.push_back(&specs[static_cast<std::size_t>(p)][i]);
      const auto& parameter = split.part(p).parameters()[i];
      if (gradients) {
        EXPECT_TRUE(parameter.grad().defined()) << whole.parameter_names()[i];
      }
      values.push_back(gradients ? parameter.grad() : parameter.detach());
    }
    return together(axes, of_parts, values, gradients, whole.parameter_names()[i]);
  };
  for (std::size_t i = 0; i < whole.parameters().size(); ++i)
    EXPECT_TRUE(at::equal(gathered(i, false), whole.parameters()[i].detach())) << whole.parameter_names()[i] << " starts as it would";

  const auto expected = whole.forward(given.input, true);
  const auto measure = [&](const NetworkOutput& output) { return loss_of(output, given.labels, shape); };
  const auto got = run == Run::joint ? split.forward(given.input, true) : split.step(given.input, measure);
  const auto loss = loss_of(expected, given.labels, shape);
  at::Tensor losses;
  for (const auto& output : got) {
    expect_near(output.logits, expected.logits, "logits", within);
    const auto of_part = measure(output);
    expect_near(of_part, loss, "loss", within);
    losses = losses.defined() ? losses + of_part : of_part;
  }
  loss.backward();
  if (run == Run::joint) losses.backward();
  for (std::size_t i = 0; i < whole.parameters().size(); ++i)
    expect_near(gathered(i, true), whole.parameters()[i].grad(), "gradient of " + whole.parameter_names()[i], within);
  for (std::size_t i = 0; i < whole.buffers().size(); ++i) {
    std::vector<const ParameterSpec*> of_parts;
    PartValues values;
    for (int p = 0; p < parts; ++p) {
      of_parts.push_back(&statistics[static_cast<std::size_t>(p)][i]);
      values.push_back(split.part(p).buffers()[i]);
    }
    expect_near(together(axes, of_parts, values, false, of_parts[0]->name), whole.buffers()[i], of_parts[0]->name, within);
  }
  const c10::NoGradGuard guard;
  const auto evaluated = whole.forward(given.input, false).logits;
  for (const auto& output : split.forward(given.input, false)) expect_near(output.logits, evaluated, "logits in evaluation", within);
}

inline void expect_equal(const std::string& network, const SampleShape& shape, const std::string& words, const Parts& over, std::int64_t samples = 3,
                         Run run = Run::joint, double within = kExact) {
  expect_equal(make_model(parse_spec(network), shape), shape, words, over, samples, run, within);
}

inline const SampleShape kDigits{1, 28, 28, 10}, kColours{3, 32, 32, 10};
inline const SampleShape kText{.classes = 50, .objective = Objective::language, .target_length = 13};
inline const SampleShape kPairs{.classes = 50, .objective = Objective::translation, .source_length = 9, .target_length = 8};
inline const std::string kGpt = "gpt[hidden=48,layers=2,heads=12,dropout=0.2]", kTransformer = "transformer[layers=1,hidden=48,heads=12,dropout=0.2]";

}  // namespace ddl
