#include "ddl/lab/probe_teller.h"

#include <mutex>

namespace ddl {
namespace {

void tell(Control& control, const Json& what) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  control.send(MessageType::result, what.dump());
}

}  // namespace

ProbeEvents told_over(Control& control, int rank) {
  ProbeEvents told;
  told.joined = [&control](bool shares_memory) { tell(control, {{"shares_memory", shares_memory}}); };
  told.timed = [&control, rank](std::size_t number, const ProbeTimes& times) { tell(control, {{"rank", rank}, {"case", number}, {"times", times}}); };
  told.limit = [&control](std::size_t bytes, const ProbeLimits& limit) {
    tell(control, {{"limit", bytes}, {"exchange", limit.exchange}, {"one_way", limit.one_way}, {"reduce", limit.reduce}});
  };
  told.sent = [&control, rank](std::size_t number, std::int64_t bytes) { tell(control, {{"rank", rank}, {"case", number}, {"sent", bytes}}); };
  return told;
}

void tell_failure(Control& control, const Error& error) {
  try {
    control.send(MessageType::failed, Json{{"code", name(error.code())}, {"message", error.what()}}.dump());
  } catch (const Error&) {
    // Nobody is left to tell.
  }
}

int run_probe_rank(Control& control, const ProbeSettings& settings, int rank, int ranks) {
  return answered(control, [&] {
    ControlRendezvous rendezvous(control, rank, ranks);
    probe_rank(rendezvous, settings, told_over(control, rank));
  });
}

}  // namespace ddl
