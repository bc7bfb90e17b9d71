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
  std::function<void()> ready = {};  ///< waits until there is something to work on; may be empty
  std::function<void()> work;
  // Guarded by the queue's mutex.
  bool done = false;
  std::optional<Error> error;
  Nanoseconds began = 0;
  Nanoseconds ended = 0;
};

/// `ready`, and where it fails everybody is told, since this rank then leaves out what the others do.
std::function<void()> ready_or_abandon(std::function<void()> ready, Transport& transport);

/// Runs collectives one after the other, in the order in which they were pushed. There is a thread for it, but
/// whoever waits for a collective runs those that are not taken up yet itself: a small one then costs no wake-up.
/// Threads: any.
class CommunicationQueue {
 public:
  void push(std::shared_ptr<Handle::State> item, Start start);
  /// Runs `work` on this thread once nothing is pending. Errors: its own; interrupted after stop().
  template <typename Work>
  void run_now(const Work& work);
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

template <typename Work>
void CommunicationQueue::run_now(const Work& work) {
  std::unique_lock lock(mutex_);
  while (running_ || !items_.empty())
    if (running_)
      ended_.wait(lock);
    else
      run_first(lock);
  if (stopped_) throw Error(Code::interrupted, "[communicator] it ended before this collective began");
  running_ = true;
  lock.unlock();
  struct End {
    CommunicationQueue& queue;
    ~End() {
      const std::lock_guard again(queue.mutex_);
      queue.running_ = false;
      queue.ended_.notify_all();
      if (!queue.items_.empty()) queue.pushed_.notify_one();
    }
  } end{*this};
  work();
}

}  // namespace ddl
