#include "ddl/core/error.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/common.h"
#include "ddl/strategy/own_options.h"
#include "ddl/strategy/tasks.h"

namespace ddl {

/// One worker, no communication: what every other strategy is compared with.
Plan single(const StrategyInput& input) {
  require_own_options(input.spec, {});
  if (input.workers != 1)
    throw Error(Code::invalid_argument, fmt::format("[single] trains with one worker; got {}, expected 1, or strategy data", input.workers));
  auto plan = replicas(input);
  auto& role = plan.roles[0];
  add(role, update(kNone, {static_cast<int>(role.tasks.size()) - 1}));
  return plan;
}

}  // namespace ddl
