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

  /// Those who add up gradients that are at so many places, each whole or, where `summands`, a summand of it: with their replicas, and all parts that have a
  /// summand. Those of several places are one group, made when first asked for and named `name`, however many stages they share.
  int adding_up(const std::vector<int>& places, bool summands, std::string_view name);

  const Mesh& mesh() const { return mesh_; }
  const std::vector<Group>& all() const { return groups_; }
  int shards() const { return shards_; }  ///< replicas that keep a part of the optimizer's each; kNone where there are no shards
  int parts() const { return parts_; }    ///< that compute a stage together; kNone where layers are whole

 private:
  int add_axis(const char* name, int size);
  int add_group(std::string name, std::vector<Group::Along> along);

  Mesh mesh_;
  std::vector<Group> groups_;
  int shards_ = kNone, parts_ = kNone;
  int replicas_ = kNone, summands_ = kNone;                   ///< who adds up what one place has
  int tensor_axis_ = kNone;
  std::map<std::pair<std::vector<int>, bool>, int> several_;  ///< places, and whether summands
};

}  // namespace ddl
