#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ddl/core/json.h"
#include "ddl/lab/config.h"
#include "ddl/measure/clock.h"

namespace ddl {

class AgentHub;

/// How far a run is, for people.
struct Progress {
  std::string name;
  int index = 0, of = 1;  ///< within a sweep
  std::int64_t step = 0, steps = 0;
  double samples_per_s = 0;
  double loss = 0;
  double seconds_left = 0;
  std::string phase;      ///< "starting", "training", "evaluating", "stopping"
};

struct RunEvents {
  std::function<void(const Progress&)> progress;
  std::function<void(std::string_view)> message;
  /// When the user asked for this run: process_started() for a command that only runs it; 0 means now.
  Nanoseconds requested = 0;
};

/// When this process began, from /proc/self/stat: 10 ms fine.
Nanoseconds process_started();

/// What the ranks of one run know and a stranger cannot guess: 256 bits of the kernel's, as hex digits.
std::string new_secret();

/// Runs one experiment to its end and returns its record (docs/record.md): state ok, failed, timeout, interrupted or
/// invalid, with whatever was complete. SIGINT or SIGTERM ends it after the step under way; a second one kills.
/// Leaves no process, port or shared memory behind.
/// `launched`: the ranks that a launcher started with this process, which must be as many as its workers; null: there are none.
/// Errors: only what makes the experiment impossible to start, with where it was asked for: its data set cannot be read,
/// check_job() finds fault, or a launcher or a library is missing.
Json run_experiment(const Experiment& experiment, const RunEvents& events, AgentHub* launched = nullptr);

}  // namespace ddl
