#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddl/nn/graph.h"
#include "ddl/nn/split/dimension.h"

namespace ddl {

/// One axis of the mesh that parts stand in: the dimensions that are split along it, and over how many places.
struct SplitAxis {
  SplitOptions options;
  int parts = 1;
};

/// How many parts a mesh has, which are numbered with the last axis fastest, and the place of one of them on an axis.
int parts_of(const std::vector<SplitAxis>& axes);
int place_on(const std::vector<SplitAxis>& axes, int axis, int part);
/// The first of the parts that have the same of a tensor as `part` has.
int first_with(const std::vector<SplitAxis>& axes, const ParameterSpec& spec, int part);

/// What worker `part` computes of a network that is split along named dimensions over a mesh of axes: a network of its own, with the exchanges in it.
///
/// A mesh splits a network axis by axis: what an axis leaves to a part is a network, with exchanges in it, which the next axis splits. An exchange is between the
/// parts that agree on all axes but PartExchange::axis.
///
/// What holds of the result, for whoever runs it:
///  - All parts have the same layers in the same order, with the same exchanges (whose ranges are the same for those who meet in them); shapes, ranges and sizes of parameters differ where a size does
///    not divide. So layer i of one part meets layer i of the others.
///  - A layer of kind `exchange` has one input, no parameters and Layer::exchange. Where communicates() says neither, Network runs it alone. Else
///    the forward move makes its outputs out of the inputs of all parts, and the backward move the gradients of its inputs out of those of its
///    outputs: that is not the derivative of the forward move (on every part the same loss is computed from whole logits, and its gradient begins
///    with 1 on each).
///  - Cut at exchanges that communicate (segments()), the graph runs piece by piece. Values that cross a cut, residual connections among them, are
///    leaves of the later piece's autograd; their gradients are added to what the exchanges give back. Backward takes pieces and exchanges in
///    the opposite order, on all parts.
///  - Nothing writes in place over what was made before a cut, over what an exchange made or over what one reads later.
///  - The gradient of an exchange's output that some part does not have is zero there. It takes part nonetheless.
///  - The last layer is the logits, whole; so is the auxiliary output.
///  - Layer::auxiliary means, as ever: not run in evaluation. That is so of batch_moments and their exchange, too.
///  - parameter_specs() and frozen_specs() are numbered as the whole network's. ParameterSpec says of each along which axes it lies in pieces (its gradient is
///    that piece's), and along which places have a summand of the gradient; along the others they have the same, and the same gradient. Statistics are the same
///    along axes that do not cut them. Initial values are the whole network's.
///  - Each part's Network picks its memory_format() by its own channels: what is exchanged is to be made dense in one order by who sends it.
///  - Samples have all the places that the graph's shapes say where `sequence` is split: ranges are of those.
///  - Dropout draws by Layer::origin and Layer::piece what the whole network draws there.
/// Errors: invalid_argument for parts that do not exist, for heads and groups that do not divide (saying what would), and where the network has
/// none of an axis's dimensions.
ModelGraph split_graph(const ModelGraph& whole, const std::vector<SplitAxis>& axes, int part);

/// Whether a move needs other parts.
constexpr bool communicates(Move move) { return move != Move::none && move != Move::slice; }
/// Whether an exchange needs other parts, forward or backward.
bool communicates(const Layer& layer);

/// Whether a layer's value is one for the whole batch: its first dimension is 1.
bool is_per_batch(const Layer& layer);

/// Layers [first, last) between exchanges that communicate; those that follow a segment are layers [last, next segment's first). Segments may be empty.
struct Segment {
  int first = 0, last = 0;
};
std::vector<Segment> segments(const ModelGraph& part);

/// What a step moves, per sample and once per batch, received by the part.
struct SplitTraffic {
  std::int64_t forward_elements = 0, backward_elements = 0;              ///< a sample
  std::int64_t forward_batch_elements = 0, backward_batch_elements = 0;  ///< a batch
  int forward_exchanges = 0, backward_exchanges = 0;
  std::int64_t gradient_elements = 0;                                    ///< of parameters whose gradients are to be summed
};
SplitTraffic traffic_of(const ModelGraph& part);

/// Layers of the whole network that every part computes in full, with parameters or a matrix product: what splitting does not speed up.
std::vector<std::string> whole_layers(const ModelGraph& whole, const ModelGraph& part);

/// One line: parameters and multiply-adds of the part of those of the whole, what it moves, and what is not split.
std::string summary_of(const ModelGraph& whole, const ModelGraph& part);

}  // namespace ddl
