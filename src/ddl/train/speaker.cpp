#include "ddl/train/speaker.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "ddl/nn/past.h"

namespace ddl {
namespace {

/// What both have in common: values of the layers that do not read the target, and running those that do.
class NetworkSpeaker : public Speaker {
 public:
  NetworkSpeaker(Network& network, const NetworkInput& input)
      : network_(network), input_(input), says_(reads_target(network.graph())), heard_(says_.size()) {
    const auto& layers = network.graph().layers;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (says_[i] || layers[i].auxiliary) continue;
      heard_[i] = network.forward_layer(i, heard_, input_, false);
      drop_after(i, heard_);
    }
  }

  void keep(const at::Tensor& sentences) override {
    for (auto& value : heard_)
      if (value.defined()) value = value.index_select(0, sentences);
  }

 protected:
  /// [n, words] that are new to the layers -> [n, vocabulary] of the word after the last.
  at::Tensor say(const at::Tensor& words, Past* past) {
    const auto& layers = network_.graph().layers;
    input_.target = words;
    auto values = heard_;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (!says_[i] || layers[i].auxiliary) continue;
      if (layers[i].in_place && !says_[static_cast<std::size_t>(layers[i].inputs[0])]) {
        auto& kept = values[static_cast<std::size_t>(layers[i].inputs[0])];
        kept = kept.clone();
      }
      // Of the places only the last is asked for, and the vocabulary is what costs most.
      if (i + 1 == layers.size() && layers[i].kind == LayerKind::linear) {
        auto& all = values[static_cast<std::size_t>(layers[i].inputs[0])];
        all = all.narrow(1, all.size(1) - 1, 1);
      }
      values[i] = network_.forward_layer(i, values, input_, false, past);
      drop_after(i, values);
    }
    return values.back().select(1, values.back().size(1) - 1);
  }

  Network& network_;

 private:
  void drop_after(std::size_t layer, std::vector<at::Tensor>& values) const {
    for (const int from : network_.graph().layers[layer].inputs)
      if (network_.last_use(static_cast<std::size_t>(from)) == layer) values[static_cast<std::size_t>(from)].reset();
  }

  NetworkInput input_;
  std::vector<bool> says_;         ///< whether a layer reads what was said
  std::vector<at::Tensor> heard_;  ///< of those that do not: what the others read
};

class WholeSpeaker final : public NetworkSpeaker {
 public:
  using NetworkSpeaker::NetworkSpeaker;
  at::Tensor next_logits(const at::Tensor& last) override {
    said_ = said_.defined() ? at::cat({said_, last.unsqueeze(1)}, 1) : last.unsqueeze(1);
    return say(said_, nullptr);
  }
  void keep(const at::Tensor& sentences) override {
    NetworkSpeaker::keep(sentences);
    said_ = said_.index_select(0, sentences);
  }

 private:
  at::Tensor said_;
};

class WordSpeaker final : public NetworkSpeaker {
 public:
  WordSpeaker(Network& network, const NetworkInput& input, std::int64_t longest)
      : NetworkSpeaker(network, input), past_(network.graph().layers.size(), longest) {}
  at::Tensor next_logits(const at::Tensor& last) override {
    auto logits = say(last.unsqueeze(1), &past_);
    past_.go_on();
    return logits;
  }
  void keep(const at::Tensor& sentences) override {
    NetworkSpeaker::keep(sentences);
    past_.keep(sentences);
  }

 private:
  Past past_;
};

}  // namespace

std::unique_ptr<Speaker> make_word_speaker(Network& network, const NetworkInput& input, std::int64_t longest) {
  return std::make_unique<WordSpeaker>(network, input, longest);
}

std::unique_ptr<Speaker> make_whole_speaker(Network& network, const NetworkInput& input) { return std::make_unique<WholeSpeaker>(network, input); }

std::unique_ptr<Speaker> make_speaker(Network& network, const NetworkInput& input, std::int64_t longest) {
  return goes_word_by_word(network.graph()) ? make_word_speaker(network, input, longest) : make_whole_speaker(network, input);
}

}  // namespace ddl
