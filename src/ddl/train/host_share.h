#pragma once

#include <optional>

#include "ddl/core/json.h"
#include "ddl/measure/clock.h"
#include "ddl/measure/host_time.h"

namespace ddl {

/// Who had the cores of a worker's host while it trained.
class HostShare {
 public:
  void begin();
  /// {own_share, busy_share, stolen_share} since then, of all cores' time (docs/record.md); nulls where that was too short for what the kernel counts in, or it does not say.
  Json json() const;

 private:
  std::optional<HostTime> host_;
  double own_ = 0;
  Nanoseconds begun_ = 0;
};

}  // namespace ddl
