#pragma once

#include <optional>
#include <span>

#include "ddl/core/json.h"
#include "ddl/train/measure_machine.h"

namespace ddl {

/// What a profile says of workers that do the same at once, from the times of each. Of several, process 0's first.

/// As they go from the process that took them to the one that puts figures together, and back.
Json to_json(const CompanyTimes& times);
CompanyTimes company_times(const Json& document);

/// What several lose together: the median of all over that of one alone, of a core's seconds where these were counted.
double slowdown_together(std::span<const CompanyTimes> workers);

/// Standard deviation of the logarithms, so that it is a ratio: what varies by a tenth does so whatever it takes. 0 of fewer than two.
double sigma_of_log(std::span<const double> times);

/// Of the logarithms of as many as both have, of most of them (robust_correlation()): moments in which the host takes the cores of all would make workers alike that are not. 0 where one does not vary.
double correlation_of_logs(std::span<const double> a, std::span<const double> b);

/// That between two; of more, the mean over pairs of neighbours.
double correlation_of_workers(std::span<const CompanyTimes> workers);

/// Of how a worker's steps vary, the share that comes and goes within a step, 0 to 1: forward and backward of the same step have the rest in common. None of too few steps to tell, 24.
std::optional<double> brief_share(std::span<const CompanyTimes> workers);

}  // namespace ddl
