#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddl/core/spec.h"
#include "ddl/nn/graph.h"
#include "ddl/plan/plan.h"
#include "ddl/plan/schedule.h"

namespace ddl {

/// What a strategy compresses its gradients by, as users write it; empty where it sends them as they are.
std::string compression_of(const Spec& strategy);

/// A collective that a compressed all-reduce is made of.
struct CompressedPart {
  Goal goal = Goal::all_reduce;
  std::int64_t bytes = 0;  ///< the whole buffer
};

/// The all-reduce of one bucket's gradients under a compression, between so many ranks: what collective/compressed_all_reduce.h does of it.
struct CompressedBucket {
  std::int64_t bytes = 0;      ///< of the gradients that are compressed
  std::vector<CompressedPart> parts = {};
  std::int64_t gathered = 0;   ///< of what goes to all, bytes that come with more ranks than two: each rank adds them up, too
  std::int64_t memory = 0;     ///< kept between calls: what was not sent yet, and what travels
};

/// `parameters`: of the network, those that train. Errors: those of choose_compression().
CompressedBucket compressed_bucket(const std::string& compression, const Bucket& bucket, const std::vector<ParameterSpec>& parameters, int ranks);

/// The same plan with the collectives of each compressed all-reduce of gradients in its place: for counting what is moved, not for running, since what tasks come after is not kept.
Plan compressed_moves(const Plan& plan, const std::string& compression, const std::vector<ParameterSpec>& parameters);

/// What a worker of this role keeps for its compression: each bucket's, and two copies of the largest.
std::int64_t compression_memory(const std::string& compression, const Role& role, const std::vector<ParameterSpec>& parameters, int ranks);

}  // namespace ddl
