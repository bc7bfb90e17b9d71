#include "ddl/train/devices/cuda_library.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>

#include "ddl/core/error.h"

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

}  // namespace ddl
