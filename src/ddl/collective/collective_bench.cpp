#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "ddl/collective/communicator.h"
#include "ddl/core/spec.h"
#include "ddl/core/statistics.h"
#include "ddl/core/units.h"
#include "ddl/transport/cores.h"
#include "ddl/transport/fabric.h"
#include "ddl/transport/mpi/implementations.h"
#include "ddl/transport/mpi/mpi.h"
#include "ddl/transport/testing.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// One transport, one algorithm, several sizes: microseconds of one all-reduce (fp32, sum, in place), one after the other in
// blocks, as the peers' programs in bench/peers do it; the median over blocks. Sums are checked before.
//
// usage: collective_bench [transport=shm|tcp[sockets=N]|inproc|limit] [ranks=2] [algorithm=auto] [memory=own|outside] [samples=N]
//                         [sockets=1] [fabric=hosts=4,bandwidth=1Gbps,latency=100us] BYTES…
//        mpirun -n P collective_bench transport=mpi[implementation=NAME]|tcp|shm algorithm=native|native[meet=off]|ring|… BYTES…
// prints: transport,algorithm,memory,ranks,bytes,median_us,low_us,high_us
//         and, with a fabric, bound_us,share: its all_reduce_bound() and that over the median
//
// With a fabric, ranks are on its hosts, in blocks of neighbours where they outnumber them; `ranks` is the number of hosts
// where it is not given. Takes root.
//
// `limit` is what the machine allows two ranks that share memory: each reads half of both buffers and writes the sum to
// both, in AVX-512, between two meetings on two cache lines.

namespace ddl {
namespace {

struct Options {
  std::map<std::string, std::string> words{{"transport", "shm"}, {"ranks", "2"}, {"algorithm", "auto"}, {"memory", "own"}, {"samples", "0"}, {"sockets", "1"}, {"fabric", ""}};
  std::vector<std::size_t> sizes;
  const Fabric* fabric = nullptr;
};

int host_of(const Options& options, int rank, int ranks) { return rank * options.fabric->hosts() / ranks; }

/// Where ranks meet without the transport's help: a line for each.
struct alignas(128) Flag {
  std::atomic<std::uint64_t> at{0};
};

class Meeting {
 public:
  /// Without flags, ranks that a launcher started meet by messages.
  Meeting(Flag* flags, int rank, int ranks, Communicator* group = nullptr) : group_(group), flags_(flags), rank_(rank), ranks_(ranks), yields_(spin_for(ranks) < 10'000) {}
  void meet() {
    if (flags_ == nullptr) return group_->run({Goal::barrier}, {});
    flags_[rank_].at.store(++at_, std::memory_order_release);
    for (int rank = 0; rank < ranks_; ++rank)
      while (flags_[rank].at.load(std::memory_order_acquire) < at_)
        if (yields_)
          ::sched_yield();
        else
          pause();
  }

 private:
  Communicator* group_;
  Flag* flags_;
  int rank_;
  int ranks_;
  bool yields_;
  std::uint64_t at_ = 0;
};

/// As in bench/peers: so many all-reduces in a block, and so many blocks.
std::pair<int, int> blocks_of(const Options& options, std::size_t bytes) {
  const int chosen = std::stoi(options.words.at("samples"));
  if (bytes <= (std::size_t{64} << 10)) return {100, chosen > 0 ? chosen : 101};
  if (bytes <= (std::size_t{4} << 20)) return {10, chosen > 0 ? chosen : 51};
  return {1, chosen > 0 ? chosen : 21};
}

/// Times `reduce` on `data`; prints on rank 0.
template <typename Reduce>
void measure(const Options& options, int rank, int ranks, Meeting& meeting, float* data, std::size_t bytes, const Reduce& reduce) {
  const std::size_t n = bytes / sizeof(float);
  const float sum = static_cast<float>(ranks * (ranks + 1)) / 2;
  for (int check = 0; check < 3; ++check) {
    std::fill(data, data + n, static_cast<float>(rank + 1));
    meeting.meet();
    reduce(data, n);
    meeting.meet();
    for (std::size_t i = 0; i < n; ++i)
      if (data[i] != sum) throw Error(Code::corrupt, fmt::format("{} bytes: element {}; got {}, expected {}", bytes, i, data[i], sum));
  }
  // Sums of zeros stay zeros, however often.
  std::fill(data, data + n, 0.0F);
  const auto [block, blocks] = blocks_of(options, bytes);
  std::vector<double> times;
  for (int i = -2; i < blocks; ++i) {
    meeting.meet();
    const auto begin = now();
    for (int k = 0; k < block; ++k) reduce(data, n);
    if (i >= 0) times.push_back(seconds(now() - begin) * 1e6 / block);
  }
  if (rank != 0) return;
  const auto summary = median_interval(times);
  std::printf("%s,%s,%s,%d,%zu,%.3f,%.3f,%.3f", options.words.at("transport").c_str(), options.words.at("algorithm").c_str(),
              options.words.at("memory").c_str(), ranks, bytes, summary.median, summary.low, summary.high);
  if (options.fabric != nullptr) {
    const double bound = all_reduce_bound(options.fabric->description(), {static_cast<std::int64_t>(bytes)}).value * 1e6;
    std::printf(",%.3f,%.4f", bound, bound / summary.median);
  }
  std::printf("\n");
  std::fflush(stdout);
}

void run_rank(const Options& options, Rendezvous& rendezvous, Flag* flags) {
  const int rank = rendezvous.rank(), ranks = rendezvous.size();
  TransportOptions wire{Seconds{30}, "bench"};
  if (options.fabric != nullptr) {
    const int host = host_of(options, rank, ranks);
    options.fabric->enter(host);
    wire = options.fabric->options(host, wire);
  }
  wire.sockets = std::stoi(options.words.at("sockets"));
  const auto chosen = choose_transport(options.words.at("transport"), wire);
  Communicator group(chosen.make(rendezvous, chosen.options), Seconds{60});
  Meeting meeting(flags, rank, ranks, &group);
  const std::size_t largest = *std::max_element(options.sizes.begin(), options.sizes.end());
  std::vector<float> outside(options.words.at("memory") == "own" ? 0 : largest / sizeof(float));
  auto* data = outside.empty() ? reinterpret_cast<float*>(group.transport().allocate(largest).data()) : outside.data();
  const std::string algorithm = options.words.at("algorithm");
  for (const auto bytes : options.sizes)
    measure(options, rank, ranks, meeting, data, bytes, [&](float* at, std::size_t n) {
      group.run({Goal::all_reduce, ReduceOp::sum, algorithm}, {reinterpret_cast<std::byte*>(at), n, ElementType::fp32});
    });
}

#if defined(__x86_64__)
[[gnu::target("avx512f")]] void sum_to_both(float* a, float* b, std::size_t n) {
  for (std::size_t i = 0; i < n; i += 16) {
    const __m512 sum = _mm512_add_ps(_mm512_load_ps(a + i), _mm512_load_ps(b + i));
    _mm512_store_ps(a + i, sum);
    _mm512_store_ps(b + i, sum);
  }
}
#else
void sum_to_both(float* a, float* b, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) a[i] = b[i] = a[i] + b[i];
}
#endif

void run_limit(const Options& options, Rendezvous& rendezvous, Flag* flags) {
  const int rank = rendezvous.rank();
  Meeting meeting(flags, rank, 2);
  const auto transport = builtin_transports().at("shm").make(rendezvous, {});
  const std::size_t largest = *std::max_element(options.sizes.begin(), options.sizes.end());
  const auto mine = transport->allocate(largest);
  std::vector<Shared> all(2);
  transport->share({mine}, all, Seconds{30}, {});
  auto* ours = reinterpret_cast<float*>(mine.data());
  auto* theirs = reinterpret_cast<float*>(all[static_cast<std::size_t>(1 - rank)].data);
  for (const auto bytes : options.sizes)
    measure(options, rank, 2, meeting, ours, bytes, [&](float*, std::size_t n) {
      const std::size_t half = n / 2 / 16 * 16;
      meeting.meet();
      sum_to_both(ours + (rank == 0 ? 0 : half), theirs + (rank == 0 ? 0 : half), rank == 0 ? half : n - half);
      meeting.meet();
    });
  transport->unshare(Seconds{30});
}

int run(int argc, char** argv) {
  Options options;
  bool ranks_given = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto equals = word.find('=');
    ranks_given |= word.starts_with("ranks=");
    if (equals == std::string::npos)
      options.sizes.push_back(static_cast<std::size_t>(std::stoull(word)));
    else if (options.words.contains(word.substr(0, equals)))
      options.words[word.substr(0, equals)] = word.substr(equals + 1);
    else
      throw Error(Code::invalid_argument, fmt::format("unknown option '{}'", word));
  }
  if (options.sizes.empty()) options.sizes = {1 << 10, 64 << 10, 512 << 10, 4 << 20, 32 << 20, 256 << 20};
  if (!mpi_of_launcher().empty()) {
    const auto implementation = parse_spec(options.words["transport"]).options["implementation"];
    run_rank(options, *mpi_rendezvous(implementation), nullptr);
    return 0;
  }
  std::optional<Fabric> fabric;
  if (const auto& description = options.words["fabric"]; !description.empty()) {
    if (options.words["transport"] != "tcp") throw Error(Code::invalid_argument, "a fabric carries transport=tcp alone");
    options.fabric = &fabric.emplace(description);
    if (!ranks_given) options.words["ranks"] = std::to_string(fabric->hosts());
  }
  const int ranks = std::stoi(options.words["ranks"]);
  auto* flags = static_cast<Flag*>(::mmap(nullptr, sizeof(Flag) * 64, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const auto body = options.words["transport"] == "limit" ? run_limit : run_rank;
  if (options.words["transport"] == "inproc") {
    const auto outcomes = testing::run_ranks(ranks, [&](Rendezvous& meeting) { body(options, meeting, flags); });
    if (const auto failed = testing::failure(outcomes); !failed.empty()) throw Error(Code::io, failed);
    return 0;
  }
  testing::ForkedTable table;
  std::vector<pid_t> others;
  // On a fabric nobody stays here: who has gone to a host does not come back to remove it.
  for (int rank = fabric ? 0 : 1; rank < ranks; ++rank)
    others.push_back(testing::fork_rank([&] {
      testing::ForkedTable::Seat seat(table, rank, ranks);
      body(options, seat, flags);
    }));
  if (!fabric) {
    testing::ForkedTable::Seat seat(table, 0, ranks);
    body(options, seat, flags);
  }
  int failed = 0;
  for (const pid_t other : others) failed |= testing::status_of(other);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ddl

int main(int argc, char** argv) {
  try {
    return ddl::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "collective_bench: %s\n", error.what());
    return 2;
  }
}
