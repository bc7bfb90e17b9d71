#include <fmt/format.h>

#include "ddl/strategy/pipeline/order.h"

namespace ddl {
namespace {

/// What has been seen so far of one stage's one micro-batch.
struct Seen {
  int forwards = 0, inputs = 0, weights = 0;
};

}  // namespace

std::vector<std::string> verify(const PipelineOrder& order, int micro_batches) {
  std::vector<std::string> findings;
  const auto at = [&](int stage, int micro_batch) {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(micro_batches) + static_cast<std::size_t>(micro_batch);
  };
  std::vector<Seen> seen(at(order.stages(), 0));
  for (int worker = 0; worker < order.workers(); ++worker)
    for (const Action& action : order.actions[static_cast<std::size_t>(worker)]) {
      const auto complain = [&](std::string_view what) { findings.push_back(fmt::format("worker {}: {}: {}", worker, to_string(action), what)); };
      if (action.stage < 0 || action.stage >= order.stages() || action.micro_batch < 0 || action.micro_batch >= micro_batches) {
        complain(fmt::format("there are {} stages and {} micro-batches", order.stages(), micro_batches));
        continue;
      }
      const int owner = order.worker_of(action.stage, action.micro_batch);
      if (owner != worker) complain(fmt::format("the stage is worker {}'s", owner));
      Seen& so_far = seen[at(action.stage, action.micro_batch)];
      if (is_forward(action.pass)) {
        // One that is ahead may stand behind the backward of the same number: it is of a later batch.
        if (action.ahead == 0 && so_far.inputs > 0) complain("after its backward");
        ++so_far.forwards;
        continue;
      }
      if (action.ahead != 0) complain("only forwards can be ahead");
      if (action.pass == Pass::backward_weight && so_far.inputs == 0) complain("before the gradient of the input");
      if (gives_input_gradient(action.pass)) ++so_far.inputs;
      if (finishes(action.pass)) ++so_far.weights;
    }
  for (int stage = 0; stage < order.stages(); ++stage)
    for (int micro = 0; micro < micro_batches; ++micro) {
      const Seen& all = seen[at(stage, micro)];
      if (all.forwards != 1 || all.inputs != 1 || all.weights != 1)
        findings.push_back(fmt::format("stage {}, micro-batch {}: {} forwards, {} gradients of the input, {} of the weights; expected one each",
                                       stage, micro, all.forwards, all.inputs, all.weights));
    }
  return findings;
}

}  // namespace ddl
