#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <c10/core/GradMode.h>

#include "ddl/core/error.h"
#include "ddl/core/hash.h"
#include "ddl/train/device.h"

namespace ddl {

/// For tests: a device as far from the host as a GPU, of CPU tensors. A thread of its own does the copies, in order, each as late as may be:
/// not before somebody waits for it or for something after it. Until then a download's target holds garbage (NaNs), and its source is not
/// read: whoever forgets to wait, or writes over a source too early, computes nonsense every time. The source of an upload from pinned memory is looked at again
/// then, and faults() counts those that had changed.
///
/// Work that was recorded is done again by calling it again: what it made is garbage (NaNs) until then. So whatever the host puts into it at its
/// recording, and nowhere that stays, is as old in each launch as it would be in a GPU's. faults() counts milestones that are waited for and were not passed by a launch
/// of one's own.
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
  std::string pin(std::span<std::byte> memory) override {
    const std::lock_guard lock(pinned_mutex_);
    pinned_[memory.data()] = memory.size();
    return {};
  }
  void unpin(std::span<std::byte> memory) noexcept override {
    synchronize();
    {
      const std::lock_guard lock(uploads_mutex_);
      for (const auto& upload : uploads_) upload->wait();
      uploads_.clear();
    }
    const std::lock_guard lock(pinned_mutex_);
    pinned_.erase(memory.data());
  }

  at::Tensor upload(const at::Tensor& host) override {
    look_again_if_pinned(host);
    return host.clone();
  }
  void upload_into(at::Tensor& to, const at::Tensor& host) override {
    to.copy_(host);
    look_again(host);
  }
  void refill(at::Tensor& to, const at::Tensor& host) override {
    look_again_if_pinned(host);
    to.copy_(host);
  }
  /// In a line of its own, and as late as may be: what was in `to` is lost at once, and what is to come there comes when somebody follows, or waits for, its end, or unpins. faults() counts a source that has changed
  /// by then, and tensors that are not free: whose last upload was followed after `free`.
  std::pair<Moment, Moment> upload_beside(at::Tensor& to, const at::Tensor& host, const Moment& free) override {
    const auto* const since = dynamic_cast<const State*>(free.state());
    const auto followed = followed_.find(to.const_data_ptr());
    if (since == nullptr || (followed != followed_.end() && since->number <= followed->second)) ++faults_;
    ++beside_;
    std::memset(to.data_ptr(), 0xff, to.nbytes());
    auto upload = std::make_shared<Upload>();
    upload->to = to;
    upload->host = is_pinned(host) ? host : host.clone();  // which has been read
    upload->before = digest(host);
    upload->faults = &faults_;
    const std::lock_guard lock(uploads_mutex_);
    if (!uploads_.empty()) upload->previous = uploads_.back();
    uploads_.push_back(upload);
    return {Moment(now()), Moment(std::shared_ptr<const Moment::State>(std::move(upload)))};
  }
  void follow(const Moment& moment) override {
    const auto* const upload = dynamic_cast<const Upload*>(moment.state());
    moment.wait();
    if (upload == nullptr) return;
    const std::scoped_lock lock(uploads_mutex_, line_->mutex);
    const auto last = std::find_if(uploads_.begin(), uploads_.end(), [&](const auto& each) { return each.get() == upload; });
    if (last == uploads_.end()) return;
    for (auto each = uploads_.begin(); each <= last; ++each) followed_[(*each)->to.const_data_ptr()] = line_->pushed;
    uploads_.erase(uploads_.begin(), last + 1);
  }
  std::string why_no_graphs() const override { return {}; }

  /// Tensors that work writes over, which recording it must leave as they are: running statistics.
  void keeps(std::vector<at::Tensor> tensors) { kept_ = std::move(tensors); }
  /// The recording after so many others fails once its work is done.
  void fail_recording(int after) { fails_in_ = after; }
  int launches() const { return launches_; }

  std::unique_ptr<DeviceGraph> record(const DeviceGraph::Work& work, const DeviceGraph*) override { return std::make_unique<Graph>(*this, work); }
  Milestone milestone() override {
    if (graph_ == nullptr) throw Error(Code::unsupported, "[delayed] a milestone is of work that is recorded");
    return graph_->milestone();
  }
  Moment download_after(at::Tensor host, const at::Tensor& from, const Milestone& milestone) override {
    auto& passed = dynamic_cast<Passed&>(*milestone.state());
    if (!passed.fresh) ++faults_;
    passed.fresh = false;
    // As it was there, from the second time on.
    const auto then = std::exchange(passed.then, {});
    passed.watched = from;
    return download(std::move(host), then.defined() ? then : from);
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
  int pinned() const {
    const std::lock_guard lock(pinned_mutex_);
    return static_cast<int>(pinned_.size());
  }
  int read_in_place() const { return read_in_place_; }
  int uploads_beside() const { return beside_; }

 private:
  struct Passed final : Milestone::State {
    bool fresh = false;        ///< by a launch after the last download that waited for it
    at::Tensor watched, then;  ///< what downloads that waited for it take, and what was in it when the last launch came by
  };
  class Graph final : public DeviceGraph {
   public:
    Graph(DelayedDevice& device, Work work) : device_(device), work_(std::move(work)) {
      std::vector<at::Tensor> before;
      for (const auto& tensor : device_.kept_) before.push_back(tensor.clone());
      made_ = run();
      for (std::size_t i = 0; i < before.size(); ++i) device_.kept_[i].variable_data().copy_(before[i]);
      for (auto& tensor : made_) std::memset(tensor.data_ptr(), 0xff, tensor.nbytes());
      if (device_.fails_in_-- == 0) throw Error(Code::unsupported, "[delayed] this cannot be recorded");
    }
    void launch() override {
      ++device_.launches_;
      const auto again = run();
      const c10::NoGradGuard guard;
      for (std::size_t i = 0; i < made_.size(); ++i) made_[i].variable_data().copy_(again.at(i));
    }
    const std::vector<at::Tensor>& made() const override { return made_; }

    /// Of the first run, and of others the same in their order.
    Milestone milestone() {
      if (!recorded_) milestones_.emplace_back(std::make_shared<Passed>());
      auto& found = milestones_.at(next_++);
      auto& passed = dynamic_cast<Passed&>(*found.state());
      passed.fresh = recorded_;
      if (recorded_ && passed.watched.defined()) passed.then = passed.watched.clone();
      return found;
    }

   private:
    std::vector<at::Tensor> run() {
      next_ = 0;
      const struct Running {
        Graph*& place;
        ~Running() { place = nullptr; }
      } running{device_.graph_ = this};
      auto made = work_();
      recorded_ = true;
      return made;
    }

    DelayedDevice& device_;
    Work work_;
    std::vector<at::Tensor> made_;
    std::vector<Milestone> milestones_;
    std::size_t next_ = 0;
    bool recorded_ = false;
  };

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

  struct Upload final : Moment::State {
    at::Tensor to, host;
    std::string before;
    std::atomic<int>* faults = nullptr;
    std::shared_ptr<const Upload> previous;  ///< they go one after the other
    mutable std::mutex mutex;
    mutable Nanoseconds when = 0;  ///< 0: not yet
    void wait() const override {
      const std::lock_guard lock(mutex);
      if (when != 0) return;
      if (previous) previous->wait();
      *faults += digest(host) == before ? 0 : 1;
      to.variable_data().copy_(host);
      when = now();
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

  void look_again(const at::Tensor& host) {
    push([this, host, before = digest(host)] { faults_ += digest(host) == before ? 0 : 1; });
  }
  bool is_pinned(const at::Tensor& host) const {
    const std::lock_guard lock(pinned_mutex_);
    const auto* const at = static_cast<const std::byte*>(host.const_data_ptr());
    const auto after = pinned_.upper_bound(at);
    if (after == pinned_.begin()) return false;
    const auto& [begin, bytes] = *std::prev(after);
    return at + host.nbytes() <= begin + bytes;
  }
  void look_again_if_pinned(const at::Tensor& host) {
    if (!is_pinned(host)) return;
    ++read_in_place_;
    look_again(host);
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
  mutable std::mutex pinned_mutex_;
  std::map<const std::byte*, std::size_t> pinned_;  ///< where they begin, and their bytes
  std::atomic<int> read_in_place_ = 0;              ///< uploads from such memory
  std::vector<at::Tensor> kept_;
  Graph* graph_ = nullptr;  ///< that runs
  std::mutex uploads_mutex_;
  std::vector<std::shared_ptr<Upload>> uploads_;
  std::map<const void*, std::int64_t> followed_;  ///< by where an upload goes: what had been queued when it was last followed
  int beside_ = 0;
  int fails_in_ = -1;
  int launches_ = 0;
  std::thread copier_;  // last: it uses the others
};

}  // namespace ddl
