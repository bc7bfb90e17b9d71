#pragma once

#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <unistd.h>

#include "ddl/core/text.h"
#include "ddl/plan/plan.h"

namespace ddl {

/// For tests of what becomes of a run when a worker dies: $DDLBENCH_TEST_DEATH = "rank:step:what" kills that worker, as the kernel would, when it begins a task of that step, `what`
/// being the kind of the task, or of a task that communicates its cargo ("forward", "update", "gradients", "control").
class TestDeath {
 public:
  explicit TestDeath(int worker) {
    const char* const told = std::getenv("DDLBENCH_TEST_DEATH");
    if (told == nullptr) return;
    const auto words = split(told, ':');
    if (words.size() == 3 && std::stoi(words[0]) == worker) at_ = At{std::stoll(words[1]), words[2]};
  }
  void at(std::int64_t step, const Task& task) const {
    if (at_ && step == at_->step && (at_->what == name(task.kind) || (task.cargo != Cargo::none && at_->what == name(task.cargo)))) ::kill(::getpid(), SIGKILL);
  }

 private:
  struct At {
    std::int64_t step;
    std::string what;
  };
  std::optional<At> at_;
};

}  // namespace ddl
