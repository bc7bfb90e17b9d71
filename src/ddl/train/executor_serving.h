#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "ddl/train/executor.h"
#include "ddl/train/server_links.h"

namespace ddl {

/// What a worker has to do with servers of parameters.
struct Executor::Servers {
  std::vector<ServerAnswer> answers;        ///< by server
  /// By server: where its parameters lie here, one after the other as it has them. Empty where that is not on the host.
  std::vector<std::vector<std::span<std::byte>>> places;
  std::unique_ptr<ParameterServer> server;  ///< this worker's, where it has one
  std::unique_ptr<ServerLinks> links;       ///< last: they serve it
};

}  // namespace ddl
