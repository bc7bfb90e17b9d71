#include "ddl/train/decode.h"

#include <algorithm>
#include <limits>

#include <c10/core/GradMode.h>

#include "ddl/data/dataset.h"

namespace ddl {

std::vector<std::vector<std::int64_t>> decode_greedily(const std::function<at::Tensor(const at::Tensor& said)>& next_logits, std::int64_t n,
                                                       std::int64_t longest, at::Device device) {
  const c10::NoGradGuard guard;
  std::vector<std::vector<std::int64_t>> sentences(static_cast<std::size_t>(n));
  auto said = at::full({n, 1}, SampleShape::kBegin, at::TensorOptions().dtype(at::kLong).device(device));
  std::vector<bool> ended(sentences.size(), false);
  std::size_t open = sentences.size();
  for (std::int64_t place = 0; place < longest && open > 0; ++place) {
    auto logits = next_logits(said).to(at::kFloat, false, true);
    for (const auto never : {SampleShape::kPadding, SampleShape::kBegin}) logits.select(1, never).fill_(-std::numeric_limits<float>::infinity());
    auto next = logits.argmax(1).to(at::kCPU);
    auto* const words = next.data_ptr<std::int64_t>();
    for (std::size_t i = 0; i < sentences.size(); ++i) {
      if (ended[i]) {
        words[i] = SampleShape::kPadding;
      } else if (words[i] == SampleShape::kEnd) {
        ended[i] = true;
        --open;
      } else {
        sentences[i].push_back(words[i]);
      }
    }
    said = at::cat({said, next.to(device).unsqueeze(1)}, 1);
  }
  return sentences;
}

namespace {

/// A network that says one word after the other. What does not depend on what it said (an encoder) is computed once.
class Speaker {
 public:
  Speaker(Network& network, const NetworkInput& input) : network_(network), input_(input), listens_(network.graph().layers.size()), heard_(listens_.size()) {
    const auto& layers = network.graph().layers;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const auto reads_said = [&](int from) { return !listens_[static_cast<std::size_t>(from)]; };
      listens_[i] = (layers[i].kind != LayerKind::input || layers[i].attributes.part != InputPart::target) &&
                    std::none_of(layers[i].inputs.begin(), layers[i].inputs.end(), reads_said);
      if (!listens_[i] || layers[i].auxiliary) continue;
      heard_[i] = network.forward_layer(i, heard_, input_, false);
      for (const int from : layers[i].inputs)
        if (network.last_use(static_cast<std::size_t>(from)) == i) heard_[static_cast<std::size_t>(from)].reset();
    }
  }

  /// [n, words said so far] -> [n, vocabulary] of the next.
  at::Tensor next_logits(const at::Tensor& said) {
    const auto& layers = network_.graph().layers;
    input_.target = said;
    auto values = heard_;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (listens_[i] || layers[i].auxiliary) continue;
      if (layers[i].in_place && listens_[static_cast<std::size_t>(layers[i].inputs[0])]) {
        auto& kept = values[static_cast<std::size_t>(layers[i].inputs[0])];
        kept = kept.clone();
      }
      // Of the places only the last is asked for, and the vocabulary is what costs most.
      if (i + 1 == layers.size() && layers[i].kind == LayerKind::linear) {
        auto& all = values[static_cast<std::size_t>(layers[i].inputs[0])];
        all = all.narrow(1, all.size(1) - 1, 1);
      }
      values[i] = network_.forward_layer(i, values, input_, false);
      for (const int from : layers[i].inputs)
        if (network_.last_use(static_cast<std::size_t>(from)) == i) values[static_cast<std::size_t>(from)].reset();
    }
    return values.back().select(1, values.back().size(1) - 1);
  }

 private:
  Network& network_;
  NetworkInput input_;
  std::vector<bool> listens_;      ///< whether a layer reads nothing of what was said
  std::vector<at::Tensor> heard_;  ///< of those: what the others read
};

}  // namespace

std::vector<std::vector<std::int64_t>> decode_greedily(Network& network, const NetworkInput& input, int target_length) {
  const c10::NoGradGuard guard;
  const auto& given = input.source.defined() ? input.source : input.images;
  Speaker speaker(network, input);
  return decode_greedily([&](const at::Tensor& said) { return speaker.next_logits(said); }, given.size(0), target_length - 2, given.device());
}

}  // namespace ddl
