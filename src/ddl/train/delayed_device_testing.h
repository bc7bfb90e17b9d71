#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "ddl/core/hash.h"
#include "ddl/train/device.h"

namespace ddl {

/// For tests: a device as far from the host as a GPU, of CPU tensors. A thread of its own does the copies, in order, each as late as may be:
/// not before somebody waits for it or for something after it. Until then a download's target holds garbage (NaNs), and its source is not
/// read: whoever forgets to wait, or writes over a source too early, computes nonsense every time. An upload's source is looked at again
/// then, and faults() counts those that had changed.
class DelayedDevice final : public Device {
 public:
  DelayedDevice() : copier_([this] { copy(); }) {}
  ~DelayedDevice() override {
    {
      const std::lock_guard lock(line_->mutex);
      line_->ended = true;
    }
    line_->changed.notify_all();
    copier_.join();
  }

  std::string name() const override { return "delayed"; }
  at::Device where() const override { return at::kCPU; }
  bool is_host() const override { return false; }
  std::string pin(std::span<std::byte>) override {
    ++pinned_;
    return {};
  }
  void unpin(std::span<std::byte>) noexcept override {
    synchronize();
    --pinned_;
  }

  at::Tensor upload(const at::Tensor& host) override { return host.clone(); }
  void upload_into(at::Tensor& to, const at::Tensor& host) override {
    to.copy_(host);
    push([this, host, before = digest(host)] { faults_ += digest(host) == before ? 0 : 1; });
  }
  Moment download(at::Tensor host, const at::Tensor& from) override {
    std::memset(host.data_ptr(), 0xff, host.nbytes());
    return push([host, from]() mutable { host.copy_(from); });
  }
  Moment mark() override { return push([] {}); }
  void synchronize() override { mark().wait(); }

  DeviceMemory memory() const override { return {}; }
  void reset_peak() override {}
  Json describe() const override { return {{"product", "delayed"}}; }

  int faults() const { return faults_; }
  int pinned() const { return pinned_; }

 private:
  struct Line {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> copies;
    std::int64_t pushed = 0, wanted = 0, done = 0;
    bool ended = false;
  };
  struct State final : Moment::State {
    std::shared_ptr<Line> line;
    std::int64_t number = 0;
    Nanoseconds when = 0;
    void wait() const override {
      std::unique_lock lock(line->mutex);
      line->wanted = std::max(line->wanted, number);
      line->changed.notify_all();
      line->changed.wait(lock, [&] { return line->done >= number || line->ended; });
    }
    Nanoseconds time() const override {
      wait();
      return when;
    }
  };

  static std::string digest(const at::Tensor& tensor) {
    Hasher hasher;
    hasher.add({static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
    return hasher.digest();
  }

  Moment push(std::function<void()> what) {
    auto state = std::make_shared<State>();
    state->line = line_;
    state->when = now();
    const std::lock_guard lock(line_->mutex);
    state->number = ++line_->pushed;
    line_->copies.push_back(std::move(what));
    return Moment(std::shared_ptr<const Moment::State>(std::move(state)));
  }

  void copy() {
    std::unique_lock lock(line_->mutex);
    for (;;) {
      line_->changed.wait(lock, [&] { return line_->ended || line_->done < line_->wanted; });
      if (line_->ended) return;
      const auto what = std::move(line_->copies.front());
      line_->copies.pop_front();
      lock.unlock();
      what();
      lock.lock();
      ++line_->done;
      line_->changed.notify_all();
    }
  }

  std::shared_ptr<Line> line_ = std::make_shared<Line>();
  std::atomic<int> faults_ = 0;
  int pinned_ = 0;
  std::thread copier_;  // last: it uses the others
};

}  // namespace ddl
