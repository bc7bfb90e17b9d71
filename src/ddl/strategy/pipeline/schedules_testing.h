#pragma once

#include <string>
#include <vector>

#include "ddl/strategy/pipeline/schedules.h"

namespace ddl {

/// Whether a schedule is to take a shape, stated once more for tests.
inline bool takes(const std::string& name, const PipelineShape& shape) {
  if (name == "interleaved-1f1b") return shape.chunks >= 2 && shape.micro_batches % shape.workers == 0;
  if (name == "looped-bfs") return true;
  if (name == "zbv" || name == "dualpipev") return shape.chunks == 2;
  if (name == "pipedream") return shape.chunks == 1 && shape.micro_batches == 1;
  if (name == "pipedream-2bw") return shape.chunks == 1 && shape.micro_batches >= shape.workers;
  return shape.chunks == 1;
}

inline std::vector<PipelineShape> all_shapes() {
  std::vector<PipelineShape> shapes;
  for (const int workers : {1, 2, 3, 4, 8})
    for (const int micro_batches : {1, 2, 3, 4, 5, 8, 16, 24})
      for (const int chunks : {1, 2, 3}) shapes.push_back({workers, micro_batches, chunks});
  return shapes;
}

inline std::vector<PipelineShape> shapes_of(const std::string& name) {
  std::vector<PipelineShape> shapes;
  for (const auto& shape : all_shapes())
    if (takes(name, shape)) shapes.push_back(shape);
  return shapes;
}

/// Steps enough for the first ones to be over.
inline int settled_steps(const PipelineShape& shape) { return 2 * shape.workers + 2; }

}  // namespace ddl
