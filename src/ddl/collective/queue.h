#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "ddl/collective/communicator.h"

namespace ddl {

class CommunicationQueue;

/// A collective in the queue, and what became of it.
struct Handle::State {
  std::shared_ptr<CommunicationQueue> queue;
  std::function<void()> work;
  // Guarded by the queue's mutex.
  bool done = false;
  std::optional<Error> error;
  Nanoseconds began = 0;
  Nanoseconds ended = 0;
};

/// Runs collectives one after the other, in the order in which they were pushed. There is a thread for it, but
/// whoever waits for a collective runs those that are not taken up yet itself: a small one then costs no wake-up.
/// Threads: any.
class CommunicationQueue {
 public:
  void push(std::shared_ptr<Handle::State> item, Start start);
  bool done(const Handle::State& item);
  /// Errors: what the item failed with.
  void wait(Handle::State& item);
  /// What the communication thread does until stop().
  void serve();
  /// `interrupt` ends what is running. What was not taken up fails with `interrupted`.
  void stop(const std::function<void()>& interrupt);

 private:
  /// Takes the lock as held, runs the first item without it, and holds it again.
  void run_first(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable pushed_;  // for the communication thread
  std::condition_variable ended_;   // for those who wait
  std::deque<std::shared_ptr<Handle::State>> items_;
  bool running_ = false;
  bool stopped_ = false;
};

}  // namespace ddl
