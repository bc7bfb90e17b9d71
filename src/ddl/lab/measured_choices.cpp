#include "ddl/lab/measured_choices.h"

#include "ddl/predict/machine.h"

namespace ddl {

std::vector<MeasuredChoice> measured_choices(const Json& machine, const std::string& transport, int workers) {
  std::vector<MeasuredChoice> all;
  for (int ranks = 2; ranks <= workers; ++ranks)
    for (const auto& choice : best_algorithms(machine, transport, ranks, Goal::all_reduce))
      all.push_back({ranks, choice.from, choice.to, choice.algorithm});
  return all;
}

}  // namespace ddl
