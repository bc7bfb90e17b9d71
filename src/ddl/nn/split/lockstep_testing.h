#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/autograd/custom_function.h>

#include "ddl/nn/network.h"
#include "ddl/nn/split/split.h"

// All parts of a split network in one process, layer by layer, their exchanges done by ATen's sum, cat and narrow, forward and backward as the
// graph says: what a trainer with real workers is held against.
namespace ddl {

using PartValues = std::vector<at::Tensor>;  ///< one of each part
using PartRanges = std::vector<std::vector<IndexRange>>;

inline at::Tensor piece_at(const at::Tensor& whole, std::int64_t dimension, const std::vector<IndexRange>& ranges) {
  PartValues some;
  for (const auto& [begin, end] : ranges) some.push_back(whole.narrow(dimension, begin, end - begin));
  return at::cat(some, dimension).clone();
}

/// Adds pieces where they belong; where they overlap, they are added.
inline at::Tensor put_together(const PartValues& pieces, std::int64_t dimension, const PartRanges& ranges, std::int64_t size) {
  auto shape = pieces[0].sizes().vec();
  shape[static_cast<std::size_t>(dimension)] = size;
  auto whole = at::zeros(shape, pieces[0].options());
  for (std::size_t part = 0; part < pieces.size(); ++part) {
    std::int64_t at = 0;
    for (const auto& [begin, end] : ranges[part]) {
      whole.narrow(dimension, begin, end - begin).add_(pieces[part].narrow(dimension, at, end - begin));
      at += end - begin;
    }
  }
  return whole;
}

inline PartValues moved(Move move, const PartExchange& how, const PartRanges& before, const PartRanges& after, const PartValues& from) {
  // Of what a batch has once, the first dimension is 1: samples' dimensions follow it either way.
  const auto dimension = how.dimension + 1;
  const auto size = how.whole[static_cast<std::size_t>(how.dimension)];
  PartValues to;
  const auto sum = [&] {
    auto all = from[0].clone();
    for (std::size_t part = 1; part < from.size(); ++part) all = all + from[part];
    return all;
  };
  at::Tensor whole;
  if (move == Move::all_reduce || move == Move::reduce_scatter) whole = sum();
  if (move == Move::all_gather || move == Move::halo || move == Move::halo_add) whole = put_together(from, dimension, before, size);
  for (std::size_t part = 0; part < from.size(); ++part) {
    switch (move) {
      case Move::none: to.push_back(from[part].clone()); break;
      case Move::all_reduce:
      case Move::all_gather: to.push_back(whole.clone()); break;
      case Move::slice: to.push_back(piece_at(from[part], dimension, after[part])); break;
      case Move::reduce_scatter:
      case Move::halo:
      case Move::halo_add: to.push_back(piece_at(whole, dimension, after[part])); break;
    }
  }
  return to;
}

struct Joint : torch::autograd::Function<Joint> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, at::TensorList from, const PartExchange* how) {
    context->saved_data["how"] = reinterpret_cast<std::int64_t>(how);
    return moved(how->forward, *how, how->before, how->after, from.vec());
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, const torch::autograd::variable_list& gradients) {
    const auto* how = reinterpret_cast<const PartExchange*>(context->saved_data["how"].toInt());
    auto back = moved(how->backward, *how, how->after, how->before, gradients);
    back.emplace_back();
    return back;
  }
};

class Lockstep {
 public:
  Lockstep(const ModelGraph& whole, const std::vector<SplitAxis>& split, const NetworkOptions& options) : axes_(split) {
    for (int part = 0; part < parts_of(axes_); ++part) networks_.push_back(std::make_unique<Network>(split_graph(whole, axes_, part), options));
  }
  int parts() const { return static_cast<int>(networks_.size()); }
  Network& part(int number) { return *networks_[static_cast<std::size_t>(number)]; }

  /// Outputs of each part.
  std::vector<NetworkOutput> forward(const NetworkInput& input, bool training) {
    const auto& layers = part(0).graph().layers;
    std::vector<std::vector<at::Tensor>> values(networks_.size(), std::vector<at::Tensor>(layers.size()));
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (layers[i].auxiliary && !training) continue;
      if (communicates(layers[i])) {
        for (const auto& group : groups(i)) {
          PartValues from;
          for (const auto p : group) from.push_back(values[p][source(i)]);
          // What the parts of a group were told apart differs in their own numbers and sizes received alone.
          const auto to = Joint::apply(at::TensorList(from), &exchange_at(group[0], i));
          for (std::size_t k = 0; k < group.size(); ++k) values[group[k]][i] = to[k];
        }
      } else {
        for (std::size_t p = 0; p < values.size(); ++p) values[p][i] = networks_[p]->forward_layer(i, values[p], input, training);
      }
    }
    std::vector<NetworkOutput> outputs;
    for (std::size_t p = 0; p < values.size(); ++p) {
      const auto auxiliary = networks_[p]->graph().auxiliary;
      outputs.push_back({values[p].back(), auxiliary < 0 ? at::Tensor() : values[p][static_cast<std::size_t>(auxiliary)]});
    }
    return outputs;
  }

  /// A step as an executor takes it: each segment with a graph of autograd of its own, values that cross cuts as leaves, exchanges between them on
  /// plain tensors. Gradients are left on the parameters. Returns the outputs of each part.
  std::vector<NetworkOutput> step(const NetworkInput& input, const std::function<at::Tensor(const NetworkOutput&)>& loss) {
    const auto cuts = segments(part(0).graph());
    const auto layers = part(0).graph().layers.size();
    std::vector<Flight> flights(networks_.size());
    for (auto& flight : flights) flight.values.resize(layers), flight.gradients.resize(layers), flight.made.resize(cuts.size()), flight.given.resize(cuts.size());
    for (std::size_t s = 0; s < cuts.size(); ++s) {
      for (std::size_t p = 0; p < flights.size(); ++p) run(*networks_[p], cuts[s], s, flights[p], input);
      for (auto i = static_cast<std::size_t>(cuts[s].last); i < end_of(cuts, s); ++i) {
        for (const auto& group : groups(i)) {
          const auto& how = exchange_at(group[0], i);
          PartValues from;
          for (const auto p : group) from.push_back(flights[p].values[source(i)].detach());
          auto to = moved(how.forward, how, how.before, how.after, from);
          for (std::size_t k = 0; k < group.size(); ++k) flights[group[k]].values[i] = to[k].requires_grad_(flights[group[k]].values[source(i)].requires_grad());
        }
      }
    }
    std::vector<NetworkOutput> outputs;
    const auto auxiliary = part(0).graph().auxiliary;
    for (auto& flight : flights) {
      outputs.push_back({flight.values.back().detach().requires_grad_(), auxiliary < 0 ? at::Tensor() : flight.values[static_cast<std::size_t>(auxiliary)].detach().requires_grad_()});
      loss(outputs.back()).backward();
      flight.gradients.back() = outputs.back().logits.grad();
      if (auxiliary >= 0) flight.gradients[static_cast<std::size_t>(auxiliary)] = outputs.back().auxiliary.grad();
    }
    for (std::size_t s = cuts.size(); s-- > 0;) {
      for (auto i = end_of(cuts, s); i-- > static_cast<std::size_t>(cuts[s].last);) {
        if (!flights[0].values[i].requires_grad()) continue;
        for (const auto& group : groups(i)) {
          PartValues from;
          for (const auto p : group) from.push_back(flights[p].gradients[i].defined() ? flights[p].gradients[i] : at::zeros_like(flights[p].values[i]));
          const auto& how = exchange_at(group[0], i);
          const auto back = moved(how.backward, how, how.after, how.before, from);
          for (std::size_t k = 0; k < group.size(); ++k) flights[group[k]].add(source(i), back[k]);
        }
      }
      for (auto& flight : flights) flight.go_back(s);
    }
    return outputs;
  }

 private:
  struct Flight {
    std::vector<at::Tensor> values;                      ///< of each layer, without history
    std::vector<at::Tensor> gradients;                   ///< of each layer's value, as far as they have come
    std::vector<std::map<std::size_t, at::Tensor>> made;  ///< of each segment, with history
    std::vector<std::map<std::size_t, at::Tensor>> given; ///< of each segment: leaves

    void add(std::size_t layer, const at::Tensor& gradient) { gradients[layer] = gradients[layer].defined() ? gradients[layer] + gradient : gradient; }
    void go_back(std::size_t segment) {
      torch::autograd::variable_list roots, weights;
      for (const auto& [layer, value] : made[segment])
        if (value.requires_grad() && gradients[layer].defined()) roots.push_back(value), weights.push_back(gradients[layer]);
      if (!roots.empty()) torch::autograd::backward(roots, weights);
      for (const auto& [layer, leaf] : given[segment])
        if (leaf.grad().defined()) add(layer, leaf.grad());
    }
  };

  static void run(Network& network, const Segment& cut, std::size_t number, Flight& flight, const NetworkInput& input) {
    std::vector<at::Tensor> values(network.graph().layers.size());
    for (auto i = static_cast<std::size_t>(cut.first); i < static_cast<std::size_t>(cut.last); ++i) {
      for (const int from : network.graph().layers[i].inputs) {
        const auto f = static_cast<std::size_t>(from);
        if (values[f].defined()) continue;
        const auto& before = flight.values[f];
        values[f] = before.detach().requires_grad_(before.requires_grad());
        flight.given[number][f] = values[f];
      }
      values[i] = network.forward_layer(i, values, input, true);
    }
    for (auto i = static_cast<std::size_t>(cut.first); i < static_cast<std::size_t>(cut.last); ++i) {
      flight.made[number][i] = values[i];
      flight.values[i] = values[i].detach().requires_grad_(values[i].requires_grad());
    }
  }
  std::size_t end_of(const std::vector<Segment>& cuts, std::size_t s) {
    return s + 1 < cuts.size() ? static_cast<std::size_t>(cuts[s + 1].first) : part(0).graph().layers.size();
  }
  const PartExchange& exchange_at(std::size_t part, std::size_t layer) { return *networks_[part]->graph().layers[layer].exchange; }
  /// Those who meet in an exchange, by their places on its axis.
  std::vector<std::vector<std::size_t>> groups(std::size_t layer) {
    const int axis = exchange_at(0, layer).axis;
    std::map<std::vector<int>, std::vector<std::size_t>> all;  // by places on the other axes
    for (std::size_t p = 0; p < networks_.size(); ++p) {
      std::vector<int> others;
      for (int other = 0; other < static_cast<int>(axes_.size()); ++other)
        if (other != axis) others.push_back(place_on(axes_, other, static_cast<int>(p)));
      all[others].push_back(p);
    }
    std::vector<std::vector<std::size_t>> found;
    for (auto& [others, group] : all) found.push_back(std::move(group));
    return found;
  }
  std::size_t source(std::size_t layer) { return static_cast<std::size_t>(part(0).graph().layers[layer].inputs[0]); }
  std::vector<SplitAxis> axes_;
  std::vector<std::unique_ptr<Network>> networks_;
};

}  // namespace ddl
