#include "ddl/cli/recorder.h"

#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <random>
#include <set>

#include "ddl/core/error.h"
#include "ddl/lab/build_info.h"

namespace ddl {
namespace {

std::string utc(const char* format, std::time_t seconds) {
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

/// Sorts by the moment it was made, to the microsecond: a study's runs keep their order.
std::string fresh_id() {
  timeval time{};
  ::gettimeofday(&time, nullptr);
  std::random_device entropy;
  return fmt::format("{}-{:05x}{:x}", utc("%Y%m%d-%H%M%S", time.tv_sec), time.tv_usec, entropy() & 0xFU);
}

const std::string kRescue = "ddlbench-rescue-";

/// Where records go that the store does not take, the nearest first.
std::vector<std::filesystem::path> rescue_folders(const std::string& store) {
  const char* temporary = std::getenv("TMPDIR");
  const auto beside = std::filesystem::path(store).parent_path();
  return {beside.empty() ? std::filesystem::path(".") : beside, temporary != nullptr && *temporary != '\0' ? temporary : "/tmp", "/dev/shm"};
}

}  // namespace

Recorder::Recorder(const std::string& store, const Output& output) : path_(store), output_(output) {
  if (store == "none") return;
  if (store.empty()) throw Error(Code::invalid_argument, "[store] no file; got '', expected a path or none");
  store_ = std::make_unique<Store>(store);
  store_->settle();
  take_back();
}

bool Recorder::keep(const Json& record) {
  if (!store_) return true;
  try {
    store_->put(record);
    return true;
  } catch (const std::exception& error) {
    // What has no data yet can be done again; it is not worth a rescue.
    const auto state = record.value("state", std::string());
    if (state == "planned" || state == "running") {
      print_error(fmt::format("{}; the run goes on, and its record will be rescued", error.what()));
    } else {
      rescue(record, error.what());
    }
    sound_ = false;
    return false;
  }
}

void Recorder::take_back() {
  std::set<std::string> unfinished;
  for (const auto& row : store_->rows())
    if (row.state != "ok") unfinished.insert(row.id);
  for (const auto& folder : rescue_folders(path_)) {
    std::error_code failed;
    for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
      const auto name = entry.path().filename().string();
      if (!name.starts_with(kRescue) || !name.ends_with(".json")) continue;
      if (!unfinished.contains(name.substr(kRescue.size(), name.size() - kRescue.size() - 5))) continue;
      try {
        store_->put(parse_json(read_file(entry.path().string()), entry.path().string()));
        std::filesystem::remove(entry.path(), failed);
        output_.say("taken back into the store: " + entry.path().string());
      } catch (const Error& error) {
        output_.say(fmt::format("not taken back: {}: {}", entry.path().string(), error.what()));
      }
    }
  }
}

void Recorder::rescue(const Json& record, const std::string& why) {
  const auto text = record.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  const auto file = kRescue + record.value("id", std::string("run")) + ".json";
  for (const auto& folder : rescue_folders(path_)) {
    const auto path = (folder / file).string();
    try {
      write_file(path, text);
      print_error(fmt::format("{}; the record is complete in {}", why, path));
      return;
    } catch (const Error&) {
      continue;  // the next place may have room
    }
  }
  print_error(fmt::format("{}; no place takes the record, so here it is: {}", why, text));
}

Json planned_record(const Experiment& experiment, const std::string& identity, const std::string& dataset_digest, int repeat) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return {{"schema", "ddlbench.run/1"},
          {"id", fresh_id()},
          {"state", "planned"},
          {"reason", nullptr},
          {"subject", experiment.subject},
          {"identity", or_null(identity)},
          {"study", or_null(experiment.study)},
          {"case", or_null(experiment.name)},
          {"repeat", repeat},
          {"started", nullptr},
          {"finished", nullptr},
          {"config", experiment.config},
          {"provenance", experiment.provenance},
          {"build", build_info()},
          {"dataset_digest", or_null(dataset_digest)}};
}

Store open_existing(const std::string& path) {
  if (!std::filesystem::exists(path))
    throw Error(Code::not_found, fmt::format("[store] no such file; got '{}', expected a results store (see --store)", path));
  return Store(path);
}

}  // namespace ddl
