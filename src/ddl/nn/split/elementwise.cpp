#include <algorithm>
#include <utility>

#include "ddl/core/at.h"
#include "ddl/nn/split/rules.h"

namespace ddl {
namespace {

/// All inputs in one layout, which is the output's too.
void in_one_layout(Splitter& s, int layer, const Layout& home) {
  std::vector<int> inputs;
  for (const int input : s.whole(layer).inputs) inputs.push_back(s.read(input, home));
  auto made = s.like(layer, home);
  made.inputs = std::move(inputs);
  s.give(layer, std::move(made), home);
}

}  // namespace

void split_pointwise(Splitter& s, int layer) { in_one_layout(s, layer, Layout(s.home(s.whole(layer).inputs[0]))); }

/// Where one is split so is the other: to slice what is whole moves nothing forward.
void split_add(Splitter& s, int layer) {
  const auto& inputs = s.whole(layer).inputs;
  const auto split = std::find_if(inputs.begin(), inputs.end(), [&](int input) { return s.home(input).is_split(); });
  in_one_layout(s, layer, split == inputs.end() ? Layout::whole() : Layout(s.home(*split)));
}

/// Of channels each part has those that it had of every input: they are no neighbours any more.
void split_concatenate(Splitter& s, int layer) {
  const auto& inputs = s.whole(layer).inputs;
  const auto& first = s.home(inputs[0]);
  const auto all = [&](auto condition) { return std::all_of(inputs.begin(), inputs.end(), condition); };
  if (first.is_split() && first.dimension > 0 && all([&](int input) { return s.home(input) == first; })) return in_one_layout(s, layer, Layout(first));
  const auto by_channels = [&](int input) { return s.home(input).is_split(0) || (!s.home(input).is_split() && s.enough(input, 0)); };
  const bool some = std::any_of(inputs.begin(), inputs.end(), [&](int input) { return s.home(input).is_split(0); });
  if (!some || !all(by_channels)) return run_whole(s, layer);

  std::vector<Ranges> parts(at(s.parts()));
  std::vector<int> read;
  std::int64_t offset = 0;
  for (const int input : inputs) {
    const auto own = s.home(input).is_split(0) ? Layout(s.home(input)) : Layout::split(0, cut_evenly(s.shape(input)[0], s.parts()));
    read.push_back(s.read(input, own));
    for (std::size_t part = 0; part < parts.size(); ++part)
      for (const auto& [begin, end] : own.parts[part]) parts[part].push_back({offset + begin, offset + end});
    offset += s.shape(input)[0];
  }
  const auto home = Layout::split(0, std::move(parts));
  auto made = s.like(layer, home);
  made.inputs = std::move(read);
  s.give(layer, std::move(made), home);
}

/// Rows of maps become as many ranges of features as there are channels.
void split_flatten(Splitter& s, int layer) {
  const int input = s.whole(layer).inputs[0];
  const auto home = s.home(input);
  if (!home.is_split()) return run_whole(s, layer);
  const auto& shape = s.shape(input);
  std::int64_t outer = 1, inner = 1;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) (d < home.dimension ? outer : inner) *= d == home.dimension ? 1 : shape[at(d)];
  std::vector<Ranges> parts;
  for (const auto& ranges : home.parts) {
    parts.emplace_back();
    for (std::int64_t o = 0; o < outer; ++o)
      for (const auto& [begin, end] : ranges) {
        const auto first = (o * shape[at(home.dimension)] + begin) * inner, last = (o * shape[at(home.dimension)] + end) * inner;
        if (!parts.back().empty() && parts.back().back().end == first)
          parts.back().back().end = last;
        else
          parts.back().push_back({first, last});
      }
  }
  const auto flat = Layout::split(0, std::move(parts));
  auto made = s.like(layer, flat);
  made.inputs = {s.read(input, home)};
  s.give(layer, std::move(made), flat);
}

}  // namespace ddl
