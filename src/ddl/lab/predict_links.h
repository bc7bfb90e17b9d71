#pragma once

#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/nn/graph.h"
#include "ddl/plan/plan.h"
#include "ddl/predict/link_bytes.h"
#include "ddl/train/job.h"

namespace ddl {

/// What a job's steps move, and over what.
struct JobLinks {
  std::vector<PairBytes> pairs;
  std::vector<LinkUse> links;
};

/// `part`: what worker 0 has of the network, whose gradients a compression of the job's cuts short. `per_node` as predict_job() has it. Collectives are counted by the algorithms that the job's workers would take; a datasheet's library by rings.
/// Errors: not_found for an algorithm that there is not.
JobLinks job_links(const Job& job, const Plan& plan, const ModelGraph& part, const Json& machine, int per_node = 0);

/// The one that is in use for the largest share of a step, or, where no rate is known, that most passes; null where there is none.
const LinkUse* busiest(const JobLinks& links, double seconds);

/// `links` of a prediction (docs/record.md) whose step takes so many seconds.
Json links_json(const JobLinks& links, double seconds);
/// "busiest link: wires of node 1, 12.3 MB a step each way, 31 % full"; empty where nothing is moved.
std::string links_words(const JobLinks& links, double seconds);

}  // namespace ddl
