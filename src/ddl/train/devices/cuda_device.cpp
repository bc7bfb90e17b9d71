// CUDA through what LibTorch offers for any kind of device, which its CPU build has headers and symbols for, too: this file compiles
// the same against both.
#include <dlfcn.h>

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

/// An event whose time on the host's clock is known: what the times of others are counted from.
struct Anchor {
  c10::Event event{at::kCUDA, c10::EventFlag::BACKEND_DEFAULT};
  Nanoseconds time = 0;
};

class CudaMoment final : public Moment::State {
 public:
  CudaMoment(const c10::Stream& stream, std::shared_ptr<const Anchor> anchor) : anchor_(std::move(anchor)) { event_.record(stream); }
  void wait() const override { event_.synchronize(); }
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
      : where_(at::kCUDA, static_cast<c10::DeviceIndex>(index)), guard_(at::kCUDA), tf32_(options.tf32), copies_(c10::Stream::DEFAULT, where_) {
    at::globalContext().lazyInitDevice(at::kCUDA);
    guard_.setDevice(where_);
    // fp32 is fp32 unless asked otherwise: cuDNN's convolutions would take TF32 by themselves.
    at::globalContext().setAllowTF32CuBLAS(tf32_);
    at::globalContext().setAllowTF32CuDNN(tf32_);
    at::globalContext().setBenchmarkCuDNN(options.tunes);
    copies_ = guard_.getStreamFromGlobalPool(where_, true);
    set_anchor();
  }

  std::string name() const override { return fmt::format("cuda:{}", where_.index()); }
  at::Device where() const override { return where_; }
  bool is_host() const override { return false; }

  std::string pin(std::span<std::byte> memory) override {
    constexpr unsigned kPortable = 1;  // cudaHostRegisterPortable: for threads on whatever device
    if (memory.empty()) return {};
    const int error = call_runtime("cudaHostRegister", static_cast<void*>(memory.data()), memory.size(), kPortable);
    if (error == 0) return {};
    call_runtime("cudaGetLastError");  // what is known now is not for LibTorch to stumble over
    return not_pinned_ = fmt::format("the host's buckets are not pinned, so that copies do not run beside computation: {}", describe_error(error));
  }

  void unpin(std::span<std::byte> memory) noexcept override {
    try {
      guard_.synchronizeDevice(where_.index());
    } catch (const std::exception&) {
      // The device is broken, and whoever used it has been told.
    }
    // Memory that never was pinned is refused, which does no harm.
    call_runtime("cudaHostUnregister", static_cast<void*>(memory.data()));
    call_runtime("cudaGetLastError");
  }

  /// Through pinned memory that LibTorch keeps until the copy is over.
  at::Tensor upload(const at::Tensor& host) override {
    if (host.numel() == 0) return at::empty_like(host, host.options().device(where_));
    return host.pin_memory().to(where_, true);
  }

  void upload_into(at::Tensor& to, const at::Tensor& host) override { to.copy_(host, true); }

  Moment download(at::Tensor host, const at::Tensor& from) override {
    c10::Event computed(at::kCUDA);
    computed.record(guard_.getStream(where_));
    computed.block(copies_);
    {
      const c10::StreamGuard beside(copies_);
      host.copy_(from, true);
    }
    if (from.numel() > 0) guard_.recordDataPtrOnStream(from.storage().data_ptr(), copies_);
    return Moment(std::make_shared<CudaMoment>(copies_, anchor_));
  }

  Moment mark() override { return Moment(std::make_shared<CudaMoment>(guard_.getStream(where_), anchor_)); }

  void synchronize() override {
    // Elapsed times are floats of milliseconds: after a second they are good to 0.1 us, after a quarter of an hour to 60.
    constexpr Nanoseconds kOften = 1'000'000'000;
    guard_.synchronizeDevice(where_.index());
    if (now() - anchor_->time > kOften) set_anchor();
  }

  DeviceMemory memory() const override {
    const auto bytes = at::getDeviceAllocator(at::kCUDA)->getDeviceStats(where_.index()).allocated_bytes[0];  // of all pools
    return {bytes.current, bytes.peak, 0};
  }
  void reset_peak() override { at::getDeviceAllocator(at::kCUDA)->resetPeakStats(where_.index()); }

  Json describe() const override {
    const auto& gpu = known_gpus().all.at(static_cast<std::size_t>(where_.index()));
    return {{"product", gpu.product},
            {"memory_bytes", gpu.memory.value},
            {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
            {"driver", known_gpus().driver},
            {"tf32", tf32_},
            {"limits", not_pinned_.empty() ? Json::array() : Json{not_pinned_}}};
  }

 private:
  /// With nothing queued an event passes as soon as it is recorded.
  void set_anchor() {
    guard_.synchronizeDevice(where_.index());
    auto anchor = std::make_shared<Anchor>();
    const auto before = now();
    anchor->event.record(guard_.getStream(where_));
    anchor->event.synchronize();
    anchor->time = before + (now() - before) / 2;
    anchor_ = std::move(anchor);
  }

  at::Device where_;
  c10::impl::VirtualGuardImpl guard_;
  bool tf32_;
  c10::Stream copies_;
  std::shared_ptr<const Anchor> anchor_;
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
