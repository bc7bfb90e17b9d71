#include "ddl/cli/plan.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/lab/build_info.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;

/// Opening a data set costs a fraction of a second: once for all experiments that read the same.
class Digests {
 public:
  /// Errors: as dataset_digest(), each time anew.
  const std::string& of(const Experiment& experiment) {
    const auto& job = experiment.job;
    const auto key = std::tuple(job.dataset, job.data_folder, job.synthetic, job.train_samples, job.test_samples,
                                job.synthetic ? job.seed : 0);
    auto found = known_.find(key);
    if (found == known_.end()) found = known_.emplace(key, dataset_digest(experiment)).first;
    return found->second;
  }

 private:
  std::map<std::tuple<std::string, std::string, bool, std::int64_t, std::int64_t, std::uint64_t>, std::string> known_;
};

}  // namespace

RunPlan plan_runs(const std::vector<Experiment>& experiments, Store* store, bool fresh) {
  std::map<std::string, std::vector<std::string>> ok, never_begun;
  if (store != nullptr)
    for (const auto& row : store->rows()) {
      if (row.state == "ok") ok[row.identity].push_back(row.id);
      // Those still `planned` belong to a sweep that runs now: the store has settled the abandoned ones.
      if (row.started.empty() && row.state == "interrupted") never_begun[row.identity].push_back(row.id);
    }
  RunPlan plan;
  Digests digests;
  for (const auto& experiment : experiments) {
    std::string data;
    try {
      data = digests.of(experiment);
    } catch (const Error& error) {
      // With one experiment there is nothing else to run; of a study, the others run, and this one's record says why not.
      if (experiments.size() == 1) throw;
    }
    const auto same = identity(experiment, build_identity(), data);
    auto& finished = ok[same];
    const std::size_t kept = fresh ? 0 : std::min(finished.size(), static_cast<std::size_t>(experiment.repeat));
    for (std::size_t i = 0; i < kept; ++i) plan.done.push_back(store->get(finished[finished.size() - kept + i]));
    for (int repeat = static_cast<int>(kept); repeat < experiment.repeat; ++repeat) {
      auto record = planned_record(experiment, same, data, repeat);
      auto& ids = never_begun[same];
      if (!ids.empty()) {
        record["id"] = ids.back();
        ids.pop_back();
      }
      plan.pending.push_back({experiment, std::move(record)});
    }
  }
  return plan;
}

Experiment experiment_of(const Json& record) {
  const auto text = [&](const char* key) {
    const auto found = record.find(key);
    return found != record.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const auto config = record.find("config");
  if (config == record.end() || !config->is_object())
    throw Error(Code::corrupt, fmt::format("[store] run {} has no configuration", text("id")));
  auto experiment = experiment_from(*config, record.value("provenance", Json()));
  experiment.study = text("study");
  experiment.name = text("case");
  return experiment;
}

std::vector<std::string> study_folders() {
  std::error_code ignored;
  const auto binary = fs::read_symlink("/proc/self/exe", ignored);
  std::vector<std::string> folders{"studies"};
  // Where they were installed; for a binary in a build folder, where they were written.
  for (const auto& folder : {binary.parent_path().parent_path() / "share/ddlbench/studies", fs::path(DDL_STUDY_FOLDER)})
    if (fs::is_directory(folder, ignored) && (!fs::is_directory("studies", ignored) || !fs::equivalent("studies", folder, ignored)))
      folders.push_back(folder.string());
  return folders;
}

std::string find_study(const std::string& path_or_name) {
  if (fs::exists(path_or_name)) return path_or_name;
  std::vector<std::string> known;
  for (const auto& folder : study_folders()) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      const auto stem = entry.path().stem().string();
      if (entry.path().extension() != ".yaml") continue;
      if (stem == path_or_name || entry.path().filename() == fs::path(path_or_name).filename()) return entry.path().string();
      known.push_back(stem);
    }
  }
  throw Error(Code::not_found, fmt::format("[study] no such file or study; got '{}'{}{}", path_or_name, did_you_mean(path_or_name, known),
                                           known.empty() ? ", expected a YAML file" : ", expected a YAML file or one of: " + join(known, " ")));
}

}  // namespace ddl
