#include "ddl/train/graphable.h"

#include <algorithm>

namespace ddl {

std::string why_no_pass_graphs(const Plan& plan, int worker, const ModelGraph& graph) {
  if (!plan.split.empty()) return "layers in parts exchange values between their operations";
  if (plan.stages.size() > 1) return "what crosses from stage to stage comes from the host";
  if (plan.asynchronous()) return "weights change within a step";
  if (plan.in_process) return "workers that are threads of one process share their device's memory";
  if (plan.serving.servers > 0) return "parameters come from servers";
  if (plan.role_of(worker).keeps_parts()) return "what shards hold is gathered and let go within a step";
  if (std::any_of(graph.layers.begin(), graph.layers.end(), [](const Layer& layer) { return layer.kind == LayerKind::script; })) return "what a TorchScript file does is not known";
  if (std::any_of(graph.layers.begin(), graph.layers.end(), [](const Layer& layer) { return layer.attributes.milliseconds > 0; })) return "layers that wait are the host's time, which no launch takes again";
  return {};
}

}  // namespace ddl
