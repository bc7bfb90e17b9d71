#include "ddl/strategy/pipeline_memory.h"

#include <set>

namespace ddl {
namespace {

/// The worst moment so far.
class Worst {
 public:
  explicit Worst(Holdings& holds) : holds_(holds) {}
  void look(std::int64_t activations, std::int64_t gradients) {
    if (activations + gradients <= most_) return;
    most_ = activations + gradients;
    holds_.activations = activations;
    holds_.gradients = gradients;
  }

 private:
  Holdings& holds_;
  std::int64_t most_ = -1;
};

}  // namespace

void hold_worst(const std::vector<Action>& actions, const std::map<int, StageBytes>& stages, const std::function<bool(int)>& again, Holdings& holds) {
  const auto kept = [&](const Action& action, const StageBytes& bytes) { return bytes.given + (again(action.micro_batch) ? 0 : bytes.made); };
  std::int64_t now = 0, gradients = 0;
  for (const auto& action : actions)
    if (is_forward(action.pass)) now += action.ahead * kept(action, stages.at(action.stage));
  const bool in_buckets = holds.buckets > 0;
  Worst worst(holds);
  std::set<int> went_back;
  for (const auto& action : actions) {
    const auto& bytes = stages.at(action.stage);
    if (is_forward(action.pass)) {
      now += kept(action, bytes);
      worst.look(now, gradients);
      continue;
    }
    // Between its two parts a backward holds what products were fed and the gradients of what they made: about as much as was kept before it.
    const bool first = action.pass == Pass::backward_input, second = action.pass == Pass::backward_weight;
    const bool made_again = again(action.micro_batch) && !second;
    if (first && made_again) now += bytes.made;
    const bool adds = finishes(action.pass) && (in_buckets || went_back.count(action.stage) > 0);
    worst.look(now + (made_again && !first ? bytes.made : 0) + (second ? 0 : bytes.late), gradients + (adds ? bytes.largest_parameter : 0));
    if (!finishes(action.pass)) continue;
    now -= bytes.given + (made_again ? 0 : bytes.made);
    if (went_back.insert(action.stage).second) gradients += bytes.gradients;
    worst.look(now, gradients);
  }
}

}  // namespace ddl
