#pragma once

#include <atomic>
#include <csignal>
#include <ctime>

#include "ddl/measure/clock.h"

namespace ddl {

/// Makes a thread compute as a slower processor would: of the time that it has a core for between begin() and end(), so many times as much passes. That is spread: a timer's signal stops the thread every 500 us for as long as is owed,
/// and end() pays the rest, so that whatever is handed out on the way (gradients of a backward pass) comes as late as it would. The results are the same. It keeps its core busy, as such a processor is.
/// Other threads that compute for it wait for it where their parts meet.
/// Threads: begin() and end() of one thread, the same always.
class Slowing {
 public:
  /// `factor`: 1 or more. Of 1 nothing is done.
  explicit Slowing(double factor) : factor_(factor) {}
  ~Slowing();
  double factor() const { return factor_; }
  Slowing(const Slowing&) = delete;
  Slowing& operator=(const Slowing&) = delete;

  /// Errors: io where the system has no timer left.
  void begin();
  void end();

  /// While one exists, begin(); then end().
  class While {
   public:
    explicit While(Slowing* slowing) : slowing_(slowing) {
      if (slowing_ != nullptr) slowing_->begin();
    }
    ~While() {
      if (slowing_ != nullptr) slowing_->end();
    }
    While(const While&) = delete;
    While& operator=(const While&) = delete;

   private:
    Slowing* slowing_;
  };

 private:
  static void interrupted(int signal, siginfo_t* info, void* context);
  void make_timer();
  void arm(Nanoseconds after);
  void pay();

  double factor_;
  bool made_ = false;
  timer_t timer_{};
  std::atomic<bool> active_{false};     ///< read by a signal's handler on the same thread
  std::atomic<Nanoseconds> paid_{0};    ///< core time up to which all is paid
};

}  // namespace ddl
