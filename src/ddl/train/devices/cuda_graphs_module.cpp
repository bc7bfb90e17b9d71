// CUDA's graphs as what LibTorch has for any device's: it declares that interface (ATen/core/GraphImplInterface.h), and has graphs of CUDA, but in
// 2.13 the two do not know of each other. A module, since CUDA's headers and libraries are wanted here: the program itself has neither.
#include <ATen/core/GraphImplInterface.h>
#include <ATen/cuda/CUDAGraph.h>

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

  void capture_begin(at::MempoolId_t pool, at::GraphCaptureMode mode) override { graph_.capture_begin(pool, of(mode)); }
  void capture_end() override {
    graph_.capture_end();
    captured_ = true;
  }
  void instantiate() override { graph_.instantiate(); }
  void replay() override { graph_.replay(); }
  void reset() override { graph_.reset(); }
  at::MempoolId_t pool() const override {
    TORCH_CHECK(captured_, "a graph has a pool once it is captured");
    return graph_.pool();
  }
  void enable_debug_mode() override { graph_.enable_debug_mode(); }
  void debug_dump(const std::string& path) override { graph_.debug_dump(path); }

 private:
  mutable at::cuda::CUDAGraph graph_;  // whose pool() is not const
  bool captured_ = false;
};

}  // namespace

namespace at {
REGISTER_GRAPH_IMPL(CUDA, CudaGraphs)
}  // namespace at
