#pragma once

#include <string>
#include <vector>

#include "ddl/nn/split/dimension.h"
#include "ddl/nn/split/layout.h"

namespace ddl {

/// Puts together what one part computes, layer by layer of the whole network. A value has a home, the layout in which it is made (whole or
/// split); whoever reads it asks for a layout, and the exchange that converts it is put in, once for all who ask for the same.
/// Nothing that rules ask of it depends on the part but sizes and ranges: all parts get the same layers in the same order.
class Splitter {
 public:
  Splitter(const ModelGraph& whole, const SplitOptions& options, int part, int parts);

  // Of the whole network.
  const Layer& whole(int layer) const { return whole_.layers[static_cast<std::size_t>(layer)]; }
  const std::vector<std::int64_t>& shape(int layer) const { return whole(layer).shape; }
  bool splits(Dimension dimension) const { return options_.splits(dimension); }
  Dimension last_dimension(int layer) const { return last_[static_cast<std::size_t>(layer)]; }
  bool learns(int layer) const { return learns_[static_cast<std::size_t>(layer)]; }   ///< whether its value has a gradient
  bool is_output(int layer) const;                                                    ///< the logits or the auxiliary ones
  int part() const { return part_; }
  int parts() const { return parts_; }
  bool enough(std::int64_t size) const { return size >= parts_; }                     ///< so that no part is left with nothing
  const Ranges& mine(const Layout& layout) const { return layout.parts[static_cast<std::size_t>(part_)]; }

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
  const ModelGraph& whole_;
  const SplitOptions& options_;
  int part_, parts_;
  std::vector<Dimension> last_;
  std::vector<bool> learns_;
  std::vector<std::vector<Version>> versions_;  ///< of each layer of the whole; its home first
  std::vector<int> owners_;                     ///< of each layer of the whole, the one of the part that has its first parameter
  ModelGraph made_;
};

/// Where a value without a better place is to be that a layer gives as summands: split along its last dimension (of images: channels) if
/// that is, else along its places, else whole. The network's outputs are whole.
Layout destination(const Splitter& s, int layer);

}  // namespace ddl
