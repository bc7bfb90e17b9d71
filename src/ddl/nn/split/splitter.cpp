#include "ddl/nn/split/splitter.h"

#include <algorithm>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/nn/split/moves.h"

namespace ddl {
namespace {

std::size_t at(int number) { return static_cast<std::size_t>(number); }

}  // namespace

Splitter::Splitter(const ModelGraph& whole, const SplitOptions& options, int part, int parts)
    : whole_(whole), options_(options), part_(part), parts_(parts), last_(last_dimensions(whole)), versions_(whole.layers.size()) {
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
    step(Layout::split(as.dimension, cut_evenly(shape(layer)[at(as.dimension)], parts_)));
  const int number = exchange(layer, "", source.number, source.layout, as, shape(layer), false);
  versions_[at(layer)].push_back({as, number});
  return number;
}

int Splitter::exchange(int layer, const std::string& word, int from, const Layout& before, const Layout& after, std::vector<std::int64_t> shape, bool per_batch) {
  const auto how = exchange_between(before, after, shape, part_, parts_, learns(layer), per_batch);
  Layer made{whole(layer).name + "." + (word.empty() ? std::string(word_of(how)) : word), LayerKind::exchange, {from}, shape_of(shape, after, part_)};
  // Several halos of one value have numbers.
  const auto same = [&](const Layer& other) { return other.name == made.name; };
  if (const auto before_it = std::count_if(made_.layers.begin(), made_.layers.end(), same); before_it > 0) made.name += fmt::format(".{}", versions_[at(layer)].size());
  made.keeps.view = how.forward == Move::none;
  made.origin = layer;
  made.piece = piece_of(shape, after, part_);
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
  made.shape = shape_of(made.shape, output, part_);
  made.piece = piece_of(whole(layer).shape, output, part_);
  const auto all = elements_of(whole(layer).shape), here = elements_of(made.shape);
  for (auto* cost : {&made.flops, &made.multiply_adds, &made.keeps.extra}) *cost = *cost * here / all;
  for (auto& [owner, number] : made.borrowed) owner = owners_[at(owner)];
  return made;
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
  mark_auxiliary(made_);
  count_kept(made_);
  return std::move(made_);
}

Layout destination(const Splitter& s, int layer) {
  if (s.is_output(layer)) return Layout::whole();
  const auto& shape = s.shape(layer);
  const auto along = [&](int dimension) { return Layout::split(dimension, cut_evenly(shape[at(dimension)], s.parts())); };
  if (shape.size() == 3) return s.splits(Dimension::channels) && s.enough(shape[0]) ? along(0) : Layout::whole();
  const int last = static_cast<int>(shape.size()) - 1;
  if (s.splits(s.last_dimension(layer)) && s.enough(shape[at(last)])) return along(last);
  if (last == 1 && s.splits(Dimension::sequence) && s.enough(shape[0])) return along(0);
  return Layout::whole();
}

}  // namespace ddl
