#include "ddl/strategy/pipeline_tasks/groups.h"

#include <fmt/format.h>

namespace ddl {
namespace {

constexpr int kPipelineAxis = 0, kDataAxis = 1;

}  // namespace

PipelineGroups::PipelineGroups(const Pipeline& pipeline) {
  mesh_.axes = {{"pipeline", pipeline.order.workers()}, {"data", pipeline.replicas}};
  // Group 0 is everyone: what is told with control().
  add_group("everyone", {{kPipelineAxis}, {kDataAxis}});
  replicas_ = add_group("replicas", {{kDataAxis}});
  if (pipeline.shards > 1) shards_ = add_group("shards", {{add_axis("sharded", pipeline.shards)}});
  if (pipeline.parts > 1) {
    tensor_axis_ = add_axis("tensor", pipeline.parts);
    parts_ = add_group("parts", {{tensor_axis_}});
    summands_ = add_group("summands", {{kDataAxis}, {tensor_axis_}});
  }
}

int PipelineGroups::adding_up(const std::vector<int>& places, bool summands, std::string_view name) {
  if (places.size() == 1) return summands ? summands_ : replicas_;
  const auto [found, is_new] = several_.try_emplace({places, summands}, static_cast<int>(groups_.size()));
  if (is_new) {
    std::vector<Group::Along> along{{kPipelineAxis, places}, {kDataAxis}};
    if (summands) along.push_back({tensor_axis_});
    add_group(fmt::format("{} {}", name, several_.size() - 1), std::move(along));
  }
  return found->second;
}

int PipelineGroups::add_axis(const char* name, int size) {
  const int axis = static_cast<int>(mesh_.axes.size());
  mesh_.axes.push_back({name, size});
  groups_.front().along.push_back({axis});
  return axis;
}

int PipelineGroups::add_group(std::string name, std::vector<Group::Along> along) {
  groups_.push_back({std::move(name), std::move(along)});
  return static_cast<int>(groups_.size()) - 1;
}

}  // namespace ddl
