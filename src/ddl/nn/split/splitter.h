#pragma once

#include <string>
#include <vector>

#include "ddl/nn/split/dimension.h"
#include "ddl/nn/split/layout.h"
#include "ddl/nn/split/moves.h"

namespace ddl {

/// Puts together what one part computes, layer by layer of the whole network. A value has a home, the layout in which it is made (whole or
/// split); whoever reads it asks for a layout, and the exchange that converts it is put in, once for all who ask for the same.
/// Nothing that rules ask of it depends on the part but sizes and ranges: all parts get the same layers in the same order.
///
/// Of a mesh of several axes it splits along one, what the axes before have left: a part's network, as if that was whole. What rules decide, they decide by the
/// shapes of `decider`, which is another place's on those axes, the same for all.
class Splitter {
 public:
  struct Input {
    const ModelGraph& whole;             ///< or what earlier axes left of it
    const ModelGraph& decider;           ///< the same layers, of a place that has the least of everything
    const std::vector<Dimension>& last;  ///< last_dimensions() of the layers
    const SplitOptions& options;
    PartPlace place;
  };
  explicit Splitter(const Input& of);

  // Of the whole network.
  const Layer& whole(int layer) const { return whole_.layers[static_cast<std::size_t>(layer)]; }
  const std::vector<std::int64_t>& shape(int layer) const { return whole(layer).shape; }
  bool splits(Dimension dimension) const { return options_.splits(dimension); }
  Dimension last_dimension(int layer) const { return last_[static_cast<std::size_t>(layer)]; }
  bool learns(int layer) const { return learns_[static_cast<std::size_t>(layer)]; }   ///< whether its value has a gradient
  bool is_output(int layer) const;                                                    ///< the logits or the auxiliary ones
  int part() const { return place_.part; }
  int parts() const { return place_.parts; }
  bool enough(std::int64_t size) const { return size >= place_.parts; }               ///< so that no part is left with nothing
  /// By which to decide: not this place's own, but the same for all.
  const std::vector<std::int64_t>& deciding_shape(int layer) const { return decider_.layers[static_cast<std::size_t>(layer)].shape; }
  bool enough(int layer, int dimension) const { return enough(deciding_shape(layer)[static_cast<std::size_t>(dimension)]); }
  const Ranges& mine(const Layout& layout) const { return layout.parts[static_cast<std::size_t>(place_.part)]; }

  // Reading.
  const Layout& home(int layer) const { return versions_[static_cast<std::size_t>(layer)].front().layout; }
  /// The layer of the part that has the value of `layer` in this layout.
  int read(int layer, Layout as);
  bool has(int layer, const Layout& as) const;
  /// The first parameter of a layer as it is on the part: what tied layers follow.
  const ParameterSpec& first_parameter(int layer) const;

  // Writing.
  /// `layer` as it would be with an output in this layout: shape and costs in proportion, parameters whole, no inputs.
  Layer like(int layer, const Layout& output) const;
  int append(Layer layer);
  /// What is put in beside a layer is called for it; of a second axis, and a third, by their numbers too.
  std::string name_beside(int layer, const std::string& word) const;
  /// Every part sees the gradients of these parameters in part.
  void mark_partial(Layer& layer) const;
  /// A value that is partial, of layer `number` of the part: exchanged, so that it is whole or split.
  int complete(int layer, int number, const Layout& to);
  /// Layer `number` of the part has the value of `layer`.
  void give(int layer, int number, const Layout& home);
  /// `description` is the layer that does.
  void give(int layer, Layer description, const Layout& home) { give(layer, append(std::move(description)), home); }
  /// An exchange between layouts that no conversion of values is: of statistics.
  int exchange(int layer, const std::string& word, int from, const Layout& before, const Layout& after, std::vector<std::int64_t> shape, bool per_batch);
  /// Errors: always invalid_argument.
  [[noreturn]] void fail(int layer, const std::string& what) const;

  ModelGraph finish() &&;

 private:
  struct Version {
    Layout layout;
    int number;
  };
  const ModelGraph &whole_, &decider_;
  const SplitOptions& options_;
  PartPlace place_;
  const std::vector<Dimension>& last_;
  std::vector<bool> learns_;
  std::vector<std::vector<Version>> versions_;  ///< of each layer of the whole; its home first
  std::vector<int> owners_;                     ///< of each layer of the whole, the one of the part that has its first parameter
  ModelGraph made_;
};

/// Where a value without a better place is to be that a layer gives as summands: split along its last dimension (of images: channels) if
/// that is, else along its places, else whole. The network's outputs are whole.
Layout destination(const Splitter& s, int layer);

}  // namespace ddl
