#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddl/core/units.h"
#include "ddl/data/dataset.h"

namespace ddl {

/// What an external subject is to train; the meaning of each is that of Job's field of the same name.
struct PeerJob {
  std::string model = "lenet";  ///< lenet, resnet18
  int workers = 1;
  std::int64_t batch = 64;  ///< global
  std::int64_t steps = 0;   ///< 0: whole epochs
  std::int64_t epochs = 1;
  double learning_rate = 0.05;
  double momentum = 0.9;
  double weight_decay = 0;
  std::string learning_rate_schedule = "constant";  ///< constant; cosine: lr/2 (1 + cos(pi step / steps))
  bool evaluate = true;
  int threads = 1;
  std::uint64_t seed = 1;
  bool shuffle = true;
  Seconds collective_timeout{60};
  /// Initial parameters, one after the other in the order of the network's definition; empty: the peer's own.
  std::vector<float> weights = {};
};

/// How to start one rank: the words of its command, and variables on top of the caller's environment (KEY=value).
struct PeerCommand {
  std::vector<std::string> argv;
  std::vector<std::string> environment;
};

/// A peer's job in a folder of its own below the temporary folder, removed with this object: job.json, IDX files,
/// order, weights, and the rendezvous of its ranks. Keep it until all ranks have ended.
class PreparedPeer {
 public:
  /// Writes everything. Only samples that the run visits are written where steps say so, in the order of visits.
  /// Errors: unsupported where samples are not bytes or the peer has no such network; io, leaving nothing behind;
  /// invalid_argument as Sampler's.
  PreparedPeer(const PeerJob& job, const DatasetPair& data, std::string python, std::string script);
  ~PreparedPeer();
  PreparedPeer(PreparedPeer&& other) noexcept;
  PreparedPeer& operator=(PreparedPeer&&) = delete;

  const std::string& folder() const { return folder_; }
  /// One per rank.
  const std::vector<PeerCommand>& commands() const { return commands_; }

 private:
  PreparedPeer() = default;

  std::string folder_;
  std::vector<PeerCommand> commands_;
};

}  // namespace ddl
