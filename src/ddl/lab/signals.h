#pragma once

#include <csignal>

namespace ddl {

/// While one exists, the first SIGINT, SIGTERM or SIGHUP is noted instead of ending the process, and a second one ends it
/// as ever: nothing between the start of a run and its kept record is lost to Ctrl-C, and nothing is immune to it. Signals
/// that were ignored when it began (nohup, a shell's background job) stay so. May nest; one thread.
class SignalsHeld {
 public:
  SignalsHeld();
  ~SignalsHeld();
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

  /// The signal that was noted and not taken, or 0.
  static int noted();
  /// The same; it is taken by this.
  static int take();
};

/// Those of SIGINT, SIGTERM and SIGHUP that are not ignored.
sigset_t ending_signals();
/// "SIGINT".
const char* signal_name(int number);

}  // namespace ddl
