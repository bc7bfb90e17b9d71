#include "ddl/probe/expected.h"

#include "ddl/core/error.h"

namespace ddl {
namespace {

float put_in(int rank, std::size_t at) { return static_cast<float>((rank + 1) * static_cast<int>(at % 13 + 1)); }

float sum_of(int ranks, std::size_t at) { return static_cast<float>(ranks * (ranks + 1) / 2 * static_cast<int>(at % 13 + 1)); }

}  // namespace

void fill_for_check(std::span<float> data, int rank) {
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = put_in(rank, i);
}

std::optional<std::string> check_result(std::span<const float> data, Goal goal, const CollectiveShape& shape, int rank) {
  std::optional<std::string> wrong;
  const auto expect = [&](Range range, const auto& value) {
    for (std::size_t i = range.begin; i < range.end && !wrong; ++i)
      if (data[i] != value(i)) wrong = fmt::format("rank {} element {} of {}; got {}, expected {}", rank, i, data.size(), data[i], value(i));
  };
  const Range all{0, data.size()};
  const auto part = [&](int of) { return part_of(data.size(), shape.ranks, of); };
  const auto sum = [&](std::size_t i) { return sum_of(shape.ranks, i); };
  const auto from = [&](int other) { return [other](std::size_t i) { return put_in(other, i); }; };
  switch (goal) {
    case Goal::all_reduce: expect(all, sum); break;
    case Goal::broadcast: expect(all, from(shape.root)); break;
    case Goal::barrier: break;
    case Goal::reduce:
      if (rank == shape.root) expect(all, sum);
      break;
    case Goal::reduce_scatter: expect(part(rank), sum); break;
    case Goal::all_gather:
      for (int other = 0; other < shape.ranks; ++other) expect(part(other), from(other));
      break;
    case Goal::gather:
      if (rank == shape.root)
        for (int other = 0; other < shape.ranks; ++other) expect(part(other), from(other));
      break;
    case Goal::scatter: expect(part(rank), from(shape.root)); break;
    case Goal::all_to_all: {
      const std::size_t mine = part(rank).begin;
      for (int other = 0; other < shape.ranks; ++other) {
        const std::size_t theirs = part(other).begin;
        expect(part(other), [&](std::size_t i) { return put_in(other, mine + (i - theirs)); });
      }
      break;
    }
    case Goal::point_to_point:
      if (rank == shape.peer) expect(all, from(shape.root));
      break;
  }
  return wrong;
}

}  // namespace ddl
