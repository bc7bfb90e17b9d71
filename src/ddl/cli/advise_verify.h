#pragma once

#include <set>
#include <vector>

#include "ddl/cli/output.h"
#include "ddl/lab/advise_words.h"
#include "ddl/lab/config.h"

namespace ddl {

/// Numbers of the points that are run: the fastest, of ways that are one strategy's and predicted alike the first alone; and what is advised, and one worker, whether they are among those or not. As predicted, the fastest first.
std::set<std::size_t> to_verify(const Advice& advice, int count);

/// Errors: unsupported unless the profile was measured, and of a machine like this one.
void require_own_machine(const Json& machine);

/// Runs the best `count` of an advice on this machine, one after the other, and keeps their records in the experiment's store: about two seconds of steps each, 20 at least and 1,000 at most, without
/// evaluation. `settings`: of the experiment as asked for. `interrupted`: whether the user ended it.
std::vector<VerifiedPoint> verify_advice(const Advice& advice, int count, const Settings& settings, const Output& output, bool& interrupted);

/// `ddlbench.advise/1`, verified[].
Json verified_json(const Advice& advice, const std::vector<VerifiedPoint>& verified);

}  // namespace ddl
