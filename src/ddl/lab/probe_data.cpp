#include "ddl/lab/probe_data.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/core/spec.h"
#include "ddl/core/statistics.h"
#include "ddl/data/loader.h"
#include "ddl/lab/record.h"
#include "ddl/measure/clock.h"
#include "ddl/measure/environment.h"
#include "ddl/predict/machine.h"
#include "ddl/probe/storage.h"

namespace ddl {
namespace {

/// Of a file that was to be forgotten, in memory all the same: more, and it was not storage that was measured.
constexpr double kForgotten = 0.05;

Json begun(const char* kind) {
  return {{"schema", "ddlbench.probe/1"}, {"kind", kind}, {"state", "ok"}, {"started", utc_now()}, {"environment", capture_environment()}, {kind, Json::array()}, {"failed", Json::array()}};
}

/// Each of `all`, and what of them failed.
Json measured(const char* kind, const std::vector<std::string>& all, const std::function<Json(const std::string&)>& measure) {
  auto document = begun(kind);
  for (const auto& each : all) {
    try {
      document[kind].push_back(measure(each));
    } catch (const Error& error) {
      document["failed"].push_back({{"what", each}, {"reason", error.what()}});
      document["state"] = "partial";
    }
  }
  if (document[kind].empty()) document["state"] = "failed";
  document["finished"] = utc_now();
  return document;
}

}  // namespace

Json probe_storage(const StorageProbe& probe) {
  return measured("storage", probe.folders, [&](const std::string& folder) {
    const auto times = measure_storage(folder, probe.bytes, probe.budget);
    if (times.resident > kForgotten)
      throw Error(Code::unsupported, fmt::format("[storage] {}: unsupported: {:.0f} % of what was written there stays in memory; a folder of files that lie elsewhere was expected", folder, 100 * times.resident));
    return Json{{"folder", std::filesystem::weakly_canonical(folder).string()}, {"measured", utc_now()}, {"bytes", probe.bytes}, {"bytes_per_s", times.bytes_per_s}, {"read_us", times.read_seconds * 1e6}};
  });
}

Json probe_loader(const LoaderProbe& probe) {
  return measured("loader", probe.datasets, [&](const std::string& name) {
    const auto data = open_dataset(parse_spec(name), {probe.folder, probe.synthetic, 1, 0, 0});
    const Sampler sampler(data.train->size(), std::min(probe.batch, data.train->size()), 1, true, 1);
    Loader loader(*data.train, [&](std::int64_t step) { return sampler.share(step, 0); }, 0, std::numeric_limits<std::int64_t>::max(), {0, 1, true});
    std::vector<double> took;  // s a sample
    const auto begin = now();
    // The first finds nothing in caches, and draws the order.
    for (int batch = 0; batch < 6 || (seconds(now() - begin) < probe.budget.value && batch < 10'000); ++batch) {
      const auto from = now();
      const auto made = loader.next();
      if (batch > 0 && made->samples > 0) took.push_back(seconds(now() - from) / static_cast<double>(made->samples));
    }
    return Json{{"dataset", name}, {"synthetic", probe.synthetic}, {"measured", utc_now()}, {"batch", probe.batch}, {"batches", took.size()}, {"sample_us", median(took) * 1e6}};
  });
}

void add_data_to_machine(Json& machine, const Json& document) {
  const auto kind = document.at("kind").get<std::string>();
  for (const auto& entry : document.at(kind)) add_entry(machine, kind, entry_keys(kind), entry);
}

}  // namespace ddl
