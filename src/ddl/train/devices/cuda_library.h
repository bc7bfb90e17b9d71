#pragma once

#include <memory>
#include <string>

#include "ddl/train/devices/cuda_graphs.h"

namespace ddl {

/// The CUDA half of the LibTorch that this process runs on: libtorch_cuda.so, which the wheels with CUDA have beside libtorch_cpu.so. It is
/// not linked: loading it takes a second and hundreds of megabytes, which only workers on a GPU need pay.
/// Returns its path; empty where this LibTorch has none.
std::string cuda_library();

/// Loads it, once. To be called before LibTorch is asked for anything of CUDA, since it remembers a no. Does not initialise CUDA.
/// Errors: unsupported where there is none or it does not load, with the loader's reason.
void load_cuda_library();

/// Loads what makes CUDA's graphs, once; load_cuda_library() goes before. Returns why there are none; empty where there are.
std::string load_cuda_graphs();

/// Errors: unsupported where load_cuda_graphs() says why.
std::unique_ptr<CudaCapture> make_cuda_capture();

}  // namespace ddl
