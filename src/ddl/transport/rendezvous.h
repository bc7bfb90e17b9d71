#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ddl/core/units.h"

namespace ddl {

/// How ranks find each other before there is a transport: everyone gives a text, everyone gets all of them by rank.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Errors: timeout, peer_lost.
  virtual std::vector<std::string> exchange(const std::string& mine, Seconds timeout) = 0;
};

/// Ranks that are threads of this process: one Rendezvous for each, in rank order.
std::vector<std::unique_ptr<Rendezvous>> in_process_rendezvous(int ranks);

}  // namespace ddl
