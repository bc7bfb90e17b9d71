#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/plan/schedule.h"
#include "ddl/predict/fit.h"
#include "ddl/predict/machine.h"

namespace ddl {

/// A collective that was timed.
struct TimedCollective {
  Goal goal = Goal::all_reduce;
  std::string algorithm;  ///< as users write it, without its goal
  std::size_t bytes = 0;
  double seconds = 0;
};

/// What a list of timed collectives comes to.
struct FittedPart {
  /// Of one of them.
  struct Row {
    bool native = false;    ///< a library's own: no schedule of ours, so that there is nothing to fit
    bool one_shot = false;  ///< in one pass over shared memory
    FitSample sample = {};
    double fitted = 0, simulated = 0;  ///< s, by the costs that were fitted
  };
  struct Fitted {
    bool one_shot = false;
    WireCost cost;
    double error = 0, held_out = 0;  ///< relative; held_out is negative where nothing could be held out
  };
  CommunicationPart part;
  std::vector<Row> rows;  ///< in the order of the list
  std::vector<Fitted> fits;
};

/// Unit costs, and which algorithm is fastest where, of one transport between so many ranks. `like`: its transport, ranks, memory and time; `shared`: whether the transport shares memory.
/// Errors: those of choose_algorithm() and fit().
FittedPart fit_part(CommunicationPart like, bool shared, const std::vector<TimedCollective>& timed);

/// An entry of a profile (`communication`) that is measured again, maybe of fewer collectives, algorithms or sizes: `later`, with what `earlier` (null where there was none) had timed besides, fitted together.
/// Of profiles that kept no times the choices stay of collectives that were not timed again, and then their costs, too. Of one that cannot be read nothing comes in.
Json joined(const Json& earlier, const Json& later);

}  // namespace ddl
