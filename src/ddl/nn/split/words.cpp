// Tables of words, places and attention.
#include <utility>

#include "ddl/core/error.h"
#include "ddl/nn/split/rules.h"

namespace ddl {
namespace {

Layout along(const Splitter& s, int layer, int dimension) {
  return Layout::split(dimension, cut_evenly(s.shape(layer)[static_cast<std::size_t>(dimension)], s.parts()));
}

bool by_places(const Splitter& s, int layer) { return s.splits(Dimension::sequence) && s.enough(layer, 0); }

/// Each part knows some words and gives zeros for the others.
void by_vocabulary(Splitter& s, int layer, std::int64_t vocabulary) {
  const auto words = cut_evenly(vocabulary, s.parts());
  auto made = s.like(layer, Layout::whole());
  made.inputs = {s.read(s.whole(layer).inputs[0], Layout::whole())};
  // An earlier axis may have left some of the words.
  const auto [begin, end] = words[static_cast<std::size_t>(s.part())][0];
  const auto first = s.whole(layer).attributes.words.begin;
  made.attributes.words = {first + begin, first + end};
  for (auto& spec : made.parameters) cut(spec, 0, words[static_cast<std::size_t>(s.part())]);
  complete_with_bias(s, layer, s.append(std::move(made)), {}, destination(s, layer));
}

void by_features(Splitter& s, int layer) {
  const auto home = along(s, layer, 1);
  auto made = s.like(layer, home);
  made.inputs = {s.read(s.whole(layer).inputs[0], Layout::whole())};
  made.keeps.extra = s.whole(layer).keeps.extra;  // the words
  for (auto& spec : made.parameters) cut(spec, 1, s.mine(home));
  s.give(layer, std::move(made), home);
}

/// Every part has the whole table, and looks up the words of its places.
void by_sequence(Splitter& s, int layer) {
  const auto home = along(s, layer, 0);
  auto made = s.like(layer, home);
  made.inputs = {s.read(s.whole(layer).inputs[0], home)};
  s.mark_partial(made);
  s.give(layer, std::move(made), home);
}

}  // namespace

void split_embedding(Splitter& s, int layer) {
  const auto& whole = s.whole(layer);
  if (!whole.borrowed.empty()) {
    // As its table lies (products.cpp: tied()).
    const auto& table = s.first_parameter(whole.borrowed[0].layer);
    if (table.piece && table.piece->along(0)) return by_vocabulary(s, layer, table.piece->whole[0]);
    if (table.piece) return by_features(s, layer);
    return !table.partial_along.empty() ? by_sequence(s, layer) : run_whole(s, layer);
  }
  const auto vocabulary = whole.parameters[0].shape[0];
  if (s.splits(Dimension::vocabulary) && s.enough(vocabulary)) return by_vocabulary(s, layer, vocabulary);
  if (s.splits(Dimension::features) && s.enough(layer, 1)) return by_features(s, layer);
  if (by_places(s, layer)) return by_sequence(s, layer);
  run_whole(s, layer);
}

void split_positions(Splitter& s, int layer) {
  const auto home = s.home(s.whole(layer).inputs[0]);
  if (!home.is_split()) return run_whole(s, layer);
  auto made = s.like(layer, home);
  made.inputs = {s.read(s.whole(layer).inputs[0], home)};
  if (home.is_split(1)) {
    for (auto* specs : {&made.parameters, &made.constants})
      for (auto& spec : *specs) cut(spec, 1, s.mine(home));
  } else {
    s.mark_partial(made);  // of the table's other places the gradient is 0 here
  }
  s.give(layer, std::move(made), home);
}

namespace {

/// Each part has some heads, with the rows of the projections that make their queries, keys and values, and the columns of the one that reads them
/// (Shoeybi et al. 2019, section 3).
void by_heads(Splitter& s, int layer) {
  const auto& whole = s.whole(layer);
  // Of an earlier axis there may be some of the heads left, and then the bias of what they make is not here.
  const auto heads = whole.attributes.heads, features = whole.shape[1], left = whole.parameters[2].shape[1], each = left / heads;
  if (heads % s.parts() != 0) {
    std::string would;
    for (std::int64_t parts = 1; parts <= heads; ++parts)
      if (heads % parts == 0) would += (would.empty() ? "" : ", ") + std::to_string(parts);
    s.fail(layer, fmt::format("divides its heads among parts; got {} heads and {} parts, expected {} parts", heads, s.parts(), would));
  }
  const auto mine = cut_evenly(heads, s.parts())[static_cast<std::size_t>(s.part())][0];
  Ranges of_output{{mine.begin * each, mine.end * each}}, of_projections;
  for (std::int64_t i = 0; i < 3; ++i) of_projections.push_back({i * left + mine.begin * each, i * left + mine.end * each});

  std::vector<int> inputs{s.read(whole.inputs[0], Layout::shared()), s.read(whole.inputs[1], Layout::shared())};
  if (whole.inputs.size() > 2) inputs.push_back(s.read(whole.inputs[2], Layout::whole()));
  auto made = s.like(layer, Layout::whole());
  made.inputs = std::move(inputs);
  made.attributes.heads = mine.size();
  std::vector<ParameterSpec> bias;
  if (made.parameters.size() > 3) {
    bias.push_back(made.parameters.back());
    made.parameters.pop_back();
  }
  cut(made.parameters[0], 0, of_projections);
  cut(made.parameters[1], 0, of_projections);
  cut(made.parameters[2], 1, of_output);
  // As GraphBuilder::attend() counts.
  const auto length = whole.shape[0], seen = s.shape(whole.inputs[1])[0], own = mine.size() * each;
  made.multiply_adds = 2 * (length + seen) * features * own + 2 * length * seen * own;
  made.flops = 2 * made.multiply_adds + (length + 2 * seen) * own + 13 * mine.size() * length * seen;
  made.keeps.extra = 2 * length * own + 2 * seen * own + mine.size() * length;
  complete_with_bias(s, layer, s.append(std::move(made)), bias, destination(s, layer));
}

/// Each part asks from its places; keys and values are made of all, everywhere.
void by_queries(Splitter& s, int layer) {
  const auto& whole = s.whole(layer);
  const auto home = along(s, layer, 0);
  std::vector<int> inputs{s.read(whole.inputs[0], home), s.read(whole.inputs[1], Layout::shared())};
  if (whole.inputs.size() > 2) inputs.push_back(s.read(whole.inputs[2], Layout::whole()));
  auto made = s.like(layer, home);
  made.inputs = std::move(inputs);
  s.mark_partial(made);
  // An earlier axis may have left some of the heads, and then the bias of what they make is not here.
  const auto features = whole.shape[1], own = whole.parameters[2].shape[1], heads = whole.attributes.heads;
  const auto length = made.shape[0], seen = s.shape(whole.inputs[1])[0];
  made.multiply_adds = 2 * (length + seen) * features * own + 2 * length * seen * own;
  made.flops = 2 * made.multiply_adds + (length + 2 * seen) * own + (made.parameters.size() > 3 ? length * features : 0) + 13 * heads * length * seen;
  made.keeps.extra = 2 * length * own + 2 * seen * own + heads * length;
  s.give(layer, std::move(made), home);
}

}  // namespace

void split_attention(Splitter& s, int layer) {
  if (s.splits(Dimension::heads)) return by_heads(s, layer);
  if (by_places(s, layer)) return by_queries(s, layer);
  run_whole(s, layer);
}

}  // namespace ddl
