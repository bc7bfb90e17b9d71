#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "ddl/core/spec.h"
#include "ddl/core/statistics.h"
#include "ddl/measure/clock.h"
#include "ddl/nn/builtin.h"
#include "ddl/nn/network_testing.h"
#include "ddl/train/allocator.h"
#include "ddl/train/device.h"
#include "ddl/train/split_backward.h"

// Backward of a stage in one pass and in two parts, in turn, in fp32 on one thread. The stage begins where only one value crosses, and is given it.
//
// usage: split_backward_bench [MODEL=resnet18 [SAMPLES=16 [ROUNDS=9 [FIRST=0.3 [LAST=0.7]]]]]    of the layers, the shares where the stage begins and ends
// prints: median milliseconds of both, the ratio with its median over rounds, and the bytes that tensors take beside parameters

namespace ddl {
namespace {

struct Times {
  std::vector<double> plain, input, weight, ratio;
};

int compare(const std::string& model, std::int64_t count, int rounds, double from, double to) {
  at::set_num_threads(1);
  install_allocator(true);
  const auto spec = parse_spec(model);
  const SampleShape shape = spec.name == "gpt" ? SampleShape{.classes = 1000, .objective = Objective::language, .target_length = 129} : SampleShape{3, 64, 64, 10};
  const auto device = make_device("cpu");
  Network network(builtin_models().at(spec.name).make(spec, shape), {});
  const auto input = made_up_samples(count, shape, at::kFloat).input;
  const auto size = network.graph().layers.size();
  const auto cut_at = [&](double share) {
    const auto alone = [&](std::size_t cut) {
      for (std::size_t layer = 0; layer + 1 < cut; ++layer)
        if (network.last_use(layer) >= cut && network.graph().layers[layer].kind != LayerKind::input) return false;
      return !network.graph().layers[cut].in_place;
    };
    auto cut = static_cast<std::size_t>(share * static_cast<double>(size));
    while (cut + 1 < size && !alone(cut)) ++cut;
    return cut;
  };
  const auto first = cut_at(from), last = cut_at(to);
  std::vector<at::Tensor> values(size);
  for (std::size_t layer = 0; layer < first; ++layer) values[layer] = network.forward_layer(layer, values, input, true);
  const auto given = values[first - 1].detach();
  values.assign(size, {});
  at::Tensor leaf, left, gradient;
  const auto forward = [&] {
    left.reset();
    leaf = given.detach().requires_grad_(true);
    values[first - 1] = leaf;
    network.forward_layers(first, last, values, input, true);
    left = values[last - 1];
    values.assign(size, {});
    if (!gradient.defined()) gradient = at::randn_like(left.detach());
  };
  // All gradients come anew, as with the first micro-batch.
  const auto clear = [&] {
    for (auto& parameter : network.parameters()) parameter.mutable_grad().reset();
  };
  const auto held = [&] { return static_cast<double>(device->memory().current) / 1e6; };
  const auto roots = [&] {
    torch::autograd::edge_list edges{torch::autograd::impl::gradient_edge(left)};
    left.reset();
    return edges;
  };
  const double parameters = held();
  double forward_mb = 0, between_mb = 0;
  Times times;
  const auto milliseconds = [](Nanoseconds begin, Nanoseconds end) { return static_cast<double>(end - begin) / 1e6; };
  for (int round = -1; round < rounds; ++round) {
    double plain = 0, both = 0;
    for (const bool split : {round % 2 == 0, round % 2 != 0}) {
      clear();
      forward();
      forward_mb = held() - parameters;
      const auto begin = now();
      if (!split) {
        torch::autograd::Engine::get_default_engine().execute(roots(), {gradient}, false, false, true);
        plain = milliseconds(begin, now());
        if (round >= 0) times.plain.push_back(plain);
        continue;
      }
      auto late = backward_input(roots(), {gradient}, {leaf});
      const auto middle = now();
      between_mb = held() - parameters;
      const auto again = now();
      backward_weight(std::move(late));
      const auto end = now();
      both = milliseconds(begin, middle) + milliseconds(again, end);
      if (round < 0) continue;
      times.input.push_back(milliseconds(begin, middle));
      times.weight.push_back(milliseconds(again, end));
    }
    if (round >= 0) times.ratio.push_back(both / plain);
  }
  std::printf("%s layers %zu to %zu of %zu, %lld samples: plain %.1f ms, input %.1f ms, weight %.1f ms, ratio %.3f; held after forward %.1f MB, between the parts %.1f MB\n", model.c_str(), first,
              last, size, static_cast<long long>(count), median(times.plain), median(times.input), median(times.weight), median(times.ratio), forward_mb, between_mb);
  return 0;
}

}  // namespace
}  // namespace ddl

int main(int argc, char** argv) {
  const auto number = [&](int place, double otherwise) { return argc > place ? std::atof(argv[place]) : otherwise; };
  return ddl::compare(argc > 1 ? argv[1] : "resnet18", static_cast<std::int64_t>(number(2, 16)), static_cast<int>(number(3, 9)), number(4, 0.3), number(5, 0.7));
}
