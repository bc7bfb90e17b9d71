#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddl/plan/mesh.h"
#include "ddl/plan/plan.h"
#include "ddl/strategy/pipeline_tasks/pipeline_plan.h"

namespace ddl {

/// The grid that a pipeline's workers stand in, and who of them does collectives with whom. Members that are numbers are those of groups.
class PipelineGroups {
 public:
  explicit PipelineGroups(const Pipeline& pipeline);

  /// Those who add up gradients that are at so many places, each whole or a summand along some of the axes that layers are split over: with their replicas, and
  /// all parts that have a summand. Groups but of replicas are made when first asked for, those of several places named `name`, however many stages they share.
  int adding_up(const std::vector<int>& places, const std::vector<int>& summed_along, std::string_view name);

  const Mesh& mesh() const { return mesh_; }
  const std::vector<Group>& all() const { return groups_; }
  int shards() const { return shards_; }  ///< replicas that keep a part of the optimizer's each; kNone where there are no shards
  /// Who together have what a place has once, each a piece or a part of it: all parts and shards of one replica. Made when first asked for; kNone where each worker has all.
  int of_pieces();
  int parts(int axis) const { return parts_[static_cast<std::size_t>(axis)]; }  ///< that compute a stage together and differ along one axis that its layers are split over

 private:
  int add_axis(std::string name, int size);
  int of_summands(const std::vector<int>& summed_along);
  int add_group(std::string name, std::vector<Group::Along> along);

  Mesh mesh_;
  std::vector<Group> groups_;
  int shards_ = kNone, replicas_ = kNone, pieces_ = kNone;
  int shards_axis_ = kNone;                                               ///< of the mesh
  std::vector<int> part_axes_, parts_;                                    ///< of the mesh; groups
  std::map<std::vector<int>, int> summands_;                              ///< who adds up what one place has, by axes along which it is in summands
  std::map<std::pair<std::vector<int>, std::vector<int>>, int> several_;  ///< by places, and those axes
};

}  // namespace ddl
