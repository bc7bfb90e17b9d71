#include "ddl/strategy/pipeline_tasks/groups.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ddl {
namespace {

constexpr int kPipelineAxis = 0, kDataAxis = 1;

}  // namespace

PipelineGroups::PipelineGroups(const Pipeline& pipeline) {
  mesh_.axes = {{"pipeline", pipeline.order.workers()}, {"data", pipeline.replicas}};
  // Group 0 is everyone: what is told with control().
  add_group("everyone", {{kPipelineAxis}, {kDataAxis}});
  replicas_ = add_group("replicas", {{kDataAxis}});
  if (pipeline.shards > 1) {
    shards_axis_ = add_axis("sharded", pipeline.shards);
    shards_ = add_group("shards", {{shards_axis_}});
  }
  if (pipeline.parts_of_stage() == 1) return;
  const auto numbered = [&](const char* name, std::size_t axis) { return pipeline.parts.size() == 1 ? std::string(name) : fmt::format("{} {}", name, axis + 1); };
  for (std::size_t axis = 0; axis < pipeline.parts.size(); ++axis) {
    part_axes_.push_back(add_axis(numbered("tensor", axis), pipeline.parts[axis]));
    parts_.push_back(add_group(numbered("parts", axis), {{part_axes_.back()}}));
  }
  // Of one axis the group is there whether or not it is asked for.
  if (part_axes_.size() == 1) of_summands({0});
}

int PipelineGroups::adding_up(const std::vector<int>& places, const std::vector<int>& summed_along, std::string_view name) {
  if (places.size() == 1) return summed_along.empty() ? replicas_ : of_summands(summed_along);
  const auto [found, is_new] = several_.try_emplace({places, summed_along}, static_cast<int>(groups_.size()));
  if (is_new) {
    std::vector<Group::Along> along{{kPipelineAxis, places}, {kDataAxis}};
    for (const int axis : summed_along) along.push_back({part_axes_[static_cast<std::size_t>(axis)]});
    add_group(fmt::format("{} {}", name, several_.size() - 1), std::move(along));
  }
  return found->second;
}

int PipelineGroups::of_pieces() {
  if (pieces_ != kNone) return pieces_;
  if (part_axes_.empty()) return pieces_ = shards_;
  if (part_axes_.size() == 1 && shards_ == kNone) return pieces_ = parts_.front();
  std::vector<Group::Along> along;
  if (shards_ != kNone) along.push_back({shards_axis_});
  for (const int axis : part_axes_) along.push_back({axis});
  return pieces_ = add_group("pieces", std::move(along));
}

int PipelineGroups::of_summands(const std::vector<int>& summed_along) {
  const auto [found, is_new] = summands_.try_emplace(summed_along, static_cast<int>(groups_.size()));
  if (is_new) {
    std::vector<Group::Along> along{{kDataAxis}};
    for (const int axis : summed_along) along.push_back({part_axes_[static_cast<std::size_t>(axis)]});
    std::vector<int> numbers;
    for (const int axis : summed_along) numbers.push_back(axis + 1);
    add_group(part_axes_.size() == 1 ? "summands" : fmt::format("summands {}", fmt::join(numbers, "+")), std::move(along));
  }
  return found->second;
}

int PipelineGroups::add_axis(std::string name, int size) {
  const int axis = static_cast<int>(mesh_.axes.size());
  mesh_.axes.push_back({std::move(name), size});
  groups_.front().along.push_back({axis});
  return axis;
}

int PipelineGroups::add_group(std::string name, std::vector<Group::Along> along) {
  groups_.push_back({std::move(name), std::move(along)});
  return static_cast<int>(groups_.size()) - 1;
}

}  // namespace ddl
