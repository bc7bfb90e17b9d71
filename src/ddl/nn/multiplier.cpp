#include "ddl/nn/multiplier.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <torch/version.h>

#include "ddl/core/error.h"
#include "ddl/core/hash.h"
#include "ddl/core/statistics.h"
#include "ddl/data/bpe_cache.h"
#include "ddl/measure/clock.h"
#include "ddl/measure/environment.h"
#include "ddl/nn/element_type.h"
#include "ddl/nn/kernels/widen.h"
#include "ddl/nn/openblas.h"

namespace at::native {
/// ATen's own way to oneDNN, for types of 16 bits; it takes fp32 as well. libtorch_cpu.so exports it, and no header declares it to others: weak, so that a LibTorch without it still links, and MKL multiplies.
__attribute__((weak)) void mkldnn_matmul(const Tensor& left, const Tensor& right, const Tensor& to, float beta, float alpha);
}  // namespace at::native

namespace ddl {
namespace {

namespace fs = std::filesystem;

// Part of the name of what is kept: goes up whenever it would be chosen otherwise.
constexpr int kVersion = 4;

/// MKL takes its ways by where memory lies, on AMD's processors at least, so that the same product twice may differ in its last bits. Ranks that compute the same are to have the same bits. It reads this when it is
/// first called; what a user has set stays; peers that are started from here are to have what the user has (asks_for_same_bits()). Products of five shapes were as fast with it on a Zen 3.
const bool kSameBits = std::getenv("MKL_CBWR") == nullptr && ::setenv("MKL_CBWR", "AUTO", 0) == 0;

/// As ATen hands it to oneDNN without copying it first.
bool lies_plainly(const at::Tensor& matrix) { return matrix.is_contiguous() || matrix.transpose(-1, -2).is_contiguous(); }

/// Of one row by a matrix oneDNN 3.12 on AVX2 writes beyond what it makes, where that is added to what is there; products of vectors wait for memory anyway.
bool are_matrices(const at::Tensor& left, const at::Tensor& right) { return left.size(-2) > 1 && right.size(-1) > 1; }

void by_onednn(at::Tensor& to, const at::Tensor& left, const at::Tensor& right, bool adds) { at::native::mkldnn_matmul(left, right, to, adds ? 1.0F : 0.0F, 1.0F); }

void by_mkl_at_once(at::Tensor& to, const at::Tensor& left, const at::Tensor& right, bool adds) {
  if (to.dim() == 3) {
    if (adds)
      to.baddbmm_(left, right);
    else
      at::bmm_out(to, left, right);
  } else if (adds) {
    to.addmm_(left, right);
  } else {
    at::mm_out(to, left, right);
  }
}

/// Wide rows of fp32 that do not begin where vectors do are slow for MKL to write, logits of 50,257 words above all: some columns at a time are made in rows that do, which caches hold, and copied. docs/performance.md, "Rows that begin off a vector".
void by_mkl(at::Tensor& to, const at::Tensor& left, const at::Tensor& right, bool adds) {
  constexpr std::int64_t kVector = 8, kFewRows = 32, kWide = 4096, kAtOnce = 2048;
  const bool in_parts = to.dim() == 2 && to.scalar_type() == at::kFloat && to.size(0) >= kFewRows && to.size(1) >= kWide && to.stride(0) % kVector != 0;
  if (!in_parts) return by_mkl_at_once(to, left, right, adds);
  const auto made = at::empty({to.size(0), kAtOnce}, plain_options(to));
  for (std::int64_t begin = 0; begin < to.size(1); begin += kAtOnce) {
    const auto some = std::min(kAtOnce, to.size(1) - begin);
    auto part = made.narrow(1, 0, some);
    by_mkl_at_once(part, left, right.narrow(1, begin, some), false);
    auto there = to.narrow(1, begin, some);
    adds ? there.add_(part) : there.copy_(part);
  }
}

/// Factors of bf16: in fp32 where the processor has nothing faster, else by ATen's choice, which rounds what it makes.
void multiply_narrow(at::Tensor& to, const at::Tensor& left, const at::Tensor& right, bool adds) {
  const bool wide = to.scalar_type() == at::kFloat;
  if (multiplies_bf16() && !wide) return by_mkl(to, left, right, adds);
  if (multiplies_bf16()) {
    auto product = at::empty(to.sizes(), left.options().requires_grad(false).memory_format(at::MemoryFormat::Contiguous));
    by_mkl(product, left, right, false);
    if (to.is_contiguous())
      widen_elements(elements<Bf16>(product), adds, to.data_ptr<float>(), to.numel());
    else
      adds ? to.add_(product) : to.copy_(product);
    return;
  }
  const auto wider = [](const at::Tensor& x) { return x.to(at::kFloat); };
  if (wide) return multiply_into(to, wider(left), wider(right), adds);
  auto product = wider(to);
  multiply_into(product, wider(left), wider(right), adds);
  to.copy_(product);
}

bool computes_alone() { return at::get_num_threads() == 1; }

/// Least of several runs by turns, s.
MultipliersTiming time_size(std::int64_t rows) {
  constexpr int kRounds = 9;
  constexpr double kOperations = 4e6;  // of a run: short beside what a scheduler gives at once, long beside a clock's tick
  const auto left = at::rand({rows, rows}), right = at::rand({rows, rows});
  auto to = at::empty({rows, rows});
  const auto size = static_cast<double>(rows);
  const int times = std::max(1, static_cast<int>(kOperations / (2 * size * size * size + 2e5)));
  const auto run = [&](auto&& multiply) {
    const auto begin = now();
    for (int i = 0; i < times; ++i) multiply(to, left, right, false);
    return seconds(now() - begin) / times;
  };
  // The first prepare: kernels are made, memory is touched.
  run(by_mkl), run(by_onednn);
  MultipliersTiming least{rows, MultipliersTiming::kNone, MultipliersTiming::kNone};
  for (int round = 0; round < kRounds; ++round) {
    least.mkl = std::min(least.mkl, run(by_mkl));
    least.onednn = std::min(least.onednn, run(by_onednn));
  }
  return least;
}

/// Medians of several runs by turns, s: what others take of caches hits MKL harder than OpenBLAS, so that the least would not tell.
MultipliersTiming time_layer(std::int64_t rows, std::int64_t in, std::int64_t out) {
  constexpr int kRounds = 5;
  const auto x = at::rand({rows, in}), weight = at::rand({out, in}), gradient = at::rand({rows, out});
  auto made = at::empty({rows, out}), of_x = at::empty({rows, in}), of_weight = at::empty({out, in});
  const auto run = [&](auto&& multiply) {
    const auto begin = now();
    multiply(made, x, weight.t(), false);
    multiply(of_x, gradient, weight, false);
    multiply(of_weight, gradient.t(), x, false);
    return seconds(now() - begin);
  };
  std::vector<double> mkl, onednn, openblas;
  for (int round = -1; round < kRounds; ++round) {
    mkl.push_back(run(by_mkl));
    if (multiplies_by_onednn()) onednn.push_back(run(by_onednn));
    openblas.push_back(run(by_openblas));
    if (round < 0) mkl.clear(), onednn.clear(), openblas.clear();
  }
  return {rows, median(mkl), onednn.empty() ? MultipliersTiming::kNone : median(onednn), median(openblas), in, out};
}

Multipliers parse_multipliers(const std::string& path) {
  const auto json = parse_json(read_file(path), path);
  try {
    const auto from = [&](const char* key) { return json.at(key).is_null() ? Multipliers::kNever : json.at(key).get<std::int64_t>(); };
    return {from("onednn_from"), from("openblas_from")};
  } catch (const Json::exception& error) {
    throw Error(Code::corrupt, fmt::format("{}: {}", path, error.what()));
  }
}

/// Family, model and stepping: a hypervisor may call processors of several generations by one name.
std::string signature() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) != 0) return fmt::format("{:08x}", a);
#endif
  return "none";
}

/// The LibTorch that is loaded, which need not be the one that this was compiled with: what it bundles multiplies. By its size, since its build says nothing of itself.
std::string library_of_products() {
  Dl_info loaded{};
  std::error_code ignored;
  if (::dladdr(reinterpret_cast<const void*>(&at::get_num_threads), &loaded) == 0 || loaded.dli_fname == nullptr) return TORCH_VERSION;
  const auto path = fs::canonical(loaded.dli_fname, ignored);
  const auto cpu = path.parent_path() / "libtorch_cpu.so";
  return fmt::format("{} of {} bytes", TORCH_VERSION, fs::file_size(fs::exists(cpu, ignored) ? cpu : path, ignored));
}

/// All that the timings depend on. Not how many cores this thread may use: a worker that is bound to some of them is to find what one found that is not.
std::string this_machine() {
  const auto cpu = capture_environment().at("cpu");
  std::string told;
  for (const auto* name : {"MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "MKL_DEBUG_CPU_TYPE", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE", "OPENBLAS_CORETYPE"})
    if (const char* value = std::getenv(name); value != nullptr) told += fmt::format(", {}={}", name, value);
  return fmt::format("{} ({}) with {}, {} cores, LibTorch {}, {}, {} threads{}", cpu.at("model").dump(), signature(), cpu.at("isa").dump(), cpu.at("logical_cores").dump(), library_of_products(), has_openblas() ? openblas_told() : "no OpenBLAS", at::get_num_threads(), told);
}

/// Has processes of one folder do something one after the other. Holds nothing where a folder cannot be locked or written to, or where another holds on to it for seconds.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder) {
    constexpr int kTries = 3000;
    constexpr unsigned kApart = 10'000;  // us
    if (::access(folder.c_str(), W_OK) != 0) return;
    file_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; file_ >= 0 && !held_ && i < kTries; ++i) {
      held_ = ::flock(file_, LOCK_EX | LOCK_NB) == 0;
      if (held_ || (errno != EWOULDBLOCK && errno != EINTR)) break;
      ::usleep(kApart);
    }
  }
  ~FolderLock() {
    if (file_ >= 0) ::close(file_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  bool held() const { return held_; }

 private:
  int file_ = -1;
  bool held_ = false;
};

std::once_flag settled;
std::atomic<std::int64_t> onednn_from{Multipliers::kNever}, openblas_from{Multipliers::kNever};

void use(const Multipliers& chosen) {
  onednn_from = multiplies_by_onednn() ? chosen.onednn_from : Multipliers::kNever;
  openblas_from = has_openblas() ? chosen.openblas_from : Multipliers::kNever;
}

}  // namespace

bool multiplies_bf16() {
#if defined(__x86_64__)
  // CPUID leaf 7: of subleaf 0 bit 22 of EDX is AMX-BF16, of subleaf 1 bit 5 of EAX AVX512-BF16.
  static const bool does = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    const bool tiles = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 22 & 1U) != 0;
    const bool vectors = __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 5 & 1U) != 0;
    return tiles || vectors;
  }();
  return does;
#else
  return true;
#endif
}

Multipliers faster_multipliers(const std::vector<MultipliersTiming>& timings) {
  constexpr double kFaster = 1.1, kNear = 0.9, kOpenblasFaster = 1.05;
  constexpr std::int64_t kLarge = 500'000'000;
  std::vector<MultipliersTiming> squares;
  double by_openblas = 0, by_others = 0;
  for (const auto& each : timings) {
    if (each.in == 0)
      squares.push_back(each);
    else
      by_openblas += each.openblas, by_others += std::min(each.mkl, each.onednn);
  }
  const auto count = static_cast<std::ptrdiff_t>(squares.size());
  const auto of = [&](std::ptrdiff_t number) -> const MultipliersTiming& { return squares[static_cast<std::size_t>(number)]; };
  const auto faster = [&](std::ptrdiff_t number) { return number >= 0 && number < count && of(number).mkl >= kFaster * of(number).onednn; };
  Multipliers chosen;
  if (by_others > kOpenblasFaster * by_openblas) chosen.openblas_from = kLarge;
  for (auto each = count - 1; each >= 0; --each) {
    if (faster(each)) {
      chosen.onednn_from = 2 * of(each).rows * of(each).rows * of(each).rows;
      continue;
    }
    // One that is as good as even between others that are not, was disturbed: what is kept is kept for good.
    const bool alone = faster(each - 1) && (each + 1 < count ? faster(each + 1) : faster(each - 2));
    if (!alone || of(each).mkl < kNear * of(each).onednn) break;
  }
  return chosen;
}

bool multiplies_by_onednn() {
  static const bool does = [] {
    if (at::native::mkldnn_matmul == nullptr) return false;
    const at::AutoDispatchBelowADInplaceOrView below;
    auto to = at::zeros({2, 2});
    try {
      by_onednn(to, at::ones({2, 2}), at::ones({2, 2}), false);
    } catch (const c10::Error&) {
      return false;
    }
    return true;
  }();
  return does;
}

bool asks_for_same_bits() { return kSameBits; }

std::int64_t multiplying_machine() { return static_cast<std::int64_t>(std::stoull(digest(this_machine()).substr(0, 15), nullptr, 16)); }

std::vector<MultipliersTiming> time_multipliers() {
  std::vector<MultipliersTiming> timings;
  const at::AutoDispatchBelowADInplaceOrView below;
  if (multiplies_by_onednn())
    for (const std::int64_t rows : {16, 32, 48, 64, 96, 128, 192, 256, 384}) timings.push_back(time_size(rows));
  // As GPT small's projections, and nearly as AlexNet's large ones: what most of the time goes to where products are large.
  if (has_openblas() && computes_alone()) timings.push_back(time_layer(1024, 768, 768)), timings.push_back(time_layer(16, 4096, 4096));
  return timings;
}

Multipliers kept_multipliers(const std::string& folder, const std::string& machine, const std::function<std::vector<MultipliersTiming>()>& time) {
  if (folder.empty()) return faster_multipliers(time());
  const auto path = (fs::path(folder) / fmt::format("multipliers-{}.json", digest(fmt::format("multipliers {} {}", kVersion, machine)))).string();
  const auto kept = [&]() -> std::optional<Multipliers> {
    try {
      return parse_multipliers(path);
    } catch (const Error&) {
      return std::nullopt;
    }
  };
  if (const auto found = kept()) return *found;
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  // Who comes first measures, and others wait for that.
  const FolderLock lock(folder);
  if (const auto found = kept()) return *found;
  const auto timings = time();
  const auto found = faster_multipliers(timings);
  if (const auto first = kept()) return *first;  // of one that did not wait
  Json content{{"machine", machine}};
  content.update(to_json(found));
  const auto microseconds = [](double took) { return took < MultipliersTiming::kNone ? Json(took * 1e6) : Json(nullptr); };
  content["measured"] = Json::array();
  for (const auto& each : timings) {
    content["measured"].push_back({{"rows", each.rows}, {"mkl_us", microseconds(each.mkl)}, {"onednn_us", microseconds(each.onednn)}});
    if (each.in != 0) content["measured"].back().update({{"in", each.in}, {"out", each.out}, {"openblas_us", microseconds(each.openblas)}});
  }
  try {
    if (lock.held()) {
      write_file(path, content.dump(2) + "\n");
    } else {
      // Others may be at it: a link is made only where nothing is, so that the first stays.
      const auto own = fmt::format("{}.{}", path, ::getpid());
      write_file(own, content.dump(2) + "\n");
      fs::create_hard_link(own, path, ignored);
      fs::remove(own, ignored);
    }
  } catch (const Error&) {
    return found;  // nothing can be kept there
  }
  return kept().value_or(found);
}

Multipliers multipliers() {
  // Within a parallel loop both would have one thread, and the others' wait beside them: not what is to be kept for so many. Who computes asks before; until somebody did MKL multiplies.
  if (!at::in_parallel_region()) std::call_once(settled, [] { use(kept_multipliers(cache_folder(), this_machine(), time_multipliers)); });
  return {onednn_from.load(std::memory_order_relaxed), openblas_from.load(std::memory_order_relaxed)};
}

void use_multipliers(const Multipliers& chosen) {
  std::call_once(settled, [] {});
  use(chosen);
}

Json to_json(const Multipliers& chosen) {
  const auto told = [](std::int64_t from) { return from == Multipliers::kNever ? Json(nullptr) : Json(from); };
  return {{"onednn_from", told(chosen.onednn_from)}, {"openblas_from", told(chosen.openblas_from)}, {"openblas", chosen.openblas_from == Multipliers::kNever ? Json(nullptr) : Json(openblas_told())}};
}

namespace {

/// Whether OpenBLAS multiplies them, of fp32. It has one thread here; with several MKL uses all.
bool goes_to_openblas(const at::Tensor& left, const at::Tensor& right) {
  return 2 * left.size(-2) * left.size(-1) * right.size(-1) >= multipliers().openblas_from && computes_alone() && are_matrices(left, right) && lies_for_openblas(left) && lies_for_openblas(right);
}

/// Whether oneDNN multiplies so many operations of fp32.
bool goes_to_onednn(std::int64_t operations, const at::Tensor& left, const at::Tensor& right) {
  return operations >= multipliers().onednn_from && are_matrices(left, right) && lies_plainly(left) && lies_plainly(right);
}

/// ATen's own way to oneDNN's products with what follows them, which its compiler uses; null in a LibTorch without it.
using LinearPointwise = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, std::string_view, c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);
const c10::TypedOperatorHandle<LinearPointwise>* linear_pointwise() {
  static const auto found = []() -> std::optional<c10::TypedOperatorHandle<LinearPointwise>> {
    const auto schema = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    if (!schema || !schema->hasKernelForDispatchKey(c10::DispatchKey::CPU)) return std::nullopt;
    try {
      return schema->typed<LinearPointwise>();
    } catch (const c10::Error&) {
      return std::nullopt;  // another version's
    }
  }();
  return found ? &*found : nullptr;
}

}  // namespace

at::Tensor laid_out_for_products(const at::Tensor& rows) {
  // A copy is a pass over memory; the two products of a layer's backward pass that read it are worth one from about so many operations on.
  constexpr std::int64_t kDepth = 16;
  const auto chosen = multipliers();
  const bool copies = rows.scalar_type() == at::kFloat && !lies_plainly(rows) && chosen.onednn_from != Multipliers::kNever && 2 * rows.numel() * kDepth >= chosen.onednn_from && chosen.openblas_from == Multipliers::kNever;
  return copies ? rows.contiguous() : rows;
}

at::Tensor multiply_with_bias(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias, bool rectifies) {
  const auto type = rows.scalar_type();
  const auto by = weight.t();
  const bool fused = linear_pointwise() != nullptr && rows.is_contiguous() && weight.is_contiguous() && are_matrices(rows, by) &&
                     (type == at::kBFloat16 ? multiplies_bf16() : type == at::kFloat && goes_to_onednn(2 * rows.size(0) * weight.numel(), rows, by) && !goes_to_openblas(rows, by));
  if (fused) {
    // Not with oneDNN's ReLU, which makes 0 of what is no number: a loss that was lost would never be seen.
    auto made = linear_pointwise()->call(rows, weight, bias.to(type), "none", c10::List<std::optional<at::Scalar>>(), "");
    return rectifies ? made.relu_() : made;
  }
  auto out = at::empty({rows.size(0), weight.size(0)}, plain_options(rows));
  out.copy_(bias.expand_as(out));
  multiply_into(out, rows, by, true);
  return rectifies ? out.relu_() : out;
}

std::int64_t widened_bytes(const at::Tensor& to, const at::Tensor& left) {
  return left.scalar_type() == at::kBFloat16 && to.scalar_type() == at::kFloat && multiplies_bf16() ? static_cast<std::int64_t>(to.nbytes()) : 0;
}

void multiply_into(at::Tensor& to, const at::Tensor& left, const at::Tensor& right, bool adds) {
  if (left.scalar_type() == at::kBFloat16) return multiply_narrow(to, left, right, adds);
  if (to.scalar_type() == at::kFloat && lies_by_rows(to) && goes_to_openblas(left, right)) return by_openblas(to, left, right, adds);
  const bool takes = to.scalar_type() == at::kFloat && goes_to_onednn(2 * to.numel() * left.size(-1), left, right);
  takes ? by_onednn(to, left, right, adds) : by_mkl(to, left, right, adds);
}

}  // namespace ddl
