#include "ddl/core/error.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/common.h"

namespace ddl {

/// One worker, no communication: what every other strategy is compared with.
Plan single(const StrategyInput& input) {
  require_options(input.spec, {});
  if (input.workers != 1)
    throw Error(Code::invalid_argument, fmt::format("[single] trains with one worker; got {}", input.workers));
  auto plan = replicas(input);
  auto& tasks = plan.roles[0].tasks;
  Task update;
  update.kind = TaskKind::update;
  update.label = "update";
  update.after = {static_cast<int>(tasks.size()) - 1};
  tasks.push_back(std::move(update));
  return plan;
}

}  // namespace ddl
