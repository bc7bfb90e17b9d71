#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <ATen/ATen.h>

#include "ddl/core/json.h"
#include "ddl/core/registry.h"
#include "ddl/measure/clock.h"
#include "ddl/train/device_graph.h"
#include "ddl/train/device_memory.h"

namespace ddl {

/// A point in the order of a device's work: it has passed once everything before it is done. Copies refer to the same one.
/// Threads: any.
class Moment {
 public:
  struct State {
    virtual ~State() = default;
    virtual void wait() const = 0;
    virtual Nanoseconds time() const = 0;
  };
  /// One that has passed, at `time` of now().
  explicit Moment(Nanoseconds time = 0) : time_(time) {}
  explicit Moment(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  /// Whether it had passed when it was made: on a device that works at once.
  bool immediate() const { return state_ == nullptr; }
  /// Blocks until it has passed. Errors: those of the device's work before it, as LibTorch reports them.
  void wait() const {
    if (state_) state_->wait();
  }
  /// When it passed, on the clock of now(). Waits for it.
  Nanoseconds time() const { return state_ ? state_->time() : time_; }
  /// What the device that made it keeps of it; null of one that is immediate.
  const State* state() const { return state_.get(); }

 private:
  std::shared_ptr<const State> state_;
  Nanoseconds time_ = 0;
};

/// Where a worker computes, and how data gets there and back.
///
/// Work is queued and done in order on one compute stream; copies back run beside it on a copy stream, each after what was queued
/// for computation before it. On the processor work is done when a call returns, and its memory is the host's: uploads give the tensor
/// itself, moments have passed. The executor is written for the former and costs the latter nothing.
///
/// Threads: one worker's, and those of autograd while it waits for them. Workers may share a device, each with an object of its own.
/// Errors: c10::OutOfMemoryError or std::bad_alloc where memory lacks; c10::Error for what LibTorch finds wrong.
class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual std::string name() const = 0;   ///< "cpu", "cuda:1"
  virtual at::Device where() const = 0;   ///< of its tensors
  /// Whether its memory is the host's and its work is done when a call returns.
  virtual bool is_host() const = 0;

  /// Lets the device read and write this host memory by itself, until unpin(): copies then need not pass through other memory.
  /// Returns why it cannot, and then copies work all the same, slower; empty if it can.
  virtual std::string pin(std::span<std::byte> memory) = 0;
  /// Before the memory goes. Waits until nothing is on its way into it.
  virtual void unpin(std::span<std::byte> memory) noexcept = 0;

  /// A tensor on the device, in order with computation. `host` is dense, of any type, and has been read on return, unless it lies in pinned memory:
  /// that stays as it is until a moment taken later has passed.
  virtual at::Tensor upload(const at::Tensor& host) = 0;
  /// The same into a dense tensor of the device, of the same type and number of elements. `host`, pinned memory at best, stays as it is
  /// until a moment taken later has passed.
  virtual void upload_into(at::Tensor& to, const at::Tensor& host) = 0;
  /// The same, of a `host` as upload() takes it.
  virtual void refill(at::Tensor& to, const at::Tensor& host) = 0;
  /// As refill(), beside computation where the device can, from `free` on: what was queued before that moment is all that reads or writes `to`. Returns the moments between which it
  /// happens; what is computed with `to` is queued after follow() of the second, and until that has passed `host` stays as it is.
  virtual std::pair<Moment, Moment> upload_beside(at::Tensor& to, const at::Tensor& host, const Moment& free);
  /// What is queued for computation from now on begins once that moment of this device's has passed.
  virtual void follow(const Moment& moment);
  /// Copies a dense tensor of the device into a dense one of the host, of the same type and number of elements, beside computation. `host` is
  /// for nobody to read or write, and `from` to stay as it is, until the moment has passed.
  virtual Moment download(at::Tensor host, const at::Tensor& from) = 0;

  /// Why work cannot be recorded here; empty where it can.
  virtual std::string why_no_graphs() const = 0;
  /// Records what `work` queues for computation, without doing it; the host's own part of `work` is done. Work waits for nothing, takes no time (mark()),
  /// and copies nothing from or to the host. Memory that it lets go stays the graph's. `beside`: a graph that shares its memory, both of which are then
  /// launched in the order in which they were recorded. Errors: unsupported, or c10::Error where something in it cannot be recorded.
  virtual std::unique_ptr<DeviceGraph> record(const DeviceGraph::Work& work, const DeviceGraph* beside = nullptr);
  /// Here in the work that is being recorded.
  virtual Milestone milestone();
  /// As download(), of what is in `from` when the last launch passes the milestone: beside what comes after that in the graph.
  virtual Moment download_after(at::Tensor host, const at::Tensor& from, const Milestone& milestone);

  /// The present end of what was queued for computation.
  virtual Moment mark() = 0;
  /// Waits until nothing is queued. Called before each step: a device with a clock of its own then compares it with the host's.
  virtual void synchronize() = 0;

  virtual DeviceMemory memory() const = 0;
  virtual void reset_peak() = 0;

  /// For records: product, and what a reader of a measurement should know of it.
  virtual Json describe() const = 0;

 protected:
  Device() = default;
};

/// What a device reads of a job.
struct DeviceOptions {
  bool tf32 = false;   ///< fp32 is multiplied in TF32, on tensor cores: 10 bits of mantissa
  bool graphs = false; ///< work is to be recorded (Device::record()): it is queued on a stream of the worker's own
  bool tunes = false;  ///< cuDNN times its ways of a convolution when it first meets it, and takes the fastest; else by its own guess
};

/// One kind: of `cuda:1` the maker is given 1. It makes the device the calling thread's own. Errors: unsupported.
using DeviceFactory = std::function<std::unique_ptr<Device>(int index, const DeviceOptions& options)>;

/// cpu, cuda, and the processor for emulated ones. `missing` of an entry says why this build or machine has none of the kind.
Registry<DeviceFactory> builtin_devices();

/// By the name that jobs have for it: `cpu`, `cuda:1`. Errors: those of require_device().
std::unique_ptr<Device> make_device(const std::string& name, const DeviceOptions& options = {});

/// A copy on the host, once what was queued before is done; of a dense tensor in the order in which it lies. Where the device is the host a dense tensor is given as it is.
at::Tensor fetch(Device& device, const at::Tensor& from);

std::unique_ptr<Device> cpu_device(int index, const DeviceOptions& options);
/// The processor under an emulated device's name: its tensors are there, its computation is replayed (emulation/replay.h).
std::unique_ptr<Device> emulated_device(const std::string& name);
std::unique_ptr<Device> cuda_device(int index, const DeviceOptions& options);

}  // namespace ddl
