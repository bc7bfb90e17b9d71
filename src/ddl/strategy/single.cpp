#include "ddl/core/error.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/common.h"

namespace ddl {

/// One worker, no communication: what every other strategy is compared with.
Plan single(const StrategyInput& input) {
  require_options(input.spec, {});
  if (input.workers != 1)
    throw Error(Code::invalid_argument, fmt::format("[single] trains with one worker; got {}", input.workers));
  Role role{"worker", 0, 1, compute_tasks(input), holdings(input)};
  const auto backward = static_cast<int>(role.tasks.size()) - 1;
  Task update;
  update.kind = TaskKind::update;
  update.label = "update";
  update.after = {backward};
  role.tasks.push_back(update);
  return {"single", 1, {}, {role}};
}

}  // namespace ddl
