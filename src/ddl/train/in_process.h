#pragma once

#include "ddl/plan/plan.h"

namespace ddl {

/// Whether a worker is given what it computes with by another, so that it reads nothing of its batches itself.
bool is_given_inputs(const Plan& plan, int worker);

}  // namespace ddl
