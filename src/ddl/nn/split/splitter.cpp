#include "ddl/nn/split/splitter.h"

#include <algorithm>
#include <utility>

#include "ddl/core/at.h"
#include "ddl/core/error.h"

namespace ddl {
namespace {

/// Maps whose padding is not the same on both sides are padded in memory, and that is what is kept.
void count_padded(Layer& layer, const std::vector<std::int64_t>& input) {
  const auto &before = layer.attributes.padding, &after = layer.attributes.padding_after;
  const bool height = after.height >= 0 && after.height != before.height, width = after.width >= 0 && after.width != before.width;
  if (!height && !width) return;
  layer.keeps.inputs = false;
  layer.keeps.padded = input[0] * (input[1] + (height ? before.height + after.height : 0)) * (input[2] + (width ? before.width + after.width : 0));
}

}  // namespace

Splitter::Splitter(const Input& of)
    : whole_(of.whole), decider_(of.decider), options_(of.options), place_(of.place), last_(of.last), versions_(of.whole.layers.size()) {
  const auto& whole = of.whole;
  for (const auto& layer : whole.layers) {
    const auto& own = layer.parameters;
    bool learns = std::any_of(own.begin(), own.end(), [](const auto& spec) { return spec.trainable; });
    for (const auto& [owner, number] : layer.borrowed) learns = learns || whole.layers[at(owner)].parameters[at(number)].trainable;
    for (const int input : layer.inputs) learns = learns || learns_[at(input)];
    learns_.push_back(learns);
  }
  owners_.resize(whole.layers.size(), -1);
  made_.name = whole.name;
}

void Splitter::fail(int layer, const std::string& what) const {
  throw Error(Code::invalid_argument, fmt::format("[split] layer '{}' of '{}' {}", whole(layer).name, whole_.name, what));
}

bool Splitter::is_output(int layer) const { return at(layer) + 1 == whole_.layers.size() || layer == whole_.auxiliary; }

bool Splitter::has(int layer, const Layout& as) const {
  const auto& versions = versions_[at(layer)];
  return std::any_of(versions.begin(), versions.end(), [&](const Version& version) { return version.layout == as; });
}

int Splitter::read(int layer, Layout as) {
  invariant(as.kind != Layout::Kind::partial, "nobody reads summands");
  if (as.kind == Layout::Kind::shared && !learns(layer)) as = Layout::whole();
  for (const auto& version : versions_[at(layer)])
    if (version.layout == as) return version.number;
  auto source = versions_[at(layer)].front();
  const auto step = [&](const Layout& between) { source = {between, read(layer, between)}; };
  // From one dimension to another, and from the whole to ranges that overlap, there is a step between.
  if (as.is_split() && source.layout.is_split() && source.layout.dimension != as.dimension) step(Layout::whole());
  if (as.is_split() && !source.layout.is_split() && learns(layer) && overlaps(as.parts))
    step(Layout::split(as.dimension, cut_evenly(shape(layer)[at(as.dimension)], parts())));
  const int number = exchange(layer, "", source.number, source.layout, as, shape(layer), false);
  versions_[at(layer)].push_back({as, number});
  return number;
}

int Splitter::exchange(int layer, const std::string& word, int from, const Layout& before, const Layout& after, std::vector<std::int64_t> shape, bool per_batch) {
  const auto how = exchange_between(before, after, shape, place_, learns(layer), per_batch);
  Layer made{name_beside(layer, word.empty() ? std::string(word_of(how)) : word), LayerKind::exchange, {from}, shape_of(shape, after, part())};
  // Several halos of one value have numbers.
  const auto same = [&](const Layer& other) { return other.name == made.name; };
  if (const auto before_it = std::count_if(made_.layers.begin(), made_.layers.end(), same); before_it > 0) made.name += fmt::format(".{}", versions_[at(layer)].size());
  made.keeps.view = how.forward == Move::none;
  made.origin = layer;
  made.piece = piece_of(shape, after, part());
  made.exchange = how;
  made.auxiliary = per_batch;  // in evaluation nobody asks for a batch's statistics
  return append(std::move(made));
}

const ParameterSpec& Splitter::first_parameter(int layer) const { return made_.layers[at(owners_[at(layer)])].parameters[0]; }

Layer Splitter::like(int layer, const Layout& output) const {
  Layer made = whole(layer);
  made.inputs.clear();
  made.origin = layer;
  made.in_place = false;
  made.shape = shape_of(made.shape, output, part());
  made.piece = piece_of(whole(layer).shape, output, part());
  const auto all = elements_of(whole(layer).shape), here = elements_of(made.shape);
  for (auto* cost : {&made.flops, &made.multiply_adds, &made.keeps.extra}) *cost = *cost * here / all;
  for (auto& [owner, number] : made.borrowed) owner = owners_[at(owner)];
  return made;
}

std::string Splitter::name_beside(int layer, const std::string& word) const {
  return whole(layer).name + "." + word + (place_.axis == 0 ? "" : fmt::format("@{}", place_.axis + 1));
}

void Splitter::mark_partial(Layer& layer) const {
  for (auto& spec : layer.parameters)
    if (spec.trainable) spec.partial_along = {place_.axis};
}

int Splitter::append(Layer layer) {
  const int number = static_cast<int>(made_.layers.size());
  if (!layer.parameters.empty() && owners_[at(layer.origin)] < 0) owners_[at(layer.origin)] = number;
  made_.layers.push_back(std::move(layer));
  return number;
}

int Splitter::complete(int layer, int number, const Layout& to) {
  return exchange(layer, to.is_split() ? "reduce_scatter" : "all_reduce", number, Layout::partial(), to, shape(layer), false);
}

void Splitter::give(int layer, int number, const Layout& home) {
  versions_[at(layer)].push_back({home, number});
  if (is_output(layer)) number = read(layer, Layout::whole());
  if (layer == whole_.auxiliary) made_.auxiliary = number;
}

ModelGraph Splitter::finish() && {
  for (auto& layer : made_.layers)
    if (layer.shape.size() == 3 && !layer.inputs.empty()) count_padded(layer, made_.layers[at(layer.inputs[0])].shape);
  mark_auxiliary(made_);
  count_kept(made_);
  return std::move(made_);
}

Layout destination(const Splitter& s, int layer) {
  if (s.is_output(layer)) return Layout::whole();
  const auto& shape = s.shape(layer);
  const auto along = [&](int dimension) { return Layout::split(dimension, cut_evenly(shape[at(dimension)], s.parts())); };
  if (shape.size() == 3) return s.splits(Dimension::channels) && s.enough(layer, 0) ? along(0) : Layout::whole();
  const int last = static_cast<int>(shape.size()) - 1;
  if (s.splits(s.last_dimension(layer)) && s.enough(layer, last)) return along(last);
  if (last == 1 && s.splits(Dimension::sequence) && s.enough(layer, 0)) return along(0);
  return Layout::whole();
}

}  // namespace ddl
