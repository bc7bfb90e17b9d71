#pragma once

#include <vector>

#include "ddl/plan/plan.h"
#include "ddl/strategy/pipeline_tasks/groups.h"
#include "ddl/strategy/pipeline_tasks/layout.h"

namespace ddl {

/// Gradients that a group adds up together.
struct SummedBucket {
  Bucket bucket;
  int group = kNone;
};

/// The gradients that workers of each place have a copy, a summand or their own samples' part of, in buckets, by place. First those that several of a place's
/// segments or other places use, whole, with Bucket::stage kNone; then those of each stage, cut at kBucketCap, from its last layers to the first, in which order
/// backward completes them (in an asynchronous pipeline the step does: kNone). What one worker has alone is in none. The groups that add them up are added to `groups`.
/// Errors: unsupported for an asynchronous order whose stages share a weight.
std::vector<std::vector<SummedBucket>> gradient_buckets(const PipelineLayout& layout, PipelineGroups& groups);

}  // namespace ddl
