#include <algorithm>
#include <array>
#include <numeric>

#include "ddl/core/error.h"
#include "ddl/strategy/choices.h"

namespace ddl {
namespace {

enum Axis : std::size_t { kData, kPipeline, kTensor, kSharded, kAxes };
using Mesh = std::array<int, kAxes>;
constexpr const char* kNames[] = {"data", "pipeline", "tensor", "sharded"};

std::vector<int> divisors(int number) {
  std::vector<int> all;
  for (int each = 1; each <= number; ++each)
    if (number % each == 0) all.push_back(each);
  return all;
}

std::vector<int> prime_factors(int number) {
  std::vector<int> all;
  for (int each = 2; each <= number; ++each)
    if (number % each == 0) {
      all.push_back(each);
      while (number % each == 0) number /= each;
    }
  return all;
}

Choice choice_of(const Mesh& mesh) {
  Choice choice;
  for (std::size_t axis = 0; axis < kAxes; ++axis)
    if (mesh[axis] > 1) choice.options[kNames[axis]] = std::to_string(mesh[axis]);
  return choice;
}

/// The largest divisor that is no more than this.
int at_most(const std::vector<int>& all, int most) {
  int found = 1;
  for (const int each : all)
    if (each <= most) found = each;
  return found;
}

}  // namespace

ChoiceAxis mesh_axis(const ChoiceInput& input, const MeshWish& uses, const MeshWish& needs, int layers) {
  const std::array<bool, kAxes> may{uses.data, uses.pipeline, uses.tensor, uses.sharded}, must{needs.data, needs.pipeline, needs.tensor, needs.sharded};
  const auto all = divisors(input.workers);
  std::map<Mesh, std::size_t> numbers;
  ChoiceAxis out{"mesh", {}};
  for (const int pipeline : all)
    for (const int tensor : divisors(input.workers / pipeline))
      for (const int sharded : divisors(input.workers / pipeline / tensor)) {
        const Mesh mesh{input.workers / pipeline / tensor / sharded, pipeline, tensor, sharded};
        bool fits = pipeline <= layers && std::count_if(mesh.begin(), mesh.end(), [](int size) { return size > 1; }) > 1;
        for (std::size_t axis = 0; axis < kAxes; ++axis) fits = fits && (mesh[axis] == 1 || may[axis]) && (mesh[axis] > 1 || !must[axis]);
        if (!fits) continue;
        numbers.emplace(mesh, out.values.size());
        out.values.push_back(choice_of(mesh));
      }
  out.near.resize(out.values.size());
  const auto primes = prime_factors(input.workers);
  for (const auto& [mesh, number] : numbers)
    for (const int prime : primes)
      for (std::size_t from = 0; from < kAxes; ++from)
        for (std::size_t to = 0; to < kAxes; ++to) {
          if (from == to || mesh[from] % prime != 0) continue;
          auto other = mesh;
          other[from] /= prime;
          other[to] *= prime;
          if (const auto found = numbers.find(other); found != numbers.end()) out.near[number].push_back(found->second);
        }
  // As wide as a node in what exchanges most, then a few stages; and each axis as short as it can be.
  out.starts.clear();
  const auto start = [&](int pipeline, int tensor, int sharded) {
    if (input.workers % (pipeline * tensor * sharded) != 0) return;
    const auto found = numbers.find({input.workers / (pipeline * tensor * sharded), pipeline, tensor, sharded});
    if (found != numbers.end() && std::find(out.starts.begin(), out.starts.end(), found->second) == out.starts.end()) out.starts.push_back(found->second);
  };
  const auto short_one = all.size() > 1 ? all[1] : 1;
  const int wide = uses.tensor ? at_most(all, input.per_node) : 1;
  const int deep = uses.pipeline ? at_most(divisors(input.workers / wide), std::min(layers, 8)) : 1;
  start(needs.pipeline ? deep : 1, wide, 1);
  start(deep, wide, 1);
  start(uses.pipeline ? short_one : 1, 1, 1);
  start(1, uses.tensor ? short_one : 1, 1);
  start(1, 1, uses.sharded ? at_most(all, input.per_node) : 1);
  start(1, 1, uses.sharded ? short_one : 1);
  start(uses.pipeline ? short_one : 1, uses.tensor ? short_one : 1, 1);
  if (out.starts.empty() && !out.values.empty()) out.starts.push_back(0);
  return out;
}

}  // namespace ddl
