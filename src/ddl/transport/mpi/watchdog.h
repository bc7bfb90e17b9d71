#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "ddl/measure/clock.h"

namespace ddl {

/// Acts where a call that cannot be left takes too long. Costs the call two stores.
class Watchdog {
 public:
  /// `bite` runs on a thread of the watchdog's, once, when a guarded call is still under way after its deadline.
  explicit Watchdog(std::function<void()> bite);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void guard(Nanoseconds deadline) { deadline_.store(deadline, std::memory_order_release); }
  void release() { deadline_.store(0, std::memory_order_release); }

 private:
  std::function<void()> bite_;
  std::atomic<Nanoseconds> deadline_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace ddl
