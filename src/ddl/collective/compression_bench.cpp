#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "ddl/collective/compressed_all_reduce.h"
#include "ddl/core/random.h"
#include "ddl/core/statistics.h"
#include "ddl/core/text.h"
#include "ddl/transport/testing.h"

// Bytes, error and time of compressed all-reduces (fp32, average, in place) on numbers that are made as gradients are.
//
// usage: compression_bench [transport=shm|tcp|inproc] [ranks=2] [algorithm=auto] [calls=20] [samples=41]
//                          [tensors=256x2304/256/384x1024/384] COMPRESSION…
// prints: compression,transport,ranks,elements,sent_bytes,uncompressed_bytes,own_error,error,error_of_all,median_us,low_us,high_us
//
//   own_error     |x - C(x)| / |x| on rank 0 in the last of `calls` calls, x with what earlier ones left
//   error         |result - average| / |average| in the first call
//   error_of_all  the same of the sums over all calls: what error feedback delivers late is in it
//   *_us          of one call, as rank 0 sees it, a barrier before each; bytes are those that rank 0 sends in it
//
// A gradient of a layer is the sum over a batch of outer products of what goes back and what came in. Of 32 samples each,
// new in every call: d a^T, with d = (m + normal) * scale of the row and a = max(0, normal + 1/2) * scale of the column,
// as after a ReLU; m is normal, scales are exp(normal), both alike on all ranks and in all calls. Tensors of one
// dimension: the sum of d.

namespace ddl {
namespace {

struct Options {
  std::map<std::string, std::string> words{{"transport", "shm"}, {"ranks", "2"}, {"algorithm", "auto"}, {"calls", "20"}, {"samples", "41"},
                                           {"tensors", "256x2304/256/384x1024/384"}};
  std::vector<std::string> compressions;
  BucketLayout layout;
  std::size_t elements = 0;
};

void add_gradient(const MatrixShape& shape, std::uint64_t tensor, int rank, int call, float* into) {
  constexpr int kBatch = 32;
  Random fixed(tensor), drawn(tensor + 1000, static_cast<std::uint64_t>(call * 64 + rank));
  std::vector<float> mean(shape.rows), row_scale(shape.rows), column_scale(shape.columns), back(shape.rows), in(shape.columns);
  for (float& value : mean) value = fixed.normal();
  for (float& value : row_scale) value = std::exp(fixed.normal());
  for (float& value : column_scale) value = std::exp(fixed.normal());
  for (int sample = 0; sample < kBatch; ++sample) {
    for (std::size_t i = 0; i < shape.rows; ++i) back[i] = (mean[i] + drawn.normal()) * row_scale[i] / kBatch;
    for (std::size_t i = 0; i < shape.columns; ++i) in[i] = shape.columns == 1 ? 1 : std::max(0.0F, drawn.normal() + 0.5F) * column_scale[i];
    for (std::size_t row = 0; row < shape.rows; ++row)
      for (std::size_t i = 0; i < shape.columns; ++i) into[row * shape.columns + i] += back[row] * in[i];
  }
}

std::vector<float> gradient(const Options& options, int rank, int call) {
  std::vector<float> values(options.elements);
  float* at = values.data();
  for (std::size_t i = 0; i < options.layout.tensors.size(); ++i) {
    const auto& shape = options.layout.tensors[i];
    add_gradient(shape, i, rank, call, at);
    at += shape.rows * shape.columns;
  }
  return values;
}

/// |a - b| / |b|
double relative(const std::vector<double>& a, const std::vector<double>& b) {
  double lost = 0, all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    lost += (a[i] - b[i]) * (a[i] - b[i]);
    all += b[i] * b[i];
  }
  return std::sqrt(lost / all);
}

void measure(const Options& options, Communicator& group, const std::string& compression, const std::vector<std::vector<float>>& gradients,
             const std::vector<std::vector<double>>& averages) {
  const Collective meet{Goal::barrier};
  CompressionReport report;
  std::vector<double> first, all(options.elements), exact(options.elements);
  auto values = group.transport().allocate(options.elements * sizeof(float));
  const Buffer buffer{values.data(), options.elements, ElementType::fp32};
  auto* const floats = reinterpret_cast<float*>(values.data());
  CompressedAllReduce compressed(group, compression, {options.words.at("algorithm")});
  for (std::size_t call = 0; call < gradients.size(); ++call) {
    std::copy(gradients[call].begin(), gradients[call].end(), floats);
    report = compressed.run(0, buffer, ReduceOp::average, 1, options.layout);
    if (call == 0) first.assign(floats, floats + options.elements);
    if (averages.empty()) continue;
    for (std::size_t i = 0; i < options.elements; ++i) {
      all[i] += floats[i];
      exact[i] += averages[call][i];
    }
  }
  std::vector<double> times;
  const int samples = std::stoi(options.words.at("samples"));
  for (int i = -2; i < samples; ++i) {
    const auto& next = gradients[static_cast<std::size_t>(i + 2) % gradients.size()];
    std::copy(next.begin(), next.end(), floats);
    group.run(meet, {});
    const auto begin = now();
    compressed.run(0, buffer, ReduceOp::average, 1, options.layout);
    if (i >= 0) times.push_back(seconds(now() - begin) * 1e6);
  }
  if (group.rank() != 0) return;
  const auto time = median_interval(times);
  std::printf("\"%s\",%s,%d,%zu,%lld,%lld,%.3g,%.3g,%.3g,%.1f,%.1f,%.1f\n", compression.c_str(), options.words.at("transport").c_str(), group.size(),
              options.elements, static_cast<long long>(report.sent.value), static_cast<long long>(report.uncompressed.value),
              report.relative_error(), relative(first, averages[0]), relative(all, exact), time.median, time.low, time.high);
  std::fflush(stdout);
}

void run_rank(const Options& options, Rendezvous& rendezvous) {
  const int rank = rendezvous.rank(), ranks = rendezvous.size(), calls = std::stoi(options.words.at("calls"));
  Communicator group(builtin_transports().at(options.words.at("transport")).make(rendezvous, {Seconds{60}, "bench"}), Seconds{60});
  std::vector<std::vector<float>> gradients;
  std::vector<std::vector<double>> averages;
  for (int call = 0; call < calls; ++call) {
    gradients.push_back(gradient(options, rank, call));
    if (rank != 0) continue;
    averages.emplace_back(gradients.back().begin(), gradients.back().end());
    for (int other = 1; other < ranks; ++other) {
      const auto theirs = gradient(options, other, call);
      for (std::size_t i = 0; i < theirs.size(); ++i) averages.back()[i] += static_cast<double>(theirs[i]);
    }
    for (double& value : averages.back()) value /= ranks;
  }
  for (const auto& compression : options.compressions) measure(options, group, compression, gradients, averages);
}

int run(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto equals = word.find('=');
    if (equals == std::string::npos || equals > word.find('['))
      options.compressions.push_back(word);
    else if (options.words.contains(word.substr(0, equals)))
      options.words[word.substr(0, equals)] = word.substr(equals + 1);
    else
      throw Error(Code::invalid_argument, fmt::format("unknown option '{}'", word));
  }
  if (options.compressions.empty()) options.compressions = builtin_compressions().names();
  for (const auto& compression : options.compressions) choose_compression(compression);
  for (const auto& shape : split(options.words["tensors"], '/')) {
    const auto sides = split(shape, 'x');
    options.layout.tensors.push_back({std::stoul(sides[0]), sides.size() > 1 ? std::stoul(sides[1]) : 1});
    options.elements += options.layout.tensors.back().rows * options.layout.tensors.back().columns;
  }
  const int ranks = std::stoi(options.words["ranks"]);
  if (options.words["transport"] == "inproc") {
    const auto outcomes = testing::run_ranks(ranks, [&](Rendezvous& meeting) { run_rank(options, meeting); });
    if (const auto failed = testing::failure(outcomes); !failed.empty()) throw Error(Code::io, failed);
    return 0;
  }
  testing::ForkedTable table;
  std::vector<pid_t> others;
  for (int rank = 1; rank < ranks; ++rank)
    others.push_back(testing::fork_rank([&] {
      testing::ForkedTable::Seat seat(table, rank, ranks);
      run_rank(options, seat);
    }));
  testing::ForkedTable::Seat seat(table, 0, ranks);
  run_rank(options, seat);
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
    std::fprintf(stderr, "compression_bench: %s\n", error.what());
    return 2;
  }
}
