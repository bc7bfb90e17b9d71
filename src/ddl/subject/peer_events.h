#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddl/measure/clock.h"

namespace ddl {

/// One step of one rank of a peer. Backward holds what of communication it does not hide.
struct PeerStep {
  std::int64_t step = 0;
  std::int64_t samples = 0;    ///< of this rank
  std::optional<double> loss;  ///< mean over them; nothing where there were none, or it is not finite
  Nanoseconds begin = 0, end = 0;
  double load_ms = 0, forward_ms = 0, backward_ms = 0, update_ms = 0;
};

struct PeerEpoch {
  std::int64_t epoch = 0;
  std::int64_t steps = 0;  ///< done until now
  std::optional<double> loss;
  std::optional<double> accuracy;
};

/// How a rank ended.
struct PeerDone {
  std::int64_t parameters = 0;
  std::string parameters_digest;
  std::int64_t peak_memory_bytes = 0;
  std::map<std::string, std::string> versions;
};

/// Everything one rank of an external subject has said: JSON lines on its standard output, as torch_ddp.py's head
/// describes them. Feed it as it comes.
class PeerEvents {
 public:
  /// Bytes in pieces of any size. An unknown event is ignored, as is an empty line.
  /// Errors: corrupt with the line's number and beginning, on what is not a known event's JSON.
  void feed(std::string_view bytes);
  /// At the end of the stream. Errors: corrupt where the rank said neither done nor error, or a step is missing.
  void finish();

  std::optional<Nanoseconds> ready;
  std::vector<PeerStep> steps;
  std::vector<PeerEpoch> epochs;
  std::optional<PeerDone> done;
  std::string error;  ///< what a rank said that failed

 private:
  void line(std::string_view text);

  std::string rest_;
  std::int64_t lines_ = 0;
  std::int64_t announced_ = 0;
};

/// Mean loss of the global batch, per step that all ranks have reported, from each rank's mean and count.
/// NaN where a rank's was not finite.
std::vector<double> global_losses(std::span<const PeerEvents> ranks);

}  // namespace ddl
