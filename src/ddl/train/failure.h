#pragma once

#include <exception>
#include <optional>
#include <string>

#include "ddl/core/json.h"
#include "ddl/plan/holdings.h"
#include "ddl/train/control.h"
#include "ddl/train/device_memory.h"

namespace ddl {

/// Who held how much when there was no memory for more.
struct Shortage {
  Holdings holds;
  DeviceMemory use;
  bool planned = false;  ///< it was before the first step: `holds` is what one would take
  Json memory;           ///< as records have it
};

/// The last word of a worker to its coordinator, if that is still there: MessageType::failed. `shortage`: where is_out_of_memory(error).
void tell_failure(Control& control, const std::exception& error, const std::optional<Shortage>& shortage);

}  // namespace ddl
