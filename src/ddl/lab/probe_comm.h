#pragma once

#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/lab/run.h"
#include "ddl/plan/schedule.h"

namespace ddl {

/// What `probe comm` is to measure: every combination of these that makes sense.
struct CommunicationProbe {
  std::vector<std::string> transports;
  std::vector<Goal> goals;                  ///< empty: all
  std::vector<std::string> algorithms;      ///< as users write them; empty: all
  std::vector<int> ranks{2};
  std::vector<std::size_t> sizes;           ///< bytes of a rank's buffer; rounded down to what the goal can cut
  std::string fabric;                       ///< a test network, for tcp (transport/fabric_description.h); empty: none
  std::string memory = "own";              ///< of buffers: own, outside or evicted (probe/collectives.h)
  bool check = true;
  Seconds budget{0.1};                      ///< for one case
  Seconds timeout{60};                      ///< of one collective
};

/// Runs it, transport by transport, in processes of its own (threads for inproc), and returns the document
/// `ddlbench.probe/1` (docs/machine.md): `state` ok, partial (some transport failed; `failed` says why), failed or interrupted;
/// `results`, `fit`, `best`, and the `environment` they hold for. SIGINT ends it; what was complete is in the document.
/// `launched`: the ranks that a launcher started with this process, which must be as many as are asked for; null: there are none.
/// Errors: invalid_argument, not_found for what cannot be asked; unsupported where a launcher or a library is missing.
Json probe_communication(const CommunicationProbe& probe, const RunEvents& events, AgentHub* launched = nullptr);

/// Puts what the document says into a machine profile.
void add_to_machine(Json& machine, const Json& document);

}  // namespace ddl
