#include "ddl/lab/stored_samples.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/core/units.h"
#include "ddl/data/dataset.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/machine.h"

namespace ddl {

double storage_rate(const std::string& text) {
  if (text == "measured") return 0;
  const bool a_second = text.ends_with("/s");
  const auto rate = a_second ? parse_bytes(text.substr(0, text.size() - 2)).value : 0;
  if (rate <= 0) throw Error(Code::invalid_argument, fmt::format("what storage gives; got '{}', expected bytes a second, as in 50MB/s, or measured", text));
  return static_cast<double>(rate);
}

double usual_sample_bytes(const std::string& dataset) {
  const auto spec = parse_spec(dataset);
  if (spec.name == "imagenet") return 147'897'477'120.0 / 1'281'167;
  const auto shape = dataset_shape(spec, false);
  return static_cast<double>(shape.pixels() + (shape.objective == Objective::classification ? 1 : 0)) + 2.0 * (shape.source_length + shape.target_length);
}

namespace {

/// Of several that were measured the folder that the data lies in, or below. Errors: invalid_argument where it is in none of them.
const Json& storage_of(const Json& known, const std::string& data_folder) {
  if (known.size() == 1) return known.front();
  const auto data = std::filesystem::weakly_canonical(data_folder.empty() ? "." : data_folder);
  const Json* found = nullptr;
  std::size_t deepest = 0;
  std::vector<std::string> folders;
  for (const auto& entry : known) {
    folders.push_back(entry.value("folder", "?"));
    const std::filesystem::path folder(folders.back());
    const auto length = static_cast<std::size_t>(std::distance(folder.begin(), folder.end()));
    if (length > deepest && std::mismatch(folder.begin(), folder.end(), data.begin(), data.end()).first == folder.end()) {
      deepest = length;
      found = &entry;
    }
  }
  if (found == nullptr)
    throw Error(Code::invalid_argument, fmt::format("[predict] several storages were measured, and the data is in none of them; got --data {}, expected a folder in one of: {}; or say what it gives, as in --storage-rate 50MB/s", data_folder.empty() ? "." : data_folder, join(folders, " ")));
  return *found;
}

}  // namespace

Loading loading_of(const Job& job, const Json& machine, const StoredSamples& stored, int per_node) {
  Loading loading;
  loading.threads = job.loader_threads;
  if (!stored.asked) return loading;
  if (job.synthetic) throw Error(Code::invalid_argument, "[predict] samples that are made up are in no storage; got --synthetic and what storage gives, expected one of them");
  loading.sample_bytes = stored.sample_bytes > 0 ? stored.sample_bytes : usual_sample_bytes(job.dataset);
  loading.bytes_per_s = stored.bytes_per_s;
  if (loading.bytes_per_s <= 0) {
    const auto& known = entries(machine, "storage");
    if (known.empty()) throw Error(Code::not_found, "[predict] what storage gives was not measured: storage; run ddlbench probe storage --data FOLDER, or say it, as in --storage-rate 50MB/s");
    const auto& own = storage_of(known, job.data_folder);
    loading.bytes_per_s = own.at("bytes_per_s").get<double>();
    loading.read_seconds = own.value("read_us", 0.0) * 1e-6;
  }
  loading.making = stored.making;
  const bool measured = is_measured(machine);
  if (!loading.making && !measured) {
    const auto& known = entries(machine, "loader");
    const auto own = std::find_if(known.begin(), known.end(), [&](const Json& entry) { return entry.value("dataset", "") == job.dataset && !entry.value("synthetic", true); });
    if (own == known.end())
      throw Error(Code::not_found, fmt::format("[predict] what making a sample of {} takes is not in the profile: loader; run ddlbench probe loader --dataset {} there, or say it, as in --sample-time 1ms", job.dataset, job.dataset));
    loading.making = own->at("sample_us").get<double>() * 1e-6;
  }
  const int node = per_node > 0 ? per_node : measured ? 0 : static_cast<int>(term_or(machine, "node.devices", 0));
  for (int worker = 0; worker < static_cast<int>(job.workers.size()); ++worker) loading.places.push_back(stored.shared || node <= 0 ? 0 : worker / node);
  return loading;
}

}  // namespace ddl
