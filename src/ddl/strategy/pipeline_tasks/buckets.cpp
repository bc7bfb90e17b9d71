#include "ddl/strategy/pipeline_tasks/buckets.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/strategy/common.h"
#include "ddl/strategy/stages.h"

namespace ddl {
namespace {

/// Axes along which each part of a split network computes a summand of a gradient; none: each has all of it.
using SummedAlong = std::vector<int>;

std::vector<SummedAlong> summands_of(const ModelGraph& graph) {
  std::vector<SummedAlong> summands;
  for (const auto& spec : graph.parameter_specs()) summands.push_back(spec.partial_along);
  return summands;
}

/// Places that have a gradient, or summands of it. What is of the same ones is added up together.
struct Sharers {
  std::vector<int> places;
  SummedAlong summands = {};
  auto operator<=>(const Sharers&) const = default;
};

/// Parameters of which several places have copies for different stages.
std::map<Sharers, std::vector<int>> tied_parameters(const PipelineLayout& layout, const std::vector<SummedAlong>& summand) {
  std::map<Sharers, std::vector<int>> tied;
  for (const auto& [parameter, segments] : shared_parameters(layout.segments)) {
    std::set<std::vector<int>> users;
    std::vector<int> all;
    for (const int segment : segments)
      if (const auto some = layout.places_of(layout.stage_of_segment[at(segment)]); users.insert(some).second) all.insert(all.end(), some.begin(), some.end());
    if (users.size() < 2) continue;
    std::sort(all.begin(), all.end());
    tied[{all, summand[at(parameter)]}].push_back(parameter);
  }
  return tied;
}

void refuse_asynchronous(const StrategyInput& input, const Sharers& who, int parameter) {
  throw Error(Code::unsupported, fmt::format("[{}] unsupported: asynchronous stages cannot share a weight; got {} on workers {}, expected a network without tied weights, "
                                             "or a synchronous schedule", input.spec.name, input.graph.parameter_specs()[at(parameter)].name, fmt::join(who.places, ", ")));
}

/// Finds the buckets of one place after the other.
class Finder {
 public:
  Finder(const PipelineLayout& layout, PipelineGroups& groups)
      : layout_(layout), groups_(groups), summand_(summands_of(layout.input.graph)), kinds_(summand_.begin(), summand_.end()), tied_(tied_parameters(layout, summand_)) {
    if (layout.pipeline.asynchronous() && !tied_.empty()) refuse_asynchronous(layout.input, tied_.begin()->first, tied_.begin()->second.front());
    for (const auto& [who, parameters] : tied_) groups_.adding_up(who.places, who.summands, "tied");
  }

  std::vector<SummedBucket> at_place(int place) {
    found_.clear();
    taken_.clear();
    tied_to_others(place);
    const auto users = users_at(place);
    tied_within(place, users);
    for (const int stage : layout_.stages_at(place))
      for (const auto& summands : kinds_) of_stage(stage, summands, users);
    return std::move(found_);
  }

 private:
  /// Of what one place has alone: whether other workers of it have a part of the gradient.
  bool travels(int parameter) const { return layout_.pipeline.replicas > 1 || layout_.pipeline.shards > 1 || !summand_[at(parameter)].empty(); }

  void add_tied(const std::vector<int>& parameters, int group) {
    Bucket bucket{parameters, 0, kNone};
    for (const int parameter : parameters) bucket.bytes += layout_.parameter_bytes[at(parameter)];
    found_.push_back({std::move(bucket), group});
  }

  void tied_to_others(int place) {
    for (const auto& [who, parameters] : tied_) {
      if (std::find(who.places.begin(), who.places.end(), place) == who.places.end()) continue;
      taken_.insert(parameters.begin(), parameters.end());
      add_tied(parameters, groups_.adding_up(who.places, who.summands, "tied"));
    }
  }

  /// Segments of the place that use a parameter, ascending, by parameter.
  std::map<int, std::vector<int>> users_at(int place) const {
    std::map<int, std::vector<int>> users;
    for (const int segment : layout_.segments_at(place))
      for (const int parameter : layout_.segments[at(segment)].parameters) users[parameter].push_back(segment);
    return users;
  }

  void tied_within(int place, const std::map<int, std::vector<int>>& users) {
    for (const auto& summands : kinds_) {
      std::vector<int> several;
      for (const auto& [parameter, segments] : users)
        if (segments.size() > 1 && summand_[at(parameter)] == summands && travels(parameter) && taken_.insert(parameter).second) several.push_back(parameter);
      if (!several.empty()) add_tied(several, groups_.adding_up({place}, summands, "tied"));
    }
  }

  void of_stage(int stage, const SummedAlong& summands, const std::map<int, std::vector<int>>& users) {
    const auto places = layout_.places_of(stage);
    const auto& segments = layout_.segments_of_stage[at(stage)];
    std::vector<int> own;
    for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
      const auto& all = layout_.segments[at(*segment)].parameters;
      std::copy_if(all.rbegin(), all.rend(), std::back_inserter(own), [&](int parameter) {
        return summand_[at(parameter)] == summands && (places.size() > 1 || travels(parameter)) && taken_.insert(parameter).second;
      });
    }
    if (own.empty()) return;
    const int group = groups_.adding_up(places, summands, "replicas of a stage");
    for (auto& bucket : assign_buckets(layout_.parameter_bytes, own, kBucketCap, kBucketCap)) {
      // Of those that use it the first is the last in backward. Gradients of older weights are complete with the step alone.
      bucket.stage = layout_.pipeline.asynchronous() ? kNone : segments.back();
      for (const int parameter : bucket.parameters) bucket.stage = std::min(bucket.stage, users.at(parameter).front());
      found_.push_back({std::move(bucket), group});
    }
  }

  const PipelineLayout& layout_;
  PipelineGroups& groups_;
  std::vector<SummedAlong> summand_;              ///< by parameter
  std::set<SummedAlong> kinds_;                   ///< that there are
  std::map<Sharers, std::vector<int>> tied_;
  std::vector<SummedBucket> found_;               ///< of the place so far
  std::set<int> taken_;                           ///< parameters that are in one of them
};

}  // namespace

std::vector<std::vector<SummedBucket>> gradient_buckets(const PipelineLayout& layout, PipelineGroups& groups) {
  Finder finder(layout, groups);
  std::vector<std::vector<SummedBucket>> all;
  for (int place = 0; place < layout.places(); ++place) all.push_back(finder.at_place(place));
  return all;
}

}  // namespace ddl
