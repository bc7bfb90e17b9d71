#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ddl/lab/processes.h"
#include "ddl/lab/record.h"
#include "ddl/lab/run.h"

namespace ddl {

/// What tells the coordinator's loop of one kind of worker: how it starts them and how it understands them.
class Launch {
 public:
  virtual ~Launch() = default;
  virtual std::unique_ptr<Processes> start() = 0;
  /// A message or a line of a worker. Errors: corrupt where it cannot be understood.
  virtual void take(const ProcessEvent& event, Processes& processes) = 0;
  /// Asks every worker to end after the step under way; false where this kind cannot, so that they are killed.
  virtual bool ask_to_stop(Processes& processes) = 0;
};

/// Runs the workers of a launch to their end and fills `observed`: state and reason, process numbers, messages.
/// Notices a dead worker at once (by its pidfd), kills the others, and says which rank ended how with its last lines;
/// of several failures the cause is named, not those that follow from it. On SIGINT asks to stop and waits, on a second
/// one kills; at the time limit likewise.
/// `started` is called once the workers were started, before anything is heard of them: of several none has got past the meeting at which they learn of each other.
void supervise(Launch& launch, const Experiment& experiment, const RunEvents& events, Observed& observed, const std::function<void()>& started = {});

}  // namespace ddl
