#include <utility>

#include "ddl/core/error.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/common.h"
#include "ddl/strategy/own_options.h"
#include "ddl/strategy/pipeline/schedules.h"
#include "ddl/strategy/pipeline_options.h"
#include "ddl/strategy/pipeline_tasks/pipeline_plan.h"
#include "ddl/strategy/split_parts.h"

namespace ddl {

namespace {

/// Places of each axis: all workers stand in the mesh that option `mesh` says, or along one axis.
std::vector<int> sizes_of(const StrategyInput& input) {
  const auto& options = input.spec.options;
  const auto words = options.find("split");
  const auto axes = words == options.end() ? 1 : split_options(input.spec).size();
  if (!options.contains("mesh")) {
    if (axes == 1) return {input.workers};
    throw Error(Code::invalid_argument, fmt::format("[tensor] dimensions of several axes want the mesh; got split={} without mesh for {} workers, expected mesh={}", words->second, input.workers,
                                                    meshes_for(input.workers, axes)));
  }
  const auto sizes = mesh_option(input.spec, "mesh");
  if (product(sizes) != input.workers)
    throw Error(Code::invalid_argument, fmt::format("[tensor] a mesh has as many places as there are workers; got mesh={} = {} for {} workers, expected mesh={}", options.at("mesh"), product(sizes),
                                                    input.workers, meshes_for(input.workers, sizes.size())));
  return sizes;
}

}  // namespace

/// Every layer over all workers, who see the same samples.
/// Options: split=megatron|channels|height|…|A+B, sequence=off|on, recompute=never|always; split=…/… of several axes, which mesh=2x3 says the sizes of.
/// Errors: invalid_argument for a mesh that does not match the workers, where heads or groups do not divide, or the network has none of an axis's dimensions, with what would do.
/// Source: Shoeybi et al., Megatron-LM, 2019; Korthikanti et al. 2022; Shazeer et al., Mesh-TensorFlow, NeurIPS 2018.
Plan tensor_parallel(const StrategyInput& input) {
  require_own_options(input.spec, {"split", "sequence", "recompute", "mesh"});
  const auto axes = split_by_options(input, sizes_of(input), "mesh");
  const auto recompute = recompute_option(input, {"never", "always"});
  if (input.workers == 1) return alone(input);
  const auto part = split_graph(input.graph, axes, 0);
  Pipeline form;
  form.micro_batches = input.micro_batches;
  form.order = one_forward_one_backward().order({1, input.micro_batches});
  form.cuts = {0};
  form.recompute = recompute;
  for (const auto& axis : axes) form.parts.push_back(axis.parts);
  form.split = split_words(axes);
  return pipeline_plan(of_part(input, part), form);
}

}  // namespace ddl
