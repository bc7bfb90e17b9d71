#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/core/json.h"
#include "ddl/data/bpe_cache.h"
#include "ddl/measure/environment.h"
#include "ddl/nn/multiplier.h"
#include "ddl/nn/multiplier_testing.h"
#include "ddl/nn/one_thread_testing.h"
#include "ddl/nn/openblas.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;

constexpr Multipliers kMkl{}, kOnednn{0}, kOpenblas{Multipliers::kNever, 0};

struct Folder {
  std::string path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "ddl-multipliers-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path); }
  std::vector<fs::path> files() const { return {fs::directory_iterator(path), fs::directory_iterator()}; }
};

/// What is asked of all was asked of some where another does not multiply here.
void tell_who_multiplied() {
  if (!multiplies_by_onednn()) GTEST_SKIP() << "oneDNN does not multiply fp32 on this processor: held to " << (has_openblas() ? "MKL and OpenBLAS" : "MKL alone, there is no OpenBLAS either");
  if (!has_openblas()) GTEST_SKIP() << "there is no OpenBLAS here: held to MKL and oneDNN";
}

TEST(FasterMultipliers, AreOnednnFromWhereItStaysFasterByATenth) {
  const auto from = [](const std::vector<MultipliersTiming>& timings) { return faster_multipliers(timings).onednn_from; };
  EXPECT_EQ(from({{16, 1, 9}, {64, 10, 9}, {128, 80, 40}, {256, 500, 250}}), 2 * 64 * 64 * 64);
  EXPECT_EQ(from({{16, 1, 9}, {64, 9, 9}, {128, 80, 40}, {256, 500, 250}}), 2 * 128 * 128 * 128);
  EXPECT_EQ(from({{16, 9, 1}, {64, 1, 9}, {256, 500, 250}}), 2 * 256 * 256 * 256);
  EXPECT_EQ(from({{64, 10, 5}, {256, 500, 490}}), Multipliers::kNever);
  EXPECT_EQ(from({}), Multipliers::kNever);
  // What is kept for good does not hang on one size that was disturbed; on two it does, and on one that is slower.
  EXPECT_EQ(from({{64, 10, 5}, {128, 80, 40}, {256, 500, 490}}), 2 * 64 * 64 * 64);
  EXPECT_EQ(from({{64, 10, 5}, {128, 80, 78}, {256, 500, 250}}), 2 * 64 * 64 * 64);
  EXPECT_EQ(from({{64, 10, 5}, {128, 80, 100}, {256, 500, 250}}), 2 * 256 * 256 * 256);
  EXPECT_EQ(from({{32, 10, 5}, {64, 10, 5}, {128, 80, 78}, {256, 500, 490}}), Multipliers::kNever);
}

TEST(FasterMultipliers, AreOpenblasWhereLayersTogetherAreFasterByATwentieth) {
  constexpr double kNone = MultipliersTiming::kNone;
  const auto from = [](const std::vector<MultipliersTiming>& timings) { return faster_multipliers(timings).openblas_from; };
  const auto layer = [](double mkl, double onednn, double openblas) { return MultipliersTiming{16, mkl, onednn, openblas, 4096, 2048}; };
  EXPECT_EQ(from({layer(106, kNone, 100)}), 500'000'000);
  EXPECT_EQ(from({layer(104, kNone, 100)}), Multipliers::kNever);
  EXPECT_EQ(from({layer(100, kNone, 100), layer(60, kNone, 50)}), 500'000'000) << "160 beside 150";
  EXPECT_EQ(from({layer(100, kNone, 110), layer(60, kNone, 50)}), Multipliers::kNever);
  EXPECT_EQ(from({layer(200, 100, 100)}), Multipliers::kNever) << "oneDNN's is as fast";
  EXPECT_EQ(from({{512, 200, 100}}), Multipliers::kNever) << "it was not timed";
  // Neither counts in the other's contest.
  const auto both = faster_multipliers({{64, 10, 5}, {256, 500, 250}, layer(100, 50, 40)});
  EXPECT_EQ(both.onednn_from, 2 * 64 * 64 * 64);
  EXPECT_EQ(both.openblas_from, 500'000'000);
}

TEST(Multipliers, OfOneMachineAreOneNumberUntilSomethingCounts) {
  const auto before = multiplying_machine();
  EXPECT_EQ(multiplying_machine(), before);
  const char* const kept = std::getenv("ONEDNN_MAX_CPU_ISA");
  const std::string own = kept == nullptr ? "" : kept;
  ::setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
  EXPECT_NE(multiplying_machine(), before);
  kept == nullptr ? ::unsetenv("ONEDNN_MAX_CPU_ISA") : ::setenv("ONEDNN_MAX_CPU_ISA", own.c_str(), 1);
  const int threads = at::get_num_threads();
  at::set_num_threads(threads + 1);
  EXPECT_NE(multiplying_machine(), before);
  at::set_num_threads(threads);
  EXPECT_EQ(multiplying_machine(), before);
}

TEST(KeptMultipliers, AreMeasuredOnceForAMachine) {
  const Folder folder;
  int measured = 0;
  const auto time = [&] { return ++measured, std::vector<MultipliersTiming>{{64, 2e-6, 1e-6}, {128, 2e-5, 1e-5}, {16, 3e-2, 2e-2, 1e-2, 4096, 2048}}; };
  const auto found = kept_multipliers(folder.path, "one", time);
  EXPECT_EQ(found.onednn_from, 2 * 64 * 64 * 64);
  EXPECT_EQ(kept_multipliers(folder.path, "one", time), found);
  EXPECT_EQ(measured, 1);
  kept_multipliers(folder.path, "another", time);
  EXPECT_EQ(measured, 2);
  ASSERT_EQ(folder.files().size(), 2U) << "no file of a writer's own stays";
  for (const auto& file : folder.files()) {
    const auto json = parse_json(read_file(file), file.string());
    EXPECT_EQ(json.at("onednn_from"), found.onednn_from);
    EXPECT_EQ(json.at("openblas_from"), 500'000'000);
    EXPECT_DOUBLE_EQ(json.at("measured").at(2).at("openblas_us").get<double>(), 1e4);
    EXPECT_TRUE(json.at("machine") == "one" || json.at("machine") == "another");
    EXPECT_DOUBLE_EQ(json.at("measured").at(1).at("mkl_us").get<double>(), 20);
  }
}

TEST(KeptMultipliers, OfNeverAreKeptToo) {
  const Folder folder;
  int measured = 0;
  const auto time = [&] { return ++measured, std::vector<MultipliersTiming>{{64, 1e-6, 1e-6}}; };
  for (int i = 0; i < 2; ++i) EXPECT_EQ(kept_multipliers(folder.path, "one", time), kMkl);
  EXPECT_EQ(measured, 1);
}

/// What each of several finds that ask at once, of whom each would have timed otherwise; and how many did.
std::pair<std::vector<Multipliers>, int> asked_at_once(const std::string& folder) {
  constexpr int kAll = 4;
  std::vector<Multipliers> found(kAll);
  std::atomic<int> measured{0};
  std::vector<std::thread> all;
  for (int i = 0; i < kAll; ++i)
    all.emplace_back([&, i] {
      found[static_cast<std::size_t>(i)] = kept_multipliers(folder, "one", [&] {
        ++measured;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return std::vector<MultipliersTiming>{{16 * (i + 1), 2, 1}};
      });
    });
  for (auto& each : all) each.join();
  return {found, measured.load()};
}

TEST(KeptMultipliers, WhoeverComesFirstCountsForAll) {
  const Folder folder;
  for (const auto* content : {"", "{", "[]"}) {
    if (*content != '\0') write_file(folder.files().at(0), content);
    const auto [found, measured] = asked_at_once(folder.path);
    EXPECT_EQ(measured, 1) << content;
    for (const auto& each : found) EXPECT_EQ(each, found[0]) << content;
    EXPECT_EQ(kept_multipliers(folder.path, "one", [] { return std::vector<MultipliersTiming>{}; }), found[0]) << content;
    EXPECT_EQ(folder.files().size(), 1U) << "no file of a writer's own stays";
  }
}

TEST(KeptMultipliers, WhatIsDamagedIsMeasuredAnew) {
  const Folder folder;
  const auto fast = [] { return std::vector<MultipliersTiming>{{64, 2, 1}}; };
  const auto found = kept_multipliers(folder.path, "one", fast);
  for (const auto* content : {"{", "[]", R"({"onednn_from": "soon"})", R"({"onednn_from": 1000})"}) {
    write_file(folder.files().at(0), content);
    EXPECT_EQ(kept_multipliers(folder.path, "one", fast), found) << content;
    EXPECT_EQ(kept_multipliers(folder.path, "one", [] { return std::vector<MultipliersTiming>{}; }), found) << content;
  }
}

TEST(KeptMultipliers, NeedNoFolder) {
  const auto fast = [] { return std::vector<MultipliersTiming>{{64, 2, 1}}; };
  for (const auto* folder : {"", "/proc/none"}) EXPECT_EQ(kept_multipliers(folder, "one", fast), faster_multipliers(fast()));
}

/// Of this process and of those that a death test starts, each of which runs the test from its beginning.
class SharedFolder {
 public:
  SharedFolder() {
    if (const char* told = std::getenv(kTold); told != nullptr) {
      path = told;
    } else {
      own_.emplace();
      path = own_->path;
      ::setenv(kTold, path.c_str(), 1);
    }
  }
  ~SharedFolder() {
    if (own_) ::unsetenv(kTold);
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  std::string path;

 private:
  static constexpr const char* kTold = "DDL_MULTIPLIERS_TEST_FOLDER";
  std::optional<Folder> own_;
};

/// A process of its own, which has not asked before, has two threads and keeps what it finds there.
void begin_with_two_threads(const std::string& folder) {
  ::setenv("XDG_CACHE_HOME", folder.c_str(), 1);
  at::set_num_threads(2);
}

std::ptrdiff_t files_kept() {
  return fs::exists(cache_folder()) ? std::distance(fs::directory_iterator(cache_folder()), fs::directory_iterator()) : 0;
}

/// What is kept in `folder` says so many threads, and was timed with them: not within a loop of theirs, where each product has one.
[[noreturn]] void ask_within_a_loop(const std::string& folder) {
  begin_with_two_threads(folder);
  std::atomic<int> within{0};
  at::parallel_for(0, 2, 1, [&](std::int64_t, std::int64_t) {
    within += at::in_parallel_region();
    multipliers();
  });
  if (within < 2) std::_Exit(3);
  if (files_kept() != 0) std::_Exit(1);
  multipliers();
  std::_Exit(files_kept() == 1 ? 0 : 2);
}

TEST(MultipliersDeathTest, AreNotTimedWithinALoopOfThreads) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const SharedFolder folder;
  EXPECT_EXIT(ask_within_a_loop(folder.path), testing::ExitedWithCode(0), "");
}

/// `bound`: to one of the cores that it may use.
[[noreturn]] void ask(const std::string& folder, bool bound, int expected) {
  begin_with_two_threads(folder);
  cpu_set_t allowed, one;
  CPU_ZERO(&one);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) std::_Exit(3);
  for (int unit = 0; bound && CPU_COUNT(&one) == 0 && unit < CPU_SETSIZE; ++unit)
    if (CPU_ISSET(unit, &allowed)) CPU_SET(unit, &one);
  if (bound && ::sched_setaffinity(0, sizeof one, &one) != 0) std::_Exit(3);
  multipliers();
  std::_Exit(files_kept() == expected ? 0 : 1);
}

TEST(MultipliersDeathTest, AreTheSameForWorkersThatAreBoundToCores) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const SharedFolder folder;
  for (const bool bound : {false, true}) EXPECT_EXIT(ask(folder.path, bound, 1), testing::ExitedWithCode(0), "") << bound;
  ::setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
  EXPECT_EXIT(ask(folder.path, true, 2), testing::ExitedWithCode(0), "") << "told otherwise, it may find otherwise";
  ::unsetenv("ONEDNN_MAX_CPU_ISA");
}

TEST(TimeMultipliers, SizesRiseAndTakeTime) {
  const OneThread one;
  const auto timings = time_multipliers();
  const auto isa = capture_environment().at("cpu").at("isa");
  const bool wide = std::find(isa.begin(), isa.end(), "avx512bw") != isa.end();
  ASSERT_TRUE(multiplies_by_onednn() || !wide) << "this LibTorch has lost its way to oneDNN: at::native::mkldnn_matmul";
  EXPECT_EQ(std::count_if(timings.begin(), timings.end(), [](const auto& each) { return each.in != 0; }), has_openblas() ? 2 : 0);
  for (std::size_t i = 0; i < timings.size(); ++i) {
    EXPECT_GT(std::min(timings[i].mkl, timings[i].onednn), 1e-8);
    if (timings[i].in == 0)
      EXPECT_GT(timings[i].rows, i == 0 ? 0 : timings[i - 1].rows);
    else
      EXPECT_TRUE(timings[i].openblas > 1e-8 && timings[i].openblas < 10);
  }
}

/// Of what the terms of a sum come to without their signs.
double apart(const at::Tensor& found, const at::Tensor& expected, const at::Tensor& terms) { return ((found.to(at::kDouble) - expected).abs() / terms).max().item<double>(); }

at::Tensor terms_of(const at::Tensor& left, const at::Tensor& right) { return left.to(at::kDouble).abs().matmul(right.to(at::kDouble).abs()); }

TEST(MultiplyInto, IsTheProductWhoeverMultiplies) {
  const OneThread one;
  at::manual_seed(3);
  const at::AutoDispatchBelowADInplaceOrView below;
  struct Sizes {
    std::int64_t batch, rows, depth, columns;  // batch 0: matrices
  };
  for (const auto& [batch, rows, depth, columns] : {Sizes{0, 1, 1, 1}, {0, 3, 5, 7}, {0, 64, 100, 33}, {0, 1, 300, 1}, {3, 20, 30, 40}, {16, 129, 64, 32}, {0, 33, 6, 4'099}, {0, 33, 6, 4'104}})
    for (const auto type : {at::kFloat, at::kDouble})
      for (const bool left_turned : {false, true})
        for (const bool right_turned : {false, true})
          for (const bool adds : {false, true})
            for (const auto& chosen : {kMkl, kOnednn, kOpenblas}) {
              const Multiplying multiplying(chosen);
              const auto make = [&](std::int64_t high, std::int64_t wide, bool turned) {
                std::vector<std::int64_t> sizes{turned ? wide : high, turned ? high : wide};
                if (batch > 0) sizes.insert(sizes.begin(), batch);
                const auto made = at::randn(sizes, type);
                return turned ? made.transpose(-1, -2) : made;
              };
              const auto left = make(rows, depth, left_turned), right = make(depth, columns, right_turned);
              auto to = make(rows, columns, false);
              auto terms = terms_of(left, right);
              auto expected = left.to(at::kDouble).matmul(right.to(at::kDouble));
              if (adds) expected = expected + to.to(at::kDouble), terms = terms + to.to(at::kDouble).abs();
              multiply_into(to, left, right, adds);
              EXPECT_LT(apart(to, expected, terms), type == at::kFloat ? 2e-6 : 4e-15) << batch << " " << rows << " " << depth << " " << columns << " " << left_turned << right_turned << adds << " " << chosen.onednn_from << " " << chosen.openblas_from;
            }
  tell_who_multiplied();
}

TEST(MultiplyInto, TakesPartsOfLargerMatrices) {
  const OneThread one;
  for (const auto& chosen : {kOnednn, kOpenblas}) {
    const Multiplying multiplying(chosen);
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto whole = at::randn({60, 90}), right = at::randn({80, 50}).narrow(0, 3, 40).narrow(1, 1, 30);
    // Rows of a wider matrix, columns of a higher one, and every second of a row's, which no library takes as they lie.
    for (const auto& left : {whole.narrow(1, 10, 40), at::randn({90, 70}).narrow(0, 10, 40).narrow(1, 0, 60).t(), at::randn({60, 80}).slice(1, 0, 80, 2)}) {
      EXPECT_EQ(lies_for_openblas(left), left.stride(0) == 1 || left.stride(1) == 1);
      auto to = at::empty({60, 30});
      multiply_into(to, left, right);
      EXPECT_LT(apart(to, left.to(at::kDouble).matmul(right.to(at::kDouble)), terms_of(left, right)), 2e-6);
    }
    // Matrices one behind the other, parts of larger ones.
    const auto many = at::randn({3, 50, 60}).narrow(1, 5, 20), by = at::randn({3, 70, 60}).narrow(1, 1, 40).transpose(1, 2);
    auto to = at::ones({3, 20, 40});
    multiply_into(to, many, by, true);
    EXPECT_LT(apart(to, many.to(at::kDouble).matmul(by.to(at::kDouble)) + 1, terms_of(many, by) + 1), 2e-6);
  }
}

/// Workers that are threads of one process multiply at the same time.
TEST(MultiplyInto, TheSameBitsForSeveralThreadsAtOnce) {
  if (!has_openblas()) GTEST_SKIP() << "there is no OpenBLAS here";
  const OneThread one;
  const Multiplying multiplying(kOpenblas);
  constexpr int kAll = 4, kTimes = 20;
  const auto left = at::randn({150, 300}), right = at::randn({300, 220});
  const auto product = [&] {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto to = at::empty({150, 220});
    multiply_into(to, left, right);
    return to;
  };
  auto expected = at::empty({150, 220});
  by_openblas(expected, left, right, false);
  EXPECT_TRUE(at::equal(product(), expected)) << "it is OpenBLAS's";
  {
    const Multiplying by_others(kMkl);
    EXPECT_FALSE(at::equal(product(), expected)) << "MKL's has other bits";
  }
  at::set_num_threads(2);
  EXPECT_FALSE(at::equal(product(), expected)) << "with several threads it is MKL's";
  at::set_num_threads(1);
  std::atomic<int> same{0};
  std::vector<std::thread> all;
  for (int i = 0; i < kAll; ++i)
    all.emplace_back([&] {
      for (int j = 0; j < kTimes; ++j) same += at::equal(product(), expected);
    });
  for (auto& each : all) each.join();
  EXPECT_EQ(same.load(), kAll * kTimes);
}

std::ptrdiff_t threads_of_this_process() { return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator()); }

constexpr int kNoOpenblas = 77;

/// It computes on the thread that calls it, whatever its user has told others, and whoever is started from here hears of nothing.
[[noreturn]] void open_openblas(const char* told, const char* why = "") {
  told == nullptr ? ::unsetenv("DDLBENCH_OPENBLAS") : ::setenv("DDLBENCH_OPENBLAS", told, 1);
  ::setenv("OPENBLAS_NUM_THREADS", "3", 1);
  at::set_num_threads(1);
  const auto threads = threads_of_this_process();
  if (told != nullptr && std::string(told) != "none") {
    try {
      has_openblas();
    } catch (const Error& error) {
      const std::string said = error.what();
      std::_Exit(said.find(told) != std::string::npos && said.find(why) != std::string::npos ? 0 : 1);
    }
    std::_Exit(2);
  }
  if (told != nullptr) std::_Exit(has_openblas() || openblas_missing() != "DDLBENCH_OPENBLAS is none" ? 3 : 0);
  if (has_openblas() != openblas_missing().empty()) std::_Exit(7);
  if (!has_openblas()) std::_Exit(kNoOpenblas);
  {
    auto to = at::empty({600, 600});
    by_openblas(to, at::ones({600, 600}), at::ones({600, 600}), false);
    if (!to.eq(600).all().item<bool>()) std::_Exit(4);
  }
  if (threads_of_this_process() != threads) std::_Exit(5);
  std::_Exit(std::string(std::getenv("OPENBLAS_NUM_THREADS")) == "3" ? 0 : 6);
}

TEST(OpenblasDeathTest, HasNoThreadsOfItsOwn) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  // Nothing here may open it before a process of its own does, which runs all that stands before its statement.
  EXPECT_EXIT(open_openblas("none"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(open_openblas("/no/such/file", "cannot open shared object file"), testing::ExitedWithCode(0), "") << "what was named is said";
  EXPECT_EXIT(open_openblas("libm.so.6", "is no OpenBLAS"), testing::ExitedWithCode(0), "") << "a library without what is asked of it";
  EXPECT_EXIT(open_openblas(nullptr), [](int status) { return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == kNoOpenblas); }, "");
  if (!has_openblas()) GTEST_SKIP() << "there is no OpenBLAS here";
}

/// The gradient of a layer that is split among workers is a part of each row of the whole's.
TEST(LaidOutForProducts, CopiesPartsOfRowsWhereThatIsFaster) {
  const OneThread one;
  const auto part = at::randn({600, 512}).narrow(1, 128, 256), small = at::randn({8, 64}).narrow(1, 8, 16), whole = at::randn({600, 256});
  const auto is_copied = [](const at::Tensor& rows) {
    const auto laid_out = laid_out_for_products(rows);
    EXPECT_TRUE(at::equal(laid_out, rows));
    return laid_out.data_ptr() != rows.data_ptr();
  };
  {
    const Multiplying multiplying(kOnednn);
    if (multipliers() == kOnednn) {
      EXPECT_TRUE(is_copied(part));
      EXPECT_TRUE(laid_out_for_products(part).is_contiguous());
    }
    EXPECT_FALSE(is_copied(whole));
    EXPECT_FALSE(is_copied(whole.t()));
  }
  {
    const Multiplying multiplying({4'194'304});
    EXPECT_FALSE(is_copied(small));
  }
  const Multiplying multiplying(kMkl);
  EXPECT_FALSE(is_copied(part));
}

/// What lies behind is not touched: oneDNN has done so, for one row.
TEST(MultiplyInto, WritesNothingBehind) {
  const OneThread one;
  const at::AutoDispatchBelowADInplaceOrView below;
  constexpr std::int64_t kBehind = 64;
  constexpr double kUntouched = 7;
  for (const auto& chosen : {kOnednn, kOpenblas}) {
    const Multiplying multiplying(chosen);
    for (const std::int64_t rows : {1, 2, 3, 4, 7, 16, 65})
      for (const std::int64_t depth : {1, 5, 64, 1000})
        for (const std::int64_t columns : {1, 2, 5, 16, 63, 512, 4'099})
          for (const bool adds : {false, true})
            for (const bool turned : {false, true}) {
              auto memory = at::full({rows * columns + kBehind}, kUntouched);
              auto to = memory.narrow(0, 0, rows * columns).view({rows, columns});
              const auto right = turned ? at::randn({columns, depth}).t() : at::randn({depth, columns});
              multiply_into(to, at::randn({rows, depth}), right, adds);
              ASSERT_TRUE(memory.narrow(0, rows * columns, kBehind).eq(kUntouched).all().item<bool>()) << rows << " " << depth << " " << columns << " " << adds << turned;
            }
  }
  tell_who_multiplied();
}

/// Ranks that compute the same are to have the same bits, wherever memory lies.
TEST(MultiplyInto, TheSameBitsWhereverMemoryLies) {
  const OneThread one;
  const at::AutoDispatchBelowADInplaceOrView below;
  const std::int64_t rows = 65, depth = 130;
  for (const auto& [chosen, columns] : {std::pair<Multipliers, std::int64_t>{kMkl, 47}, {kOnednn, 47}, {kOpenblas, 47}, {kMkl, 4'099}}) {
    const Multiplying multiplying(chosen);
    const auto left = at::randn({rows, depth}), right = at::randn({depth, columns});
    auto first = at::empty({rows, columns});
    multiply_into(first, left, right);
    for (std::int64_t offset = 0; offset < 20; ++offset) {
      const auto moved = [&](const at::Tensor& matrix) {
        auto copy = at::empty({matrix.numel() + offset}).narrow(0, offset, matrix.numel()).view(matrix.sizes());
        return copy.copy_(matrix);
      };
      auto to = moved(first).zero_();
      multiply_into(to, moved(left), moved(right));
      EXPECT_TRUE(at::equal(to, first)) << offset << " " << chosen.onednn_from << " " << chosen.openblas_from;
    }
  }
  tell_who_multiplied();
}

// A row that has a NaN has one in all that is made of it, whatever follows: a loss that is none is to be seen.
TEST(MultiplyWithBias, KeepsWhatIsNoNumber) {
  const OneThread one;
  at::manual_seed(3);
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const bool rectifies : {false, true}) {
      auto rows = at::randn({64, 48}).to(type);
      rows[3][5] = std::numeric_limits<float>::quiet_NaN();
      const auto weight = at::randn({40, 48}).to(type), bias = at::randn({40});
      for (const auto& chosen : {kOnednn, kOpenblas, kMkl}) {
        const auto from = to_json(chosen).dump();
        const auto before = multipliers();
        use_multipliers(chosen);
        const auto made = multiply_with_bias(rows, weight, bias);
        const auto got = multiply_with_bias(rows, weight, bias, rectifies);
        use_multipliers(before);
        // Whoever multiplied: where oneDNN does not (use_multipliers()), both are MKL's.
        const auto expected = at::linear(rows.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble));
        for (std::int64_t row = 0; row < rows.size(0); ++row) {
          if (row == 3) continue;
          EXPECT_LE((made[row].to(at::kDouble) - expected[row]).abs().max().item<double>(), type == at::kFloat ? 1e-4 : 0.2) << from << " row " << row;
          EXPECT_TRUE(at::equal(got[row], rectifies ? made[row].relu() : made[row])) << from << " row " << row;
        }
        EXPECT_TRUE(got[3].isnan().all().item<bool>());
        EXPECT_EQ(got.isnan().sum().item<std::int64_t>(), 40);
      }
    }
}

}  // namespace
}  // namespace ddl
