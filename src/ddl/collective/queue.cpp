#include "ddl/collective/queue.h"

#include <exception>
#include <utility>

namespace ddl {

std::function<void()> ready_or_abandon(std::function<void()> ready, Transport& transport) {
  if (!ready) return {};
  return [ready = std::move(ready), &transport] {
    try {
      ready();
    } catch (const Error& error) {
      transport.abandon(error);
      throw;
    } catch (const std::exception& error) {
      const Error ours(Code::io, error.what());
      transport.abandon(ours);
      throw ours;
    }
  };
}

void CommunicationQueue::push(std::shared_ptr<Handle::State> item, Start start) {
  {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
  }
  if (start == Start::now) pushed_.notify_one();
}

bool CommunicationQueue::done(const Handle::State& item) {
  const std::lock_guard lock(mutex_);
  return item.done;
}

void CommunicationQueue::wait(Handle::State& item) {
  std::unique_lock lock(mutex_);
  while (!item.done) {
    // An item that is not done and not running is in the queue, or behind others that are.
    if (!running_ && !items_.empty())
      run_first(lock);
    else
      ended_.wait(lock);
  }
  if (item.error) throw Error(*item.error);
}

void CommunicationQueue::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    pushed_.wait(lock, [&] { return stopped_ || (!running_ && !items_.empty()); });
    if (stopped_) return;
    run_first(lock);
  }
}

void CommunicationQueue::run_first(std::unique_lock<std::mutex>& lock) {
  const auto item = std::move(items_.front());
  items_.pop_front();
  running_ = true;
  lock.unlock();
  std::optional<Error> error;
  Nanoseconds began = now();
  try {
    if (item->ready) {
      item->ready();
      began = now();
    }
    item->work();
  } catch (const Error& failure) {
    error = failure;
  } catch (const std::bad_alloc&) {
    error = Error(Code::io, "out of memory in the collective");
  } catch (const std::exception& failure) {
    error = Error(Code::io, failure.what());
  }
  const Nanoseconds ended = now();
  item->work = nullptr;
  item->ready = nullptr;
  lock.lock();
  item->began = began;
  item->ended = ended;
  item->error = std::move(error);
  item->done = true;
  running_ = false;
  ended_.notify_all();
  // It may have been woken for an item while this one ran, and have gone back to sleep.
  if (!items_.empty()) pushed_.notify_one();
}

void CommunicationQueue::stop(const std::function<void()>& interrupt) {
  std::unique_lock lock(mutex_);
  stopped_ = true;
  for (const auto& item : items_) {
    item->error = Error(Code::interrupted, "[communicator] it ended before this collective began");
    item->done = true;
  }
  items_.clear();
  pushed_.notify_all();
  ended_.notify_all();
  if (!running_) return;
  interrupt();
  ended_.wait(lock, [&] { return !running_; });
}

}  // namespace ddl
