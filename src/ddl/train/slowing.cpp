#include "ddl/train/slowing.h"

#include <cerrno>
#include <mutex>
#include <unistd.h>

#include "ddl/core/error.h"
#include "ddl/train/core_clock.h"

namespace ddl {
namespace {

/// How long a thread computes between two stops: short beside a pass, long beside what a timer and its signal take, 10 to 20 us on virtual machines, which count as computed (100 us made a factor of 2 one of 2.4).
constexpr Nanoseconds kQuantum = 500'000;

/// A real-time signal, which nothing else of this process uses.
int signal_number() { return SIGRTMIN + 5; }

}  // namespace

Slowing::~Slowing() {
  if (made_) ::timer_delete(timer_);
}

// Only what may be called of a signal's handler: clock_gettime, timer_settime and lock-free atomics.
void Slowing::interrupted(int, siginfo_t* info, void*) {
  const int before = errno;
  // Of a signal that somebody else sent that value is not ours.
  auto* const self = static_cast<Slowing*>(info->si_value.sival_ptr);
  if (info->si_code == SI_TIMER && self != nullptr && self->active_.load(std::memory_order_relaxed)) {
    self->pay();
    self->arm(kQuantum);
  }
  errno = before;
}

void Slowing::make_timer() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = &Slowing::interrupted;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    ::sigemptyset(&action.sa_mask);
    if (::sigaction(signal_number(), &action, nullptr) != 0) throw system_error("[slowing] no signal for a slowed worker", errno);
  });
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = signal_number();
  event.sigev_value.sival_ptr = this;
  event._sigev_un._tid = ::gettid();
  // Of time that passes: timers of a thread's core time go by the scheduler's ticks, milliseconds.
  if (::timer_create(CLOCK_MONOTONIC, &event, &timer_) != 0) throw system_error("[slowing] no timer for a slowed worker", errno);
  made_ = true;
}

void Slowing::arm(Nanoseconds after) {
  itimerspec when{};
  when.it_value.tv_nsec = after;
  ::timer_settime(timer_, 0, &when, nullptr);
}

void Slowing::pay() {
  const auto from = core_time();
  const auto until = from + static_cast<Nanoseconds>((factor_ - 1) * static_cast<double>(from - paid_.load(std::memory_order_relaxed)));
  auto at = from;
  while (at < until) at = core_time();
  // What it was stopped for too long counts as computed, and not again.
  paid_.store(at, std::memory_order_relaxed);
}

void Slowing::begin() {
  if (factor_ <= 1) return;
  if (!made_) make_timer();
  paid_.store(core_time(), std::memory_order_relaxed);
  active_.store(true, std::memory_order_relaxed);
  arm(kQuantum);
}

void Slowing::end() {
  if (factor_ <= 1) return;
  // First of all: who is stopped while it pays would pay twice.
  active_.store(false, std::memory_order_relaxed);
  arm(0);
  pay();
}

}  // namespace ddl
