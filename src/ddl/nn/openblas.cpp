#include "ddl/nn/openblas.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "ddl/core/error.h"

#ifndef DDL_OPENBLAS
#define DDL_OPENBLAS ""
#endif

namespace ddl {
namespace {

/// Of cblas.h, whose header is of whichever BLAS a machine compiles with.
using Sgemm = void(int order, int left, int right, int rows, int columns, int depth, float alpha, const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc);
constexpr int kRowMajor = 101, kAsItIs = 111, kTransposed = 112;

struct OpenBlas {
  Sgemm* multiply = nullptr;  ///< none: it is missing
  std::string told, missing;  ///< which one; or why there is none
};

/// It begins with as many threads as there are cores, unless this says one when it is opened; processes that are started from here are to have what the user has.
class OneThreadMeanwhile {
 public:
  OneThreadMeanwhile() {
    if (const char* value = std::getenv(kName); value != nullptr) before_ = value;
    ::setenv(kName, "1", 1);
  }
  ~OneThreadMeanwhile() { before_ ? ::setenv(kName, before_->c_str(), 1) : ::unsetenv(kName); }
  OneThreadMeanwhile(const OneThreadMeanwhile&) = delete;
  OneThreadMeanwhile& operator=(const OneThreadMeanwhile&) = delete;

 private:
  static constexpr const char* kName = "OPENBLAS_NUM_THREADS";
  std::optional<std::string> before_;
};

/// Stays open: whoever was given a function keeps it.
OpenBlas open(const char* file) {
  constexpr int kThreads = 1;  // openblas_get_parallel(): 0 none, 1 of its own, 2 OpenMP's, whose library would be a second one beside LibTorch's
  const auto missing = [](const std::string& why) { return OpenBlas{nullptr, "", why}; };
  // Not beside one that this program has already, as a LibTorch may that was made with it: its functions would be called in place of this one's, and as many threads.
  if (::dlsym(RTLD_DEFAULT, "openblas_get_config") != nullptr) return missing("this program has one already, LibTorch's");
  void* library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (library == nullptr) return missing(::dlerror());
  const auto left = [&](const char* why) {
    ::dlclose(library);
    return missing(fmt::format("{}: {}", file, why));
  };
  const auto find = [&](const char* name) { return ::dlsym(library, name); };
  auto* const multiply = reinterpret_cast<Sgemm*>(find("cblas_sgemm"));
  auto* const parallel = reinterpret_cast<int (*)()>(find("openblas_get_parallel"));
  auto* const use_threads = reinterpret_cast<void (*)(int)>(find("openblas_set_num_threads"));
  auto* const config = reinterpret_cast<char* (*)()>(find("openblas_get_config"));
  auto* const core = reinterpret_cast<char* (*)()>(find("openblas_get_corename"));
  if (multiply == nullptr || parallel == nullptr || use_threads == nullptr || config == nullptr || core == nullptr) return left("is no OpenBLAS");
  if (parallel() != kThreads) return left(parallel() == 0 ? "was built without threads, and takes no locks" : "was built for OpenMP, whose threads would be others than LibTorch's");
  if (std::string_view(config()).find("USE64BITINT") != std::string_view::npos) return left("was built for sizes of 64 bits");
  use_threads(1);
  Dl_info loaded{};
  std::error_code ignored;
  const bool named = ::dladdr(reinterpret_cast<const void*>(multiply), &loaded) != 0 && loaded.dli_fname != nullptr;
  return {multiply, fmt::format("{} for {}, of {} bytes", config(), core(), named ? std::filesystem::file_size(loaded.dli_fname, ignored) : 0), ""};
}

const OpenBlas& openblas() {
  static const auto found = []() -> OpenBlas {
    const OneThreadMeanwhile one;
    if (const char* told = std::getenv("DDLBENCH_OPENBLAS"); told != nullptr) {
      if (std::string_view(told) == "none") return {nullptr, "", "DDLBENCH_OPENBLAS is none"};
      auto opened = open(told);
      if (opened.multiply == nullptr)
        throw Error(Code::invalid_argument, fmt::format("DDLBENCH_OPENBLAS; got '{}', expected an OpenBLAS with threads of its own and sizes of 32 bits, where the program has none yet, or none: {}", told, opened.missing));
      return opened;
    }
    // Where this was compiled, Fedora's, and whichever one a system has chosen.
    std::string why;
    for (const char* file : {DDL_OPENBLAS, "libopenblasp.so.0", "libopenblas.so.0"}) {
      if (*file == '\0') continue;
      auto opened = open(file);
      if (opened.multiply != nullptr) return opened;
      if (why.find(opened.missing) == std::string::npos) why += (why.empty() ? "" : "; ") + opened.missing;
    }
    return {nullptr, "", why};
  }();
  return found;
}

}  // namespace

bool has_openblas() { return openblas().multiply != nullptr; }
std::string openblas_told() { return openblas().told; }
const std::string& openblas_missing() { return openblas().missing; }

bool lies_by_rows(const at::Tensor& matrix) { return matrix.stride(-1) == 1 && matrix.stride(-2) >= matrix.size(-1); }

bool lies_for_openblas(const at::Tensor& matrix) {
  // Its sizes are ints, strides among them.
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  for (const int d : {-2, -1})
    if (matrix.size(d) > kMost || matrix.stride(d) > kMost) return false;
  return lies_by_rows(matrix) || lies_by_rows(matrix.transpose(-2, -1));
}

void by_openblas(at::Tensor& to, const at::Tensor& left, const at::Tensor& right, bool adds) {
  const auto size = [](std::int64_t x) { return static_cast<int>(x); };
  const auto how = [](const at::Tensor& x) { return lies_by_rows(x) ? kAsItIs : kTransposed; };
  const auto apart = [&](const at::Tensor& x) { return size(x.stride(lies_by_rows(x) ? -2 : -1)); };
  const bool many = to.dim() == 3;
  const auto next = [&](const at::Tensor& x) { return many ? x.stride(0) : 0; };
  for (std::int64_t i = 0; i < (many ? to.size(0) : 1); ++i)
    openblas().multiply(kRowMajor, how(left), how(right), size(to.size(-2)), size(to.size(-1)), size(left.size(-1)), 1, left.const_data_ptr<float>() + i * next(left), apart(left), right.const_data_ptr<float>() + i * next(right),
                         apart(right), adds ? 1.0F : 0.0F, to.data_ptr<float>() + i * next(to), size(to.stride(-2)));
}

}  // namespace ddl
