#pragma once

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>

#include "ddl/core/text.h"
#include "ddl/measure/clock.h"
#include "ddl/plan/plan.h"

namespace ddl {

/// For tests of what becomes of a run when a worker dies: $DDLBENCH_TEST_DEATH = "rank:step:what" kills that worker, as the kernel would, and has it say before, on its standard error,
/// at what time of the monotonic clock. `what` is
///   the kind of a task, its cargo, or both: when it begins the first such task from that step on ("forward", "gradients", "send activations");
///   "server" and a kind: the same of the server in its process ("server update");
///   what is of no step: "setup" (it begins), "connect" (it has a network, and is to meet the others), "evaluate" (it has begun to), "end" (it has trained, and is to say how).
///   "measure": not a worker, but the process that measures layers for all of them, of rank 0.
class TestDeath {
 public:
  explicit TestDeath(int worker) {
    const char* const told = std::getenv("DDLBENCH_TEST_DEATH");
    if (told == nullptr) return;
    const auto words = split(told, ':');
    if (words.size() == 3 && std::stoi(words[0]) == worker) at_ = At{std::stoll(words[1]), words[2]};
  }
  void at(std::int64_t step, const Task& task) const {
    if (!at_ || step < at_->step) return;
    const std::string kind(name(task.kind)), cargo(name(task.cargo));
    if (at_->what == kind || (task.cargo != Cargo::none && (at_->what == cargo || at_->what == kind + " " + cargo))) die();
  }
  void at(std::int64_t step, std::string_view what) const {
    if (at_ && step >= at_->step && at_->what == what) die();
  }
  void at(std::string_view what) const {
    if (at_ && at_->what == what) die();
  }

 private:
  struct At {
    std::int64_t step;
    std::string what;
  };

  void die() const {
    std::fprintf(stderr, "dies at %.6f\n", seconds(now()));
    std::fflush(stderr);
    ::kill(::getpid(), SIGKILL);
  }

  std::optional<At> at_;
};

}  // namespace ddl
