#pragma once

#include <csignal>
#include <ctime>

namespace ddl {

/// While one exists SIGINT and SIGTERM are noted instead of ending the process; a second one ends it.
class SignalWatch {
 public:
  SignalWatch() {
    caught_ = 0;
    struct sigaction action {};
    action.sa_handler = [](int number) { caught_ = number; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(SIGINT, &action, &interrupt_);
    ::sigaction(SIGTERM, &action, &terminate_);
  }
  ~SignalWatch() {
    ::sigaction(SIGINT, &interrupt_, nullptr);
    ::sigaction(SIGTERM, &terminate_, nullptr);
  }
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  static int caught() { return caught_; }

 private:
  // A handler reaches nothing else.
  static inline volatile std::sig_atomic_t caught_ = 0;
  struct sigaction interrupt_ {}, terminate_ {};
};

/// While one exists SIGINT and SIGTERM wait: what the run under way does not take up itself (it does while workers
/// run) comes when its record has been kept. Nothing between start and record can be lost to Ctrl-C.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t mask;
    ::sigemptyset(&mask);
    ::sigaddset(&mask, SIGINT);
    ::sigaddset(&mask, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &mask, &before_);
  }
  ~SignalsHeld() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  /// One that came and that nobody took up: its number, or 0. It is taken by this.
  static int take() {
    sigset_t mask;
    ::sigemptyset(&mask);
    ::sigaddset(&mask, SIGINT);
    ::sigaddset(&mask, SIGTERM);
    const timespec at_once{};
    const int number = ::sigtimedwait(&mask, nullptr, &at_once);
    return number < 0 ? 0 : number;
  }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_;
};

}  // namespace ddl
