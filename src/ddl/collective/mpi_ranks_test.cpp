#include <fcntl.h>

#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>

#include "ddl/collective/testing.h"
#include "ddl/transport/mpi/mpi.h"

// The conformance suites with ranks that mpirun or srun started as processes, over MPI: every process runs this program, and
// every process judges what all ranks met with. Ranks that die or stop: mpi_death_test.cpp.
//
// usage: mpirun -n P mpi_ranks_test [implementation=NAME] [--gtest_…]
//        mpirun -n P mpi_ranks_test [implementation=NAME] scenario=names

namespace ddl {
namespace {

using testing::buffer_of;
using testing::failure;
using testing::require;
using testing::run_group;
using testing::run_ranks;

/// Longer than a test on busy cores takes.
constexpr Seconds kMeeting{120};
constexpr int kCounters = 4096;

class MpiRanks final : public testing::LaunchedRanks {
 public:
  explicit MpiRanks(const std::string& implementation) : everyone_(mpi_rendezvous(implementation)) {
    // Zeros that all ranks of this host share.
    std::string path = fmt::format("/dev/shm/ddlbench-test-{}", ::getpid());
    const int made = rank() == 0 ? ::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600) : -1;
    if (rank() == 0 && (made < 0 || ::ftruncate(made, kBytes) != 0)) throw system_error("cannot make " + path, errno);
    path = everyone_->exchange(path, kMeeting)[0];
    const int fd = rank() == 0 ? made : ::open(path.c_str(), O_RDWR);
    if (fd < 0) throw system_error("cannot open " + path, errno);
    void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    everyone_->exchange("open", kMeeting);
    if (rank() == 0) ::unlink(path.c_str());
    ::close(fd);
    counters_ = static_cast<std::atomic<int>*>(memory);
  }

  int rank() const { return everyone_->rank(); }
  int most() const override { return everyone_->size(); }
  std::vector<std::string> transports() const override { return {"mpi"}; }

  testing::Outcomes run(int ranks, const std::function<void(Rendezvous&)>& body) override {
    if (ranks > most()) throw Error(Code::invalid_argument, fmt::format("{} ranks of {}", ranks, most()));
    std::string mine;
    if (rank() < ranks) {
      try {
        std::vector<int> members(static_cast<std::size_t>(ranks));
        for (int each = 0; each < ranks; ++each) members[static_cast<std::size_t>(each)] = each;
        const auto meeting = mpi_rendezvous({}, members);
        body(*meeting);
      } catch (const Error& error) {
        mine = fmt::format("{}\n{}", name(error.code()), error.what());
      }
    }
    const auto all = everyone_->exchange(mine, kMeeting);
    testing::Outcomes outcomes(static_cast<std::size_t>(ranks));
    for (std::size_t each = 0; each < outcomes.size(); ++each)
      if (const auto end = all[each].find('\n'); end != std::string::npos)
        outcomes[each] = Error(code_from_name(all[each].substr(0, end)), all[each].substr(end + 1));
    return outcomes;
  }

  std::unique_ptr<Rendezvous> meeting_of(const std::vector<int>& ranks) override { return mpi_rendezvous({}, ranks); }

  std::atomic<int>& counter() override {
    if (next_ == kCounters) throw Error(Code::io, "no counter is left");
    return counters_[next_++ * 16];
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{kCounters} * 64;
  std::unique_ptr<Rendezvous> everyone_;
  std::atomic<int>* counters_ = nullptr;
  std::size_t next_ = 0;
};

TEST(MpiRanks, StartsOtherTransportsToo) {
  for (const auto* const transport : {"tcp", "shm"}) {
    const auto outcomes = run_group(transport, testing::most_ranks(), [](Communicator& group) {
      std::vector<float> data(1000, 1);
      group.run({Goal::all_reduce}, buffer_of(std::span(data)));
      require(data == std::vector<float>(1000, static_cast<float>(group.size())), "sum");
    });
    EXPECT_EQ(failure(outcomes), "") << transport;
  }
}

TEST(MpiRanks, MovesMessagesOfManyPieces) {
  const auto outcomes = run_group("mpi", testing::most_ranks(), [](Communicator& group) {
    std::vector<float> data(5'000'003);
    for (const std::string word : {"ring", "direct", "native", "native[meet=off]"}) {
      for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 1013 + static_cast<std::size_t>(group.rank()));
      group.run({Goal::all_reduce, ReduceOp::max, word}, buffer_of(std::span(data)));
      for (std::size_t i = 0; i < data.size(); ++i)
        require(data[i] == static_cast<float>(i % 1013 + static_cast<std::size_t>(group.size() - 1)), word);
    }
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST(MpiRanks, RunsNativeCollectivesOfGroupsBesideEachOther) {
  const int ranks = testing::most_ranks();
  const auto outcomes = run_group("mpi", ranks, [&](Communicator& all) {
    std::vector<int> backwards;
    for (int rank = ranks; rank-- > 0;) backwards.push_back(rank);
    const auto other = all.group(backwards);
    std::vector<double> a(3000, 1), b(3000, 2);
    for (int round = 0; round < 20; ++round) {
      const auto first = all.start({Goal::all_reduce, ReduceOp::average, "native"}, buffer_of(std::span(a)));
      const auto second = other->start({Goal::all_reduce, ReduceOp::average, "native"}, buffer_of(std::span(b)));
      first.wait();
      second.wait();
    }
    require(a == std::vector<double>(3000, 1) && b == std::vector<double>(3000, 2), "averages");
    other->start({Goal::barrier, ReduceOp::sum, "native"}, {}).wait();
    // As of a ring, since a library tells nobody: 2 (P-1)/P of the buffer.
    require(all.bytes_sent({Goal::all_reduce, ReduceOp::sum, "native"}, 3000, ElementType::fp64) == 2LL * (all.size() - 1) * 3000 * 8 / all.size(), "bytes");
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST(MpiRanks, SaysWhatNativeCannotDo) {
  const auto outcomes = run_group("mpi", testing::most_ranks(), [](Communicator& group) {
    const auto said = [&](Goal goal, std::string_view word) {
      float value = 0;
      try {
        group.run({goal, ReduceOp::sum, word, 1, 0, 0}, {reinterpret_cast<std::byte*>(&value), 1, ElementType::fp32});
      } catch (const Error& error) {
        return std::string(name(error.code()));
      }
      return std::string("took it");
    };
    require(said(Goal::point_to_point, "native") == "unsupported", "point-to-point");
    require(said(Goal::all_reduce, "native[meet=maybe]") == "invalid_argument", "a bad value");
    require(said(Goal::all_reduce, "native[met=off]") == "invalid_argument", "a bad option");
    require(said(Goal::all_reduce, "native") == "took it", "usable afterwards");
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST(MpiRanks, RefusesASecondMpiInOneProcess) {
  const auto& world = MpiWorld::join({});
  const std::string other = world.implementation() == "openmpi" ? "mpich" : "openmpi";
  try {
    MpiWorld::join(other);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument) << error.what();
  }
}

/// Prints which MPI this rank is in, and as what.
int say_names(const std::string& implementation) {
  const auto& world = MpiWorld::join(implementation);
  std::printf("rank %d of %d: %s: %s\n", world.rank(), world.size(), world.implementation().c_str(), world.library().c_str());
  return 0;
}

/// Of ranks other than 0 only failures are printed.
class OnlyFailures final : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (result.failed()) std::fprintf(stderr, "%s:%d: %s\n", result.file_name(), result.line_number(), result.message());
  }
};

int run(int argc, char** argv) {
  std::string implementation, scenario;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("implementation=")) implementation = word.substr(15);
    if (word.starts_with("scenario=")) scenario = word.substr(9);
  }
  if (scenario == "names") return say_names(implementation);
  MpiRanks ranks(implementation);
  testing::launched = &ranks;
  ::testing::InitGoogleTest(&argc, argv);
  if (ranks.rank() != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new OnlyFailures);
  }
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace ddl

int main(int argc, char** argv) {
  try {
    return ddl::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mpi_ranks_test: %s\n", error.what());
    return 2;
  }
}
