// CUDA's graphs by LibTorch's own class. A module, since CUDA's headers and libraries are wanted here: the program itself has neither.
#include <exception>

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/version.h>

#include "ddl/train/devices/cuda_graphs.h"

// The class is laid out by CUDA's version: these headers' must be as LibTorch's own, which no longer is built for an older one.
static_assert(CUDA_VERSION >= 12040, "CUDA headers older than those that LibTorch was built with");

namespace ddl {
namespace {

class Capture final : public CudaCapture {
 public:
  void begin(const CudaCapture* beside) override {
    pool_ = beside == nullptr ? at::cuda::graph_pool_handle() : static_cast<const Capture*>(beside)->pool_;
    try {
      // Other threads of this process, loaders and communicators, go on as they do: none of them waits for the whole device or, meanwhile, for this stream, which would end a capture in any mode.
      graph_.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
    } catch (...) {
      let_pool_go();
      throw;
    }
  }
  void end() override {
    try {
      graph_.capture_end();
    } catch (...) {
      let_pool_go();
      throw;
    }
  }
  void launch() override { graph_.replay(); }

 private:
  /// Of a capture that CUDA gave up LibTorch's graph forgets, up to 2.13, that it holds a pool (pytorch#190348): the memory would be the pool's for as long as the process lives.
  void let_pool_go() noexcept {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR <= 13
    try {
      graph_.pool();
      return;  // it was captured, and only then failed: the graph gives its pool back itself
    } catch (const std::exception&) {
      // It does not know of one.
    }
    const auto device = c10::cuda::current_device();
    auto* const pinned = at::getHostAllocator(at::kCUDA);
    const auto each = [](const auto& undo) {
      try {
        undo();
      } catch (const std::exception&) {
        // It had been undone before the error was found, or never was done.
      }
    };
    each([&] { c10::cuda::CUDACachingAllocator::endAllocateToPool(device, pool_); });
    each([&] { pinned->end_allocate_to_pool(pool_); });
    each([&] { c10::cuda::CUDACachingAllocator::releasePool(device, pool_); });
    each([&] { pinned->release_pool(pool_); });
#endif
  }

  at::cuda::CUDAGraph graph_;
  at::MempoolId_t pool_{0, 0};
};

}  // namespace
}  // namespace ddl

extern "C" __attribute__((visibility("default"))) ddl::CudaCapture* ddl_make_cuda_capture() { return new ddl::Capture; }
