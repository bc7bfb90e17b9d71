// CUDA's graphs as what LibTorch has for any device's: it declares that interface (ATen/core/GraphImplInterface.h), and has graphs of CUDA, but in
// 2.13 the two do not know of each other. A module, since CUDA's headers and libraries are wanted here: the program itself has neither.
#include <exception>

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/GraphImplInterface.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/version.h>

// The class is laid out by CUDA's version: these headers' must be as LibTorch's own, which no longer is built for an older one.
static_assert(CUDA_VERSION >= 12040, "CUDA headers older than those that LibTorch was built with");

namespace {

cudaStreamCaptureMode of(at::GraphCaptureMode mode) {
  switch (mode) {
    case at::GraphCaptureMode::ThreadLocal: return cudaStreamCaptureModeThreadLocal;
    case at::GraphCaptureMode::Relaxed: return cudaStreamCaptureModeRelaxed;
    default: return cudaStreamCaptureModeGlobal;
  }
}

class CudaGraphs final : public at::GraphImplInterface {
 public:
  explicit CudaGraphs(const at::GraphImplArgs& given) : graph_(given.keep_graph) {}

  void capture_begin(at::MempoolId_t pool, at::GraphCaptureMode mode) override {
    pool_ = pool.first == 0 && pool.second == 0 ? at::cuda::graph_pool_handle() : pool;
    try {
      graph_.capture_begin(pool_, of(mode));
    } catch (...) {
      let_pool_go();
      throw;
    }
  }
  void capture_end() override {
    try {
      graph_.capture_end();
    } catch (...) {
      let_pool_go();
      throw;
    }
    captured_ = true;
  }
  void instantiate() override { graph_.instantiate(); }
  void replay() override { graph_.replay(); }
  void reset() override { graph_.reset(); }
  at::MempoolId_t pool() const override {
    TORCH_CHECK(captured_, "a graph has a pool once it is captured");
    return pool_;
  }
  void enable_debug_mode() override { graph_.enable_debug_mode(); }
  void debug_dump(const std::string& path) override { graph_.debug_dump(path); }

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
  bool captured_ = false;
};

}  // namespace

namespace at {
REGISTER_GRAPH_IMPL(CUDA, CudaGraphs)
}  // namespace at
