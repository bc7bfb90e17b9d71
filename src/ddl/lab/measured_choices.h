#pragma once

#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/train/job.h"

namespace ddl {

/// The all-reduces that were fastest over a transport, by a machine profile, between as many ranks as so many workers' groups may have: what "auto" stands for where a run follows that profile. Errors: corrupt.
std::vector<MeasuredChoice> measured_choices(const Json& machine, const std::string& transport, int workers);

}  // namespace ddl
