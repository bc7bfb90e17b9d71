#pragma once

#include <string>

#include "ddl/predict/explain/causes.h"
#include "ddl/train/job.h"

namespace ddl {

/// What a user could change against a cause, naming the option; empty where nothing is known to help.
std::string advice_against(LossCause cause, const Job& job, const Plan& plan, int hosts);

}  // namespace ddl
