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

/// Every layer over all workers, who see the same samples.
/// Options: split=megatron|channels|height|…|A+B, sequence=off|on, recompute=never|always.
/// Errors: invalid_argument where heads or groups do not divide, or the network has none of the dimensions, with what would do; unsupported for
/// optimizers that read norms of whole parameters, of which a worker has pieces.
/// Source: Shoeybi et al., Megatron-LM, 2019; Korthikanti et al. 2022; Shazeer et al., Mesh-TensorFlow, NeurIPS 2018.
Plan tensor_parallel(const StrategyInput& input) {
  require_own_options(input.spec, {"split", "sequence", "recompute"});
  const auto options = split_by_options(input);
  const auto recompute = recompute_option(input, {"never", "always"});
  if (input.workers == 1) return alone(input);
  require_whole_norms(input, input.workers);
  const auto part = split_graph(input.graph, options, 0, input.workers);
  Pipeline form;
  form.micro_batches = input.micro_batches;
  form.order = one_forward_one_backward().order({1, input.micro_batches});
  form.cuts = {0};
  form.recompute = recompute;
  form.parts = input.workers;
  form.split = split_words(options);
  return pipeline_plan(of_part(input, part), form);
}

}  // namespace ddl
