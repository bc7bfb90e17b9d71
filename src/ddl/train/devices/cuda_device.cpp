// CUDA through what LibTorch offers for any kind of device, which its CPU build has headers and symbols for, too: this file compiles
// the same against both.
#include <dlfcn.h>

#include <mutex>

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "ddl/core/error.h"
#include "ddl/measure/gpus.h"
#include "ddl/train/device.h"
#include "ddl/train/devices/cuda_library.h"

namespace ddl {
namespace {

/// CUDA's own functions that LibTorch has no name for, from the runtime that it loaded.
template <typename... Arguments>
int call_runtime(const char* function, Arguments... arguments) {
  constexpr int kNotFound = 500;  // cudaErrorSymbolNotFound
  auto* const found = reinterpret_cast<int (*)(Arguments...)>(::dlsym(RTLD_DEFAULT, function));
  return found == nullptr ? kNotFound : found(arguments...);
}

std::string describe_error(int error) {
  auto* const found = reinterpret_cast<const char* (*)(int)>(::dlsym(RTLD_DEFAULT, "cudaGetErrorString"));
  return found == nullptr ? fmt::format("error {}", error) : found(error);
}

void require_runtime(int error, const char* what) {
  if (error == 0) return;
  call_runtime("cudaGetLastError");  // it is told here: not for LibTorch to stumble over
  throw Error(Code::unsupported, fmt::format("[cuda] {} failed: {}", what, describe_error(error)));
}

/// An event that launches of a graph record, not its recording.
class CudaMilestone final : public Milestone::State {
 public:
  explicit CudaMilestone(const c10::Stream& stream) {
    constexpr unsigned kNoTime = 2, kExternal = 1;  // cudaEventDisableTiming, cudaEventRecordExternal
    require_runtime(call_runtime("cudaEventCreateWithFlags", &event_, kNoTime), "making an event");
    const int recorded = call_runtime("cudaEventRecordWithFlags", event_, stream.native_handle(), kExternal);
    if (recorded != 0) call_runtime("cudaEventDestroy", event_);
    require_runtime(recorded, "recording an event in a graph");
  }
  CudaMilestone(const CudaMilestone&) = delete;
  CudaMilestone& operator=(const CudaMilestone&) = delete;
  ~CudaMilestone() override { call_runtime("cudaEventDestroy", event_); }
  /// What is queued on the stream from now on begins after the last launch has passed it.
  void hold(const c10::Stream& stream) const { require_runtime(call_runtime("cudaStreamWaitEvent", stream.native_handle(), event_, 0U), "waiting for an event of a graph"); }

 private:
  void* event_ = nullptr;
};

class CudaGraph final : public DeviceGraph {
 public:
  CudaGraph(const c10::Stream& stream, const Work& work, const CudaGraph* beside) : stream_(stream), graph_(make_cuda_capture()) {
    const c10::StreamGuard on(stream_);
    graph_->begin(beside == nullptr ? nullptr : beside->graph_.get());
    try {
      made_ = work();
    } catch (...) {
      try {
        graph_->end();
      } catch (const std::exception&) {
        // What went wrong first is told.
      }
      forget_errors();
      throw;
    }
    try {
      graph_->end();
    } catch (...) {
      forget_errors();
      throw;
    }
  }
  void launch() override {
    const c10::StreamGuard on(stream_);
    graph_->launch();
  }
  const std::vector<at::Tensor>& made() const override { return made_; }

 private:
  /// CUDA keeps the last error of each thread, this one's and that of autograd's, until somebody asks; what fails to ask finds it later, in work that has nothing to do with it.
  void forget_errors() noexcept {
    for (int each = 0; each < 2; ++each) {
      call_runtime("cudaGetLastError");
      try {
        const auto x = at::ones({1}, at::TensorOptions(stream_.device())).requires_grad_(true);
        x.mul(2).sum().backward();  // whose kernels' checks clear it
      } catch (const std::exception&) {
        // That was the error.
      }
    }
  }

  c10::Stream stream_;
  std::unique_ptr<CudaCapture> graph_;
  std::vector<at::Tensor> made_;
};

/// An event whose time on the host's clock is known: what the times of others are counted from.
struct Anchor {
  c10::Event event{at::kCUDA, c10::EventFlag::BACKEND_DEFAULT};
  Nanoseconds time = 0;
};

class CudaMoment final : public Moment::State {
 public:
  CudaMoment(const c10::Stream& stream, std::shared_ptr<const Anchor> anchor) : anchor_(std::move(anchor)) { event_.record(stream); }
  void wait() const override { event_.synchronize(); }
  /// What is queued on that stream from now on begins once it has passed.
  void hold(const c10::Stream& stream) const { event_.block(stream); }
  Nanoseconds time() const override {
    event_.synchronize();
    return anchor_->time + static_cast<Nanoseconds>(anchor_->event.elapsedTime(event_) * 1e6);
  }

 private:
  std::shared_ptr<const Anchor> anchor_;
  c10::Event event_{at::kCUDA, c10::EventFlag::BACKEND_DEFAULT};  // that is, one that keeps the time
};

class CudaDevice final : public Device {
 public:
  CudaDevice(int index, const DeviceOptions& options)
      : where_(at::kCUDA, static_cast<c10::DeviceIndex>(index)), guard_(at::kCUDA), tf32_(options.tf32), compute_(c10::Stream::DEFAULT, where_), copies_(c10::Stream::DEFAULT, where_), uploads_(c10::Stream::DEFAULT, where_) {
    at::globalContext().lazyInitDevice(at::kCUDA);
    guard_.setDevice(where_);
    // fp32 is fp32 unless asked otherwise: cuDNN's convolutions would take TF32 by themselves.
    at::globalContext().setAllowTF32CuBLAS(tf32_);
    at::globalContext().setAllowTF32CuDNN(tf32_);
    at::globalContext().setBenchmarkCuDNN(options.tunes);
    copies_ = guard_.getStreamFromGlobalPool(where_, true);
    uploads_ = guard_.getStreamFromGlobalPool(where_, true);
    why_no_graphs_ = options.graphs ? load_cuda_graphs() : "they were not asked for";
    for (const auto* const function : {"cudaEventCreateWithFlags", "cudaEventRecordWithFlags", "cudaStreamWaitEvent", "cudaEventDestroy"})
      if (why_no_graphs_.empty() && ::dlsym(RTLD_DEFAULT, function) == nullptr) why_no_graphs_ = fmt::format("the CUDA runtime that LibTorch loaded shows no {}", function);
    // What is recorded must not be on the default stream; nor may what autograd ties to it, which remembers the stream that it was made on.
    if (why_no_graphs_.empty()) compute_ = guard_.getStreamFromGlobalPool(where_, false);
    guard_.exchangeStream(compute_);
    set_anchor();
  }

  std::string name() const override { return fmt::format("cuda:{}", where_.index()); }
  at::Device where() const override { return where_; }
  bool is_host() const override { return false; }

  std::string pin(std::span<std::byte> memory) override {
    constexpr unsigned kPortable = 1;  // cudaHostRegisterPortable: for threads on whatever device
    if (memory.empty()) return {};
    try {
      guard_.setDevice(where_);  // of this thread, whichever it is: the runtime would take the first GPU
    } catch (const std::exception& error) {
      return error.what();
    }
    const int error = call_runtime("cudaHostRegister", static_cast<void*>(memory.data()), memory.size(), kPortable);
    if (error == 0) return {};
    call_runtime("cudaGetLastError");  // what is known now is not for LibTorch to stumble over
    const std::lock_guard lock(told_);
    return not_pinned_ = fmt::format("memory of the host is not pinned, so that copies do not run beside computation: {}", describe_error(error));
  }

  void unpin(std::span<std::byte> memory) noexcept override {
    // A loader's thread may call this at any time, and waiting for a stream that is recorded ends its recording.
    const std::lock_guard lock(recording_);
    try {
      finish();
    } catch (const std::exception&) {
      // The device is broken, and whoever used it has been told.
    }
    // Memory that never was pinned is refused, which does no harm.
    call_runtime("cudaHostUnregister", static_cast<void*>(memory.data()));
    call_runtime("cudaGetLastError");
  }

  /// What is not pinned goes through memory that is and that LibTorch keeps until the copy is over.
  at::Tensor upload(const at::Tensor& host) override {
    if (host.numel() == 0) return at::empty_like(host, host.options().device(where_));
    return host.pin_memory().to(where_, true);
  }

  void upload_into(at::Tensor& to, const at::Tensor& host) override { to.copy_(host, true); }

  void refill(at::Tensor& to, const at::Tensor& host) override {
    if (host.numel() > 0) to.copy_(host.pin_memory(), true);
  }

  std::pair<Moment, Moment> upload_beside(at::Tensor& to, const at::Tensor& host, const Moment& free) override {
    const auto pinned = host.pin_memory();
    if (const auto* const passes = dynamic_cast<const CudaMoment*>(free.state())) passes->hold(uploads_);
    Moment begin(std::make_shared<CudaMoment>(uploads_, anchor_));
    {
      const c10::StreamGuard beside(uploads_);
      to.copy_(pinned, true);
    }
    if (to.numel() > 0) guard_.recordDataPtrOnStream(to.storage().data_ptr(), uploads_);
    return {std::move(begin), Moment(std::make_shared<CudaMoment>(uploads_, anchor_))};
  }

  void follow(const Moment& moment) override {
    if (const auto* const passes = dynamic_cast<const CudaMoment*>(moment.state())) passes->hold(compute_);
  }

  Moment download(at::Tensor host, const at::Tensor& from) override {
    c10::Event computed(at::kCUDA);
    computed.record(compute_);
    computed.block(copies_);
    return copy_back(std::move(host), from);
  }

  std::string why_no_graphs() const override { return why_no_graphs_; }
  std::unique_ptr<DeviceGraph> record(const DeviceGraph::Work& work, const DeviceGraph* beside) override {
    if (!why_no_graphs_.empty()) return Device::record(work, beside);
    const std::lock_guard lock(recording_);
    // What earlier steps' activations left in the allocator's cache no graph's pool takes, and while one is recorded it cannot be given back.
    finish();
    if (beside == nullptr) at::getDeviceAllocator(at::kCUDA)->emptyCache();
    return std::make_unique<CudaGraph>(compute_, work, dynamic_cast<const CudaGraph*>(beside));
  }
  Milestone milestone() override { return Milestone(std::make_shared<CudaMilestone>(compute_)); }
  Moment download_after(at::Tensor host, const at::Tensor& from, const Milestone& milestone) override {
    dynamic_cast<const CudaMilestone&>(*milestone.state()).hold(copies_);
    return copy_back(std::move(host), from);
  }

  Moment mark() override { return Moment(std::make_shared<CudaMoment>(compute_, anchor_)); }

  void synchronize() override {
    // Elapsed times are floats of milliseconds: after a second they are good to 0.1 us, after a quarter of an hour to 60.
    constexpr Nanoseconds kOften = 1'000'000'000;
    finish_steps();
    if (now() - anchor_->time > kOften) set_anchor();
  }

  DeviceMemory memory() const override {
    const auto bytes = at::getDeviceAllocator(at::kCUDA)->getDeviceStats(where_.index()).allocated_bytes[0];  // of all pools; not what a graph's keeps between its launches
    return {bytes.current, bytes.peak, 0};
  }
  void reset_peak() override { at::getDeviceAllocator(at::kCUDA)->resetPeakStats(where_.index()); }

  Json describe() const override {
    const std::lock_guard lock(told_);
    const auto& gpu = known_gpus().all.at(static_cast<std::size_t>(where_.index()));
    return {{"product", gpu.product},
            {"memory_bytes", gpu.memory.value},
            {"reserved_peak_bytes", at::getDeviceAllocator(at::kCUDA)->getDeviceStats(where_.index()).reserved_bytes[0].peak},
            {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
            {"driver", known_gpus().driver},
            {"tf32", tf32_},
            {"graphs", why_no_graphs_.empty() ? Json(true) : Json(why_no_graphs_)},
            {"limits", not_pinned_.empty() ? Json::array() : Json{not_pinned_}}};
  }

 private:
  /// Waits for its own streams, not for the device: other workers of the process may be recording there.
  void finish() const {
    finish_steps();
    guard_.synchronizeStream(uploads_);
  }
  /// The next step's batch may still be on its way.
  void finish_steps() const {
    guard_.synchronizeStream(compute_);
    guard_.synchronizeStream(copies_);
  }

  /// On the copy stream, after what it waits for.
  Moment copy_back(at::Tensor host, const at::Tensor& from) {
    {
      const c10::StreamGuard beside(copies_);
      host.copy_(from, true);
    }
    if (from.numel() > 0) guard_.recordDataPtrOnStream(from.storage().data_ptr(), copies_);
    return Moment(std::make_shared<CudaMoment>(copies_, anchor_));
  }

  /// With nothing queued an event passes as soon as it is recorded.
  void set_anchor() {
    finish_steps();
    auto anchor = std::make_shared<Anchor>();
    const auto before = now();
    anchor->event.record(compute_);
    anchor->event.synchronize();
    anchor->time = before + (now() - before) / 2;
    anchor_ = std::move(anchor);
  }

  at::Device where_;
  c10::impl::VirtualGuardImpl guard_;
  bool tf32_;
  c10::Stream compute_;  ///< the current one of the thread that made this
  c10::Stream copies_;   ///< to the host
  c10::Stream uploads_;  ///< beside computation
  std::string why_no_graphs_;
  std::shared_ptr<const Anchor> anchor_;
  std::mutex recording_;
  mutable std::mutex told_;
  std::string not_pinned_;
};

}  // namespace

std::unique_ptr<Device> cuda_device(int index, const DeviceOptions& options) {
  load_cuda_library();
  // What it says of CUDA it looks up once, at the latest when backward first runs, as autograd does what devices there are.
  if (!at::detail::getCUDAHooks().isBuilt())
    throw Error(Code::unsupported, "[cuda] unsupported: this process has trained on cpu before CUDA was loaded, and LibTorch remembers that there was none");
  return std::make_unique<CudaDevice>(index, options);
}

}  // namespace ddl
