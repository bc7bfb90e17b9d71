#pragma once

#include <string>

#include "ddl/core/json.h"

namespace ddl {

/// How well a run's emulated workers kept to their profile's times, in a line; empty where none was emulated.
std::string emulation_sentence(const Json& record);

}  // namespace ddl
