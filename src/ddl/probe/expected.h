#pragma once

#include <optional>
#include <span>
#include <string>

#include "ddl/plan/schedule.h"

namespace ddl {

/// What rank `rank` puts in before a checked collective: small whole numbers, different by rank and place, so that fp32
/// sums of up to a thousand ranks are exact in every order.
void fill_for_check(std::span<float> data, int rank);

/// What is wrong with a rank's buffer afterwards; nothing where all is right. Only elements that the goal promises something
/// of are looked at.
std::optional<std::string> check_result(std::span<const float> data, Goal goal, const CollectiveShape& shape, int rank);

}  // namespace ddl
