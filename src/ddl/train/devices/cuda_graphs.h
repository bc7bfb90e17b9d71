#pragma once

#include <memory>

namespace ddl {

/// What libddl_cuda_graphs.so offers: one of CUDA's graphs, of the work that is queued on the calling thread's current stream between begin() and end().
/// Of our own, since LibTorch's interface for graphs of any device (ATen/core/GraphImplInterface.h, from 2.12 on) does not know of CUDA's.
class CudaCapture {
 public:
  virtual ~CudaCapture() = default;
  CudaCapture(const CudaCapture&) = delete;
  CudaCapture& operator=(const CudaCapture&) = delete;

  /// Memory that is asked for meanwhile comes from a pool that stays for as long as a graph uses it: that of `beside`, which has ended, where it is not null.
  /// Errors: c10::Error.
  virtual void begin(const CudaCapture* beside) = 0;
  /// Errors: c10::Error where something cannot be part of a graph; none of it has been done then.
  virtual void end() = 0;
  /// Queues it on the current stream. Errors: c10::Error.
  virtual void launch() = 0;

 protected:
  CudaCapture() = default;
};

/// The module's one function, by this name.
inline constexpr const char* kMakeCudaCapture = "ddl_make_cuda_capture";
using MakeCudaCapture = CudaCapture*();

}  // namespace ddl
