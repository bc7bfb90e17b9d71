#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/core/units.h"

namespace ddl {

/// What `probe storage` reads, in each of these folders.
struct StorageProbe {
  std::vector<std::string> folders;
  std::int64_t bytes = std::int64_t{256} << 20;
  Seconds budget{2};
};

/// What `probe loader` makes batches of.
struct LoaderProbe {
  std::vector<std::string> datasets;
  std::string folder;                ///< Job::data_folder
  bool synthetic = false;
  std::int64_t batch = 32;
  Seconds budget{1};
};

/// `ddlbench.probe/1` of kind storage: what each folder's storage gives one reader that finds nothing in memory. What fails is told, and the state is partial, or failed where nothing is left.
Json probe_storage(const StorageProbe& probe);

/// Of kind loader: what one thread of a loader takes for a sample, in batches in random order.
Json probe_loader(const LoaderProbe& probe);

/// Puts what either document says into a machine profile, in the place of an earlier entry of the same folder, or data set.
void add_data_to_machine(Json& machine, const Json& document);

}  // namespace ddl
