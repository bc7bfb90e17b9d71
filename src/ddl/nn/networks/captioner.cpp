
#include "ddl/core/error.h"
#include "ddl/nn/builtin.h"
#include "ddl/nn/networks/common.h"
#include "ddl/nn/networks/resnet.h"

namespace ddl {

/// Image captioning: a ResNet encodes the image into one vector, which an LSTM is given before the words.
/// Options: encoder=frozen|trained; depth of the ResNet (152); grid, cells each way over which its maps are averaged (1: the mean of all,
///          from which places can hardly be told); hidden, size of words, image vector and LSTM (512); dropout
///          around the LSTM (0.3).
///          A frozen encoder neither learns nor updates its batch statistics. Weights learnt elsewhere cannot be given
///          yet, so it then stays as it starts: what it costs is real, what it sees is not. Each of its blocks starts as the
///          identity (Goyal et al. 2017), since batch norm with statistics that never were taken keeps nothing in bounds.
/// Shape:   images of at least 8x8 and captions as far as they are known -> the vocabulary, at each place.
/// Source:  Vinyals et al., Show and Tell, CVPR 2015, with ResNet-152 (He et al. 2016) as encoder; weights of the decoder start
///          as U(-0.08, 0.08), biases at 0 but for the forget gates' 1, as its authors' code does.
ModelGraph captioner(const Spec& options, const SampleShape& shape) {
  require_options(options, {"encoder", "depth", "grid", "hidden", "dropout"});
  require_objective("captioner", shape, Objective::captioning);
  const bool frozen = word_option(options, "encoder", {"frozen", "trained"}) == "frozen";
  const auto depth = word_option(options, "depth", {"152", "101", "50", "34", "18"});
  const auto grid = static_cast<int>(whole_option(options, "grid", 1, 1, 7));
  const auto hidden = whole_option(options, "hidden", 512, 1, 1 << 20);
  const double rate = part_option(options, "dropout", 0.3);
  if (shape.height < 8 || shape.width < 8)
    throw Error(Code::invalid_argument, fmt::format("[captioner] takes images of at least 8x8; got {}x{}", shape.height, shape.width));
  const auto start = uniform_weights(0.08F);

  GraphBuilder net("captioner", {shape.channels, shape.height, shape.width});
  const int target = net.input("target", InputPart::target, {shape.target_length - 1});
  net.freeze(frozen);
  int image = resnet_trunk(net, GraphBuilder::kInput, {std::stoi(depth), small_images(shape), "encoder.", frozen, grid});
  net.freeze(false);
  image = net.dropout("image.dropout", net.linear("image", image, hidden, {.weight = start, .zero_bias = true}), rate);
  const int words = net.dropout("embedding.dropout", net.embedding("embedding", target, shape.classes, hidden, {start}), rate);
  const int said = net.dropout("lstm.dropout", net.lstm("lstm", words, hidden, start, image), rate);
  net.linear("output", said, shape.classes, {.weight = start, .zero_bias = true});
  return std::move(net).finish();
}

}  // namespace ddl
