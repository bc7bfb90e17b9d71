#include "ddl/strategy/pass_memory.h"

#include <algorithm>
#include <map>

#include "ddl/core/at.h"
#include "ddl/nn/split/split.h"
#include "ddl/strategy/common.h"
#include "ddl/strategy/partition/crossing.h"
#include "ddl/strategy/stages.h"

namespace ddl {

/// One stage. Values are called by the layers that made their memory.
class Walk {
 public:
  /// `run_again`: by a backward of its own, which returns gradients and puts none where it belongs.
  Walk(const NetworkMemory& network, const std::vector<Stage>& segments, std::int64_t samples, const std::set<int>& in_bucket, bool loss, bool run_again = false)
      : network_(network), input_(network.input_), layers_(input_.graph.layers), segments_(segments), samples_(samples), in_bucket_(in_bucket),
        has_loss_(loss && segments.back().last == static_cast<int>(layers_.size())), plain_loss_(!keeps_logits_alone(input_)), run_again_(run_again) {
    for (const auto& segment : segments_) find_kept(segment);
    for (const auto& [value, until] : kept_until_) freed_[until] += bytes(value);
  }

  PassMemory result() {
    PassMemory memory;
    for (const auto& [value, until] : kept_until_) (mine(value) ? memory.made : memory.given) += bytes(value);
    for (const auto& segment : segments_)
      for (int i = segment.first; i < segment.last; ++i) memory.made += extra(i);
    memory.made += kept_by_loss();
    const auto forward = memory.given + go_forward();
    memory.later_peak = std::max(forward, go_back(memory.given + memory.made, false));
    memory.first_peak = go_back(memory.given + memory.made, true);
    memory.gradients = gradients_;
    // The gradients of the step before are there.
    memory.first_peak = std::max(memory.first_peak, forward + memory.gradients);
    for (const auto& segment : segments_) {
      const std::set<int> own(segment.parameters.begin(), segment.parameters.end());
      for (int i = segment.first; i < segment.last; ++i)
        for (const int parameter : parameters_used(input_.graph, network_.first_parameter_, i, i + 1)) {
          if (!own.contains(parameter)) continue;
          memory.first_making = std::max(memory.first_making, making(parameter, i, true));
          memory.later_making = std::max(memory.later_making, making(parameter, i, false));
        }
    }
    return memory;
  }

 private:
  bool mine(int layer) const {
    return std::any_of(segments_.begin(), segments_.end(), [&](const Stage& segment) { return layer >= segment.first && layer < segment.last; });
  }
  std::int64_t bytes(int layer) const { return network_.bytes(layer, samples_); }
  std::int64_t extra(int layer) const {
    if (!network_.learns_[at(layer)]) return 0;
    const auto& widths = network_.widths_;
    return (widths.extra(layer, network_.keeps_[at(layer)]) + widths.copied_bytes[at(layer)]) * samples_ + widths.weights(layer, samples_);
  }
  /// Which the loss keeps until its backward. Probabilities are wide; our own loss keeps logits as they are.
  std::int64_t logits() const { return elements_of(layers_.back().shape) * samples_ * (plain_loss_ ? input_.element_bytes : network_.widths_.bytes.back()); }
  /// By that layer.
  std::int64_t making(int parameter, int layer, bool first) const {
    // Rows go as they are to the gradient that the product made of the table, in a later segment.
    if (run_again_ && network_.hands_on_rows(layer)) return 0;
    return network_.making(parameter, layer, samples_, !run_again_ && network_.has_place(parameter, in_bucket_.contains(parameter), first));
  }
  /// Logarithms of probabilities; or the logits, where they are not there already as what a loss by itself was given.
  std::int64_t kept_by_loss() const {
    if (!has_loss_) return 0;
    return plain_loss_ || segments_.back().first < segments_.back().last ? logits() : 0;
  }

  void keep(int value, int until) {
    const auto [kept, fresh] = kept_until_.try_emplace(value, until);
    if (!fresh) kept->second = std::min(kept->second, until);
  }

  void find_kept(const Stage& segment) {
    // One without layers is the loss alone.
    if (segment.first == segment.last) keep(network_.memory_.back(), segment.first);
    for (int i = segment.first; i < segment.last; ++i) {
      const auto& layer = layers_[at(i)];
      const bool leads = i == segment.first && layer.kind == LayerKind::exchange;
      // What a segment was given is a leaf of its graph, and is kept as long as that, whoever needs it. An exchange gives it what it made.
      if (leads) keep(network_.memory_[at(i)], i);
      for (const int read : layer.inputs) {
        const int value = network_.memory_[at(read)];
        if (!leads && value < segment.first && layers_[at(value)].kind != LayerKind::input) keep(value, segment.first);
        // Of a wide value a narrow product keeps a copy of its own; the batch itself is there as long as the step.
        const bool copied = network_.widths_.copied_bytes[at(i)] > 0 && network_.widths_.bytes[at(read)] == input_.element_bytes && layers_[at(value)].kind != LayerKind::input;
        if (network_.learns_[at(i)] && network_.keeps_[at(i)].inputs && !copied) keep(value, i);
      }
      if (network_.learns_[at(i)] && network_.keeps_[at(i)].output) keep(network_.memory_[at(i)], i);
    }
  }

  /// Values that a layer reads and whose gradients it makes, each once.
  std::vector<int> made_gradients(int i) const {
    std::vector<int> values;
    for (const int read : layers_[at(i)].inputs) {
      const int value = network_.memory_[at(read)];
      if (network_.learns_[at(value)] && std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
    }
    return values;
  }

  std::int64_t go_back(std::int64_t live, bool first) {
    std::int64_t peak = live;
    std::map<int, std::int64_t> flowing;
    std::int64_t flows = 0;
    std::set<int> there;
    gradients_ = 0;
    const auto flow = [&](int value) {
      if (flowing.try_emplace(value, bytes(value)).second) flows += bytes(value);
    };
    if (has_loss_) {
      peak = std::max(peak, live + (plain_loss_ ? 2 : 1) * logits());
      live -= kept_by_loss();
    }
    // Gradients of what is read elsewhere are there before.
    for (const auto& segment : segments_)
      for (int i = segment.first; i < segment.last; ++i)
        if (network_.learns_[at(i)] && network_.last_reader_[at(i)] >= segments_.back().last) flow(i);
    for (auto segment = segments_.rbegin(); segment != segments_.rend(); ++segment)
      for (int i = segment->last; i-- > segment->first;) {
        if (network_.learns_[at(i)] && !network_.keeps_[at(i)].view) {
          // Its output's gradient is the sum's summand, and goes on as it is.
          const bool hands_on = layers_[at(i)].kind == LayerKind::add;
          if (hands_on) end_flow(flowing, flows, i);
          for (const int value : made_gradients(i)) flow(value);
          const auto parameters = parameters_used(input_.graph, network_.first_parameter_, i, i + 1);
          std::int64_t most = 0;
          // Where several layers use it, what the first made of it is there, and the others add to that.
          for (const int parameter : parameters) most = std::max(most, making(parameter, i, first && !there.contains(parameter)));
          most = std::max(most, network_.widened(i, samples_).of_inputs);
          peak = std::max(peak, live + flows + gradients_ + most);
          if (!hands_on) end_flow(flowing, flows, i);
          // Rows that a segment hands on are of a gradient that counts with the product's.
          if (first && !(run_again_ && network_.hands_on_rows(i)))
            for (const int parameter : parameters)
              if (!in_bucket_.contains(parameter) && there.insert(parameter).second) gradients_ += network_.parameter_bytes_[at(parameter)];
        }
        live -= extra(i);
        if (const auto freed = freed_.find(i); freed != freed_.end()) live -= freed->second;
        peak = std::max(peak, live + flows + gradients_);
      }
    return peak;
  }

  /// The most of what layers that do not learn make on their way: each value is there until its last reader is through, and products have what they work in. Of others backward works in as much, beside more that is kept.
  std::int64_t go_forward() const {
    std::map<int, std::int64_t> live;
    std::int64_t now = 0, peak = 0;
    for (const auto& segment : segments_)
      for (int i = segment.first; i < segment.last; ++i) {
        const auto& layer = layers_[at(i)];
        if (!network_.learns_[at(i)] && layer.kind != LayerKind::input && network_.memory_[at(i)] == i) {
          const auto own = bytes(i);
          const auto over = layer.in_place ? live.find(network_.memory_[at(layer.inputs[0])]) : live.end();
          if (over != live.end()) {
            now -= over->second;
            live.erase(over);
          }
          live.emplace(i, own);
          now += own;
        }
        peak = std::max(peak, now + (network_.learns_[at(i)] ? 0 : working(i)));
        for (auto value = live.begin(); value != live.end();) {
          if (network_.last_reader_[at(value->first)] > i) {
            ++value;
            continue;
          }
          now -= value->second;
          value = live.erase(value);
        }
      }
    return peak;
  }

  /// What a layer works in on its way forward by our own kernels.
  std::int64_t working(int i) const {
    if (const auto wide = network_.widened(i, samples_).forward; wide > 0) return wide;
    if (!input_.own_kernels || way_of(input_.graph, i, samples_) != ConvolutionWay::tiles) return 0;
    return beside_gradient(input_.graph, i, 0, samples_, input_.threads).value_or(0) * input_.element_bytes;
  }

  static void end_flow(std::map<int, std::int64_t>& flowing, std::int64_t& flows, int value) {
    const auto found = flowing.find(value);
    if (found == flowing.end()) return;
    flows -= found->second;
    flowing.erase(found);
  }

  const NetworkMemory& network_;
  const StrategyInput& input_;
  const std::vector<Layer>& layers_;
  const std::vector<Stage>& segments_;
  std::int64_t samples_;
  const std::set<int>& in_bucket_;
  bool has_loss_, plain_loss_, run_again_;
  std::map<int, int> kept_until_;            ///< values, and the layer whose backward frees them
  std::map<int, std::int64_t> freed_;        ///< by that layer
  std::int64_t gradients_ = 0;               ///< of parameters, so far
};

NetworkMemory::NetworkMemory(const StrategyInput& input)
    : input_(input), learns_(learning_layers(input.graph)), sharing_(sharing_of_layers(input.graph)), summed_(summed_by_autograd(input.graph)), widths_(input), parameter_bytes_(parameter_bytes(input)), owners_(owners_of_parameters(input.graph)), first_parameter_(first_parameters(input.graph)) {
  const auto& layers = input.graph.layers;
  const int count = static_cast<int>(layers.size());
  last_reader_.assign(layers.size(), kNone);
  if (input.own_kernels)
    keeps_ = kept_by_own_kernels(input.graph);
  else
    for (const auto& layer : layers) keeps_.push_back(layer.keeps);
  for (int i = 0; i < count; ++i) {
    memory_.push_back(keeps_[at(i)].view ? memory_[at(layers[at(i)].inputs[0])] : i);
    for (const int read : layers[at(i)].inputs) last_reader_[at(memory_[at(read)])] = i;
  }
  for (const int output : {count - 1, input.graph.auxiliary})
    if (output >= 0) last_reader_[at(memory_[at(output)])] = count;
}

bool NetworkMemory::hands_on_rows(int layer) const { return input_.own_kernels && sharing_[at(layer)] == Sharing::product; }

std::int64_t NetworkMemory::bytes(int layer, std::int64_t samples) const {
  const auto& of = input_.graph.layers[at(layer)];
  return elements_of(of.shape) * (is_per_batch(of) ? 1 : samples) * widths_.bytes[at(layer)];
}

bool NetworkMemory::has_place(int parameter, bool in_bucket, bool first) const {
  return in_bucket ? !summed_[at(owners_[at(parameter)].layer)] : !first;
}

std::int64_t NetworkMemory::making(int parameter, int by, std::int64_t samples, bool has_place) const {
  const auto& [number, of_layer] = owners_[at(parameter)];
  const auto& layer = input_.graph.layers[at(number)];
  const auto own = parameter_bytes_[at(parameter)];
  const bool is_matrix = layer.parameters[at(of_layer)].shape.size() > 1;
  const auto wide = is_matrix ? widened(by, samples).of_weights : 0;
  // Products of narrow factors are narrow, and are widened into their place.
  const auto narrow = input_.mixed && !input_.widens && multiplies(input_.graph.layers[at(by)]) ? own / 2 : 0;
  if (const auto beside = input_.own_kernels ? beside_gradient(input_.graph, number, of_layer, samples, input_.threads) : std::nullopt; beside)
    return (wide > 0 ? wide : *beside * input_.element_bytes) + narrow + (has_place ? 0 : own);
  if (layer.kind == LayerKind::lstm) {
    // All of its gradients are made at once, and weights and gradients lie in orders of oneDNN's besides (found: three times all of them, of 256 to 512 units).
    std::int64_t all = 0;
    for (const auto& each : layer.parameters) all += each.elements() * input_.element_bytes;
    return all * (has_place ? 3 : 4);
  }
  const bool reordered = input_.channels_last && layer.kind == LayerKind::conv2d && is_matrix;
  return own * (reordered ? 3 : 1) + narrow + wide;
}

WidenedFactors NetworkMemory::widened(int layer, std::int64_t samples) const {
  if (!input_.widens) return {};
  const auto& inputs = input_.graph.layers[at(layer)].inputs;
  return widened_factors(input_.graph, layer, samples, std::any_of(inputs.begin(), inputs.end(), [&](int read) { return learns_[at(memory_[at(read)])]; }));
}

PassMemory NetworkMemory::passes(const std::vector<Stage>& segments, std::int64_t samples, const std::set<int>& in_bucket, bool loss) const {
  return Walk(*this, segments, samples, in_bucket, loss).result();
}

PassMemory NetworkMemory::passes_in_segments(const std::vector<Stage>& segments, std::int64_t samples, const std::set<int>& in_bucket) const {
  const auto& layers = input_.graph.layers;
  PassMemory all;
  std::int64_t held = 0;  // given to this segment or an earlier one, each value once
  std::set<int> seen;
  std::vector<PassMemory> own;
  std::vector<std::int64_t> given;
  for (const auto& segment : segments) {
    for (int i = segment.first; i < segment.last; ++i)
      for (const int read : layers[at(i)].inputs)
        if (const int value = memory_[at(read)]; value < segment.first && layers[at(value)].kind != LayerKind::input && seen.insert(value).second) held += bytes(value, samples);
    given.push_back(held);
    own.push_back(Walk(*this, {segment}, samples, in_bucket, true, segment.last < segments.back().last).result());
  }
  all.given = 0;
  all.made = held;
  for (std::size_t k = segments.size(); k-- > 0;) {
    const auto& segment = segments[k];
    // Of a later segment's graph nothing is left. What goes past this one has its gradient already; what it made for later ones is there again, whether its own layers keep it or not.
    std::int64_t beside = given[k] - own[k].given;
    for (int value = 0; value < segment.last; ++value) {
      if (memory_[at(value)] != value || last_reader_[at(value)] < segment.last || layers[at(value)].kind == LayerKind::input) continue;
      const bool passes_by = value < segment.first;
      if (passes_by ? learns_[at(value)] : k + 1 < segments.size()) beside += bytes(value, samples);
    }
    all.later_peak = std::max(all.later_peak, beside + own[k].later_peak);
    all.first_peak = std::max(all.first_peak, beside + own[k].first_peak + all.gradients);
    all.gradients += own[k].gradients;
    all.first_making = std::max(all.first_making, own[k].first_making);
    all.later_making = std::max(all.later_making, own[k].later_making);
  }
  return all;
}

}  // namespace ddl
