#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ddl/core/registry.h"
#include "ddl/core/spec.h"
#include "ddl/nn/graph.h"

namespace ddl {

// What there is to choose of each strategy: values worth trying of its options, for whoever looks for the best (predict/advise/search.h).

/// Options that are told together: a strategy's own, and under `keys` an experiment's (accumulate, recompute, collective, transport). What is not told has its default.
struct Choice {
  std::map<std::string, std::string> options = {}, keys = {};
};

/// One thing to choose, whatever the rest is.
struct ChoiceAxis {
  std::string name;
  std::vector<Choice> values;
  std::vector<std::vector<std::size_t>> near = {};  ///< by value: numbers of those one step away; empty: all others are
  std::vector<std::size_t> starts = {0};            ///< where a search begins; at the first, where the other axes have several
};

/// Strategies of one name that differ in what is chosen along each axis.
struct StrategyFamily {
  Spec base;
  int workers = 1;
  std::vector<ChoiceAxis> axes = {};

  double size() const;
  /// The strategy at these values, one of each axis, and the experiment's keys there.
  Spec spec(const std::vector<std::size_t>& at) const;
  std::map<std::string, std::string> keys(const std::vector<std::size_t>& at) const;
};

struct ChoiceInput {
  const ModelGraph& graph;
  int workers = 1;
  std::int64_t batch = 1;             ///< global
  std::int64_t element_bytes = 4;
  int per_node = 8;                   ///< workers that are near each other
  bool changes_results = false;       ///< also what trains something else than the global batch's gradient: stale and local steps
  std::vector<std::string> collectives = {};  ///< algorithms of the all-reduce to choose from, beside auto
  std::vector<std::string> transports = {};   ///< to choose from, beside the one that was asked for
  std::vector<std::string> compressions = {}; ///< of gradients: what is trained with is then not their sum
  bool threads = false;               ///< workers may be threads of one process, which inproc joins
};

/// Empty where the strategy is nothing for so many workers. Combinations of values that the strategy refuses may be among them.
using StrategyChoices = std::function<std::vector<StrategyFamily>(const ChoiceInput&)>;

/// Of every strategy of builtin_strategies(), by its name. Transports are families_of()'s.
Registry<StrategyChoices> strategy_choices();

/// Those of all strategies, each of several workers over every transport.
std::vector<StrategyFamily> families_of(const ChoiceInput& input);

/// Along a mesh of axes data, pipeline, tensor and sharded: every way to write `workers` as their product, those near each other that differ by one prime moved from one axis to another.
/// `uses`: which axes may be, and must be where `needs` says so, more than 1; two of them are, at least. Starts at few of them: with tensor as wide as a node.
struct MeshWish {
  bool pipeline = false, tensor = false, sharded = false, data = true;
};
ChoiceAxis mesh_axis(const ChoiceInput& input, const MeshWish& uses, const MeshWish& needs, int layers);

}  // namespace ddl
