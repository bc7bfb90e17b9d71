#pragma once

#include <string>

#include "ddl/core/json.h"

namespace ddl {

/// What others took of a run's machine while it trained, in a line; empty where that was little, or is not known.
std::string disturbance_sentence(const Json& record);

}  // namespace ddl
