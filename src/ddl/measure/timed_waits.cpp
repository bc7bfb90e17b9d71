#include "ddl/measure/timed_waits.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/core/statistics.h"

namespace ddl {
namespace {

constexpr std::size_t kMostLates = 1 << 16;

void sleep_until(Nanoseconds time) {
  const timespec until{time / 1'000'000'000, time % 1'000'000'000};
  ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

}  // namespace

WaitClock sleeping_clock(Nanoseconds margin) {
  const auto wait = [margin](Nanoseconds due) {
    if (due - margin > now()) sleep_until(due - margin);
    while (now() < due) {
    }
  };
  return {[] { return now(); }, wait, margin};
}

Nanoseconds wake_up_margin() {
  constexpr Nanoseconds kSleep = 200'000, kMost = 200'000;
  constexpr int kSleeps = 20;
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  std::vector<double> late;
  for (int i = 0; i < kSleeps; ++i) {
    const auto due = now() + kSleep;
    sleep_until(due);
    late.push_back(static_cast<double>(now() - due));
  }
  return std::min(kMost, static_cast<Nanoseconds>(quantile(late, 0.95)));
}

TimedWaits::TimedWaits(WaitClock clock) : clock_(std::move(clock)) {}

void TimedWaits::begin() {
  if (depth_++ > 0) return;
  began_ = clock_.now();
  due_ = std::max(due_, began_ - std::exchange(late_, 0));
}

void TimedWaits::charge(double seconds) {
  compute_ += seconds;
  charged_ += seconds;
  const auto whole = static_cast<Nanoseconds>(std::llround(charged_ * 1e9));
  charged_ -= static_cast<double>(whole) * 1e-9;
  due_ += whole;
}

void TimedWaits::settle() {
  late_ = 0;
  // A share of what a wake-up takes.
  if (due_ - clock_.now() <= clock_.margin / 8) return;
  clock_.wait_until(due_);
  late_ = std::max<Nanoseconds>(0, clock_.now() - due_);
  const auto late = static_cast<float>(static_cast<double>(late_) * 1e-9);
  worst_ = std::max(worst_, late);
  if (waits_++ % stride_ != 0) return;
  lates_.push_back(late);
  if (lates_.size() < kMostLates) return;
  // Of a long run every second, then every fourth …
  for (std::size_t i = 0; 2 * i < lates_.size(); ++i) lates_[i] = lates_[2 * i];
  lates_.resize(lates_.size() / 2);
  stride_ *= 2;
}

void TimedWaits::end() {
  invariant(depth_ > 0, "a piece of work is begun before it ends");
  if (depth_ == 1) settle();
  if (--depth_ == 0) taken_ += seconds(clock_.now() - began_);
}

void TimedWaits::waited(Nanoseconds span) {
  constexpr Nanoseconds kNoWait = 5'000;
  if (span < kNoWait) return;
  late_ = 0;
  if (depth_ > 0) due_ = std::max(due_, clock_.now());
}

TimedWaits::Report TimedWaits::report() const {
  Report report{.waits = waits_, .late_max = worst_, .compute = compute_, .taken = taken_};
  const std::vector<double> lates(lates_.begin(), lates_.end());
  if (lates.empty()) return report;
  report.late_median = median(lates);
  report.late_p95 = quantile(lates, 0.95);
  return report;
}

}  // namespace ddl
