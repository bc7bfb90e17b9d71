#include "ddl/transport/mpi/watchdog.h"

#include <chrono>

namespace ddl {
namespace {

/// How late it may be.
constexpr std::chrono::milliseconds kLook{100};

}  // namespace

Watchdog::Watchdog(std::function<void()> bite) : bite_(std::move(bite)) {
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kLook, [this] { return stopped_; })) {
      const auto deadline = deadline_.load(std::memory_order_acquire);
      if (deadline == 0 || now() < deadline) continue;
      bite_();
      return;
    }
  });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace ddl
