// Prints what a machine profile says a training step of one worker takes, as JSON, for tests and studies of the profile alone.
//
// usage: measured_dump PROFILE MODEL DATASET BATCH [PRECISION] [OPTIMIZER] [THREADS]
#include <exception>
#include <iostream>
#include <string>

#include "ddl/core/spec.h"
#include "ddl/nn/builtin.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/measured/measured_machine.h"

int main(int count, char** words) {
  using namespace ddl;
  if (count < 5) {
    std::cerr << "usage: measured_dump PROFILE MODEL DATASET BATCH [PRECISION] [OPTIMIZER] [THREADS]\n";
    return 2;
  }
  try {
    const auto word = [&](int place, const char* otherwise) { return std::string(place < count ? words[place] : otherwise); };
    const auto model = parse_spec(word(2, ""));
    const auto graph = builtin_models().at(model.name).make(model, dataset_shape(word(3, ""), true));
    const std::int64_t batch = std::stoll(word(4, ""));
    const MeasuredMachine machine(read_machine(word(1, "")), {.workers = {{std::stoi(word(7, "1")), 0}}, .network = to_string(model), .dataset = word(3, ""), .precision = word(5, "fp32"),
                                                              .optimizer = word(6, "sgd")});
    LayerCost sum;
    double fitted = 0, extrapolated = 0;
    Json layers = Json::array();
    const auto add = [&](const std::string& name, const LayerEstimate& each) {
      sum += each.cost;
      const double seconds = each.cost.forward + each.cost.backward();
      if (each.fitted) fitted += seconds;
      if (each.extrapolated) extrapolated += seconds;
      layers.push_back({{"name", name}, {"forward_ms", each.cost.forward * 1e3}, {"backward_ms", each.cost.backward() * 1e3}, {"uncertainty", each.uncertainty}, {"fitted", each.fitted}});
    };
    for (std::size_t layer = 0; layer < graph.layers.size(); ++layer) add(graph.layers[layer].name, machine.estimate(0, graph, layer, batch));
    add("loss", machine.estimate_loss(0, graph, batch));
    StepCosts resources;
    const double update = machine.update(0, graph.parameters() * 4), load = machine.load(0, batch), harness = machine.harness(0, 0, resources).seconds;
    const double computed = sum.forward + sum.backward();
    std::cout << Json{{"forward_ms", sum.forward * 1e3}, {"backward_input_ms", sum.backward_input * 1e3}, {"backward_weight_ms", sum.backward_weight * 1e3}, {"update_ms", update * 1e3},
                      {"load_ms", load * 1e3}, {"harness_ms", harness * 1e3}, {"step_ms", (computed + update + load + harness) * 1e3}, {"uncertainty", machine.uncertainty(0, graph, batch)},
                      {"fitted", fitted / computed}, {"extrapolated", extrapolated / computed}, {"layers", layers}}
                     .dump(1)
              << '\n';
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
