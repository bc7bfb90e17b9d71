#pragma once

#include "ddl/plan/plan.h"
#include "ddl/strategy/pipeline_tasks/layout.h"

namespace ddl {

/// What a worker of a place holds: parameters once for each version, what the optimizer keeps of all or of its part of each bucket, the gradients
/// that are there when backward is over, and as activations what there is besides at the worst moment of the place's actions. Of the role its buckets are read;
/// Holdings::buckets is left as it is.
Holdings holdings_at(const PipelineLayout& layout, int place, const Role& role);

}  // namespace ddl
