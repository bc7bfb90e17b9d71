#include <algorithm>

#include "ddl/core/error.h"
#include "ddl/plan/meetings.h"

namespace ddl {

Plan unroll(const Plan& plan, int steps) {
  Plan whole = plan;
  whole.micro_batches = plan.micro_batches * steps;
  for (auto& role : whole.roles) {
    const auto once = std::move(role.tasks);
    role.tasks.clear();
    role.staleness = 0;
    for (int step = -depth({{}, 0, 1, once}); step < steps; ++step) {
      const auto batch_of = [&](const Task& task) { return step + task.ahead; };
      std::vector<int> place(once.size(), kNone);  // also of those that come later in the step
      for (std::size_t t = 0, next = role.tasks.size(); t < once.size(); ++t)
        if (batch_of(once[t]) >= 0 && batch_of(once[t]) < steps) place[t] = static_cast<int>(next++);
      for (std::size_t t = 0; t < once.size(); ++t) {
        if (place[t] == kNone) continue;
        const int batch = batch_of(once[t]);
        auto task = once[t];
        task.label = fmt::format("{}, step {}", task.label, step);
        task.ahead = 0;
        task.meeting = kNone;
        task.micro_batch += batch * plan.micro_batches;
        task.after.clear();
        // What a step leaves out was done, or is not to be done at all.
        for (const int other : once[t].after)
          if (place[static_cast<std::size_t>(other)] != kNone) task.after.push_back(place[static_cast<std::size_t>(other)]);
        role.tasks.push_back(std::move(task));
      }
    }
  }
  return whole;
}

}  // namespace ddl
