#include "ddl/train/devices/cuda_library.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>

#include "ddl/core/error.h"
#include "ddl/core/modules.h"

namespace ddl {
namespace {

/// Where the loader found LibTorch.
std::filesystem::path torch_folder() {
  std::filesystem::path folder;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* found) {
        const std::filesystem::path file(info->dlpi_name);
        if (file.filename() == "libtorch_cpu.so") *static_cast<std::filesystem::path*>(found) = file.parent_path();
        return 0;
      },
      &folder);
  return folder;
}

struct GraphsMaker {
  MakeCudaCapture* make = nullptr;
  std::string why_not;  ///< empty where there is one
};

const GraphsMaker& graphs_maker() {
  static const GraphsMaker maker = []() -> GraphsMaker {
    const auto file = module_file("libddl_cuda_graphs.so");
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) return {nullptr, fmt::format("there is no {}, which is built where LibTorch has CUDA and all headers of its runtime are there", file.string())};
    auto* const module = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr) return {nullptr, fmt::format("their module does not load: {}", ::dlerror())};
    auto* const make = reinterpret_cast<MakeCudaCapture*>(::dlsym(module, kMakeCudaCapture));
    if (make == nullptr) return {nullptr, fmt::format("their module has no {}", kMakeCudaCapture)};
    return {make, {}};
  }();
  return maker;
}

}  // namespace

std::string cuda_library() {
  const auto folder = torch_folder();
  const auto file = folder / "libtorch_cuda.so";
  std::error_code ignored;
  return !folder.empty() && std::filesystem::exists(file, ignored) ? file.string() : std::string();
}

void load_cuda_library() {
  const auto file = cuda_library();
  if (file.empty()) throw Error(Code::unsupported, "[cuda] unsupported: this LibTorch has no CUDA; got one without libtorch_cuda.so, expected a wheel with CUDA");
  // Globally, as if it had been linked: its own parts look for each other's symbols.
  if (::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr)
    throw Error(Code::unsupported, fmt::format("[cuda] unsupported: the CUDA half of LibTorch does not load: {}", ::dlerror()));
}

std::string load_cuda_graphs() { return graphs_maker().why_not; }

std::unique_ptr<CudaCapture> make_cuda_capture() {
  const auto& maker = graphs_maker();
  if (maker.make == nullptr) throw Error(Code::unsupported, fmt::format("[cuda] unsupported: graphs: {}", maker.why_not));
  return std::unique_ptr<CudaCapture>(maker.make());
}

}  // namespace ddl
