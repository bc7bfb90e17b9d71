#include "ddl/train/shard_layout.h"

#include <algorithm>
#include <map>

#include "ddl/core/error.h"

namespace ddl {

std::vector<ShardLayout> shard_layouts(const Plan& plan, int worker, Network& network) {
  const auto& numbers = network.parameter_numbers();
  std::map<int, std::size_t> place;
  for (std::size_t i = 0; i < numbers.size(); ++i) place[numbers[i]] = i;
  const auto names = network.parameter_names();
  std::vector<ShardLayout> layouts;
  for (const auto& bucket : plan.role_of(worker).buckets) {
    ShardLayout layout{.bucket = bucket};
    for (const int number : bucket.parameters) {
      const auto i = place.at(number);
      const auto& parameter = network.parameters()[i];
      if (!parameter.is_non_overlapping_and_dense() || parameter.storage_offset() != 0 || parameter.storage().nbytes() != parameter.nbytes())
        throw Error(Code::unsupported, fmt::format("[shards] unsupported: '{}' has no dense memory of its own, and cannot be kept in parts; expected strategy data", names[i]));
      const auto elements = static_cast<std::size_t>(parameter.numel());
      layout.parameters.push_back({i, layout.elements, elements, {}});
      layout.elements += elements;
    }
    const bool axis = plan.mesh.find("sharded") >= 0;
    layout.own = part_of(layout.elements, axis ? plan.mesh.size("sharded") : plan.workers(), axis ? plan.mesh.coordinate("sharded", worker) : worker);
    for (auto& [number, offset, elements, own] : layout.parameters) {
      const auto begin = std::clamp(layout.own.begin, offset, offset + elements), end = std::clamp(layout.own.end, offset, offset + elements);
      own = {begin - offset, end - offset};
    }
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

at::Tensor own_part(const at::Tensor& own, const ShardLayout& layout, const ShardLayout::Parameter& which, const at::Tensor& parameter) {
  if (which.own.size() == 0) return own.narrow(0, 0, 0);
  const auto begin = which.offset + which.own.begin - layout.own.begin;
  const auto part = own.narrow(0, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(which.own.size()));
  return parameter.dim() > 1 ? part.unsqueeze(0) : part;
}

}  // namespace ddl
