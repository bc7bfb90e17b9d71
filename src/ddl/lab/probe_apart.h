#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/core/units.h"
#include "ddl/train/control.h"

namespace ddl {

/// What processes of this program found out, which were started for that alone.
struct FoundApart {
  std::vector<Json> answers;    ///< by rank; all of them where `failed` is empty
  std::string failed;           ///< why, of the first to fail
  bool interrupted = false;
};

/// Runs `body` in so many processes at once, which may meet each other (ControlRendezvous), and leaves none of them. A signal to end ends them.
FoundApart find_apart(int ranks, const std::function<Json(Control&, int rank)>& body, Seconds patience);

}  // namespace ddl
