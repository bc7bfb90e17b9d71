#include "ddl/probe/compression.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ddl/collective/compressed_all_reduce.h"
#include "ddl/collective/compression/compressions.h"
#include "ddl/core/random.h"
#include "ddl/core/statistics.h"
#include "ddl/measure/clock.h"

namespace ddl {
namespace {

constexpr int kFewestCalls = 3, kMostCalls = 100;

/// The collectives of a compressed all-reduce, of as many bytes of fp32: what predictions price them as.
class PlainCollectives {
 public:
  PlainCollectives(Communicator& group, const std::string& compression, std::size_t elements) : group_(group) {
    const auto chosen = choose_compression(compression);
    const CompressedBuffer buffer{elements};
    const auto compressor = chosen.compression.fp32(chosen.spec, buffer);
    if (compressor == nullptr) return;
    const auto ranks = static_cast<std::size_t>(group.size());
    for (const auto& each : compressor->transfers(group.size())) {
      const std::size_t floats = (each.elements * size_of(each.type) + sizeof(float) - 1) / sizeof(float);
      // Cut into equal parts where ranks have their own.
      all_.push_back({each.goal, (floats + ranks - 1) / ranks * ranks});
      most_ = std::max(most_, all_.back().elements);
    }
    memory_ = group.transport().allocate(std::max<std::size_t>(1, most_) * sizeof(float));
    std::fill_n(reinterpret_cast<float*>(memory_.data()), most_, 0.0F);
  }

  void run() {
    for (const auto& each : all_) group_.run({each.goal, ReduceOp::sum, "auto"}, {memory_.data(), each.elements, ElementType::fp32});
  }

 private:
  struct Each {
    Goal goal;
    std::size_t elements;
  };
  Communicator& group_;
  std::vector<Each> all_;
  std::size_t most_ = 0;
  std::span<std::byte> memory_;
};

}  // namespace

CompressionSeconds time_compression(Communicator& group, const std::string& compression, std::size_t bytes, Seconds budget) {
  const std::size_t elements = std::max<std::size_t>(1, bytes / sizeof(float));
  Random random(7, static_cast<std::uint64_t>(group.rank()));
  std::vector<float> gradient(elements);
  for (float& value : gradient) value = random.normal();
  auto values = gradient;
  CompressedAllReduce compressed(group, compression);
  PlainCollectives plain(group, compression, elements);
  const auto call = [&] {
    std::copy(gradient.begin(), gradient.end(), values.begin());
    group.run({Goal::barrier}, {});
    const auto begin = now();
    compressed.run(0, as_buffer(std::span(values)), ReduceOp::average);
    return seconds(now() - begin);
  };
  const auto collectives = [&] {
    group.run({Goal::barrier}, {});
    const auto begin = now();
    plain.run();
    return seconds(now() - begin);
  };
  // The first makes what it keeps.
  call();
  collectives();
  std::int64_t calls = std::clamp(static_cast<int>(budget.value / std::max(call(), 1e-9)), kFewestCalls, kMostCalls);
  group.run({Goal::broadcast}, {reinterpret_cast<std::byte*>(&calls), 1, ElementType::int64});
  std::vector<double> whole, alone;
  for (std::int64_t i = 0; i < calls; ++i) {
    whole.push_back(call());
    alone.push_back(collectives());
  }
  return {median(whole), median(alone)};
}

}  // namespace ddl
