#include <benchmark/benchmark.h>

#include <vector>

#include <fmt/format.h>

#include "ddl/collective/reduce.h"

// The reduction kernels on one core: bytes per second of one operand, for every type. At 32 KiB the operands lie in the
// first-level cache, at 32 MiB they come from memory, whose bandwidth bounds them (three transfers per byte of an operand).

namespace ddl {
namespace {

void pair(benchmark::State& state, ReduceOp op, ElementType type, Scaling scaling) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> ours(bytes), theirs(bytes);
  for (auto _ : state) {
    reduce_into(op, type, ours.data(), theirs.data(), bytes / size_of(type), scaling);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void all_of(benchmark::State& state, int places) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::vector<std::byte>> memory(static_cast<std::size_t>(places), std::vector<std::byte>(bytes));
  std::vector<std::byte*> at;
  for (auto& each : memory) at.push_back(each.data());
  for (auto _ : state) {
    reduce_all(ReduceOp::sum, ElementType::fp32, at.data(), nullptr, places, bytes / 4, 1);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * places);
}

}  // namespace
}  // namespace ddl

int main(int argc, char** argv) {
  using namespace ddl;
  benchmark::Initialize(&argc, argv);
  for (const auto type : kElementTypes) {
    benchmark::RegisterBenchmark(fmt::format("sum/{}", name(type)).c_str(), pair, ReduceOp::sum, type, Scaling{})->Arg(32 << 10)->Arg(32 << 20);
    if (type != ElementType::int32 && type != ElementType::int64)
      benchmark::RegisterBenchmark(fmt::format("weighted/{}", name(type)).c_str(), pair, ReduceOp::weighted_sum, type, Scaling{0.5, 2, 1})->Arg(32 << 10);
  }
  for (const int places : {2, 4, 8}) benchmark::RegisterBenchmark(fmt::format("all/{}", places).c_str(), all_of, places)->Arg(32 << 10);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
