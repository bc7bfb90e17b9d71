#include "ddl/subject/torch_ddp.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <span>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/core/json.h"
#include "ddl/data/idx_export.h"
#include "ddl/data/loader.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "ddlbench-peer-";

fs::path temporary_folder() {
  std::error_code error;
  auto folder = fs::temp_directory_path(error);
  if (error)
    throw Error(Code::io, fmt::format("[peer] no folder for temporary files: {}; expected TMPDIR to name one that can be written", error.message()));
  return folder;
}

/// What a coordinator left that was killed: its process number is in the name.
void sweep_up(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const auto name = entry.path().filename().string();
    pid_t owner = 0;
    if (!name.starts_with(kPrefix) || std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), owner).ec != std::errc{}) continue;
    if (::kill(owner, 0) != 0 && errno == ESRCH) fs::remove_all(entry.path(), ignored);
  }
}

std::string make_folder() {
  const auto folder = temporary_folder();
  sweep_up(folder);
  std::string name = (folder / fmt::format("{}{}-XXXXXX", kPrefix, ::getpid())).string();
  if (::mkdtemp(name.data()) == nullptr) throw system_error(fmt::format("[peer] cannot make {}", name), errno);
  return name;
}

template <typename T>
void write_numbers(const std::string& path, const std::vector<T>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  write_file(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// The order of every epoch the run begins, one after the other.
std::vector<std::int64_t> orders(const Sampler& sampler, const PeerJob& job) {
  const auto per_epoch = sampler.steps_per_epoch();
  const auto epochs = job.steps > 0 ? (job.steps + per_epoch - 1) / per_epoch : job.epochs;
  std::vector<std::int64_t> all;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    const auto one = sampler.order(epoch);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

void write_data(const PeerJob& job, const DatasetPair& data, const std::string& folder) {
  const auto n = data.train->size();
  auto order = orders(Sampler(n, job.batch, job.workers, job.shuffle, job.seed), job);
  // A short run visits few samples: hand over those, numbered by visit. Its steps then fill exactly one epoch.
  if (job.steps > 0 && job.steps <= n / job.batch) {
    order.resize(static_cast<std::size_t>(job.steps * job.batch));
    write_idx(*data.train, folder, "train", order);
    std::iota(order.begin(), order.end(), std::int64_t{0});
  } else {
    write_idx(*data.train, folder, "train");
  }
  if (job.evaluate) write_idx(*data.test, folder, "t10k");
  write_numbers(folder + "/order.i64", order);
}

Json describe(const PeerJob& job, const DatasetPair& data) {
  const auto shape = data.train->shape();
  const auto& normalisation = require_raw(*data.train).normalisation();
  const Json dataset{{"folder", "."}, {"mean", normalisation.mean}, {"std", normalisation.deviation},
                     {"shape", {shape.channels, shape.height, shape.width}}, {"classes", shape.classes}};
  return {{"model", job.model},
          {"batch", job.batch},
          {"steps", job.steps},
          {"epochs", job.epochs},
          {"learning_rate", job.learning_rate},
          {"momentum", job.momentum},
          {"weight_decay", job.weight_decay},
          {"learning_rate_schedule", job.learning_rate_schedule},
          {"evaluate", job.evaluate},
          {"threads", job.threads},
          {"seed", job.seed},
          {"shuffle", job.shuffle},
          {"timeout_s", job.collective_timeout.value},
          {"dataset", dataset},
          {"order", "order.i64"},
          {"weights", job.weights.empty() ? Json(nullptr) : Json("weights.f32")}};
}

}  // namespace

// Delegates to the default constructor, so that the destructor removes the folder when the body throws.
PreparedPeer::PreparedPeer(const PeerJob& job, const DatasetPair& data, std::string python, std::string script)
    : PreparedPeer() {
  if (job.model != "lenet" && job.model != "resnet18")
    throw Error(Code::unsupported,
                fmt::format("[torch-ddp] unsupported: it has no network '{}'; expected one of: lenet "
                            "resnet18",
                            job.model));
  require_raw(*data.train);
  folder_ = make_folder();
  write_data(job, data, folder_);
  if (!job.weights.empty()) write_numbers(folder_ + "/weights.f32", job.weights);
  write_file(folder_ + "/job.json", describe(job, data).dump(2) + "\n");
  for (int rank = 0; rank < job.workers; ++rank) {
    PeerCommand command{{python, "-B", script, folder_},
                        {fmt::format("RANK={}", rank), fmt::format("WORLD_SIZE={}", job.workers),
                         fmt::format("OMP_NUM_THREADS={}", job.threads)}};
    // All ranks are on this host. Gloo would else take the interface of the host's name, which may not resolve.
    if (std::getenv("GLOO_SOCKET_IFNAME") == nullptr) command.environment.emplace_back("GLOO_SOCKET_IFNAME=lo");
    commands_.push_back(std::move(command));
  }
}

PreparedPeer::~PreparedPeer() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

PreparedPeer::PreparedPeer(PreparedPeer&& other) noexcept
    : folder_(std::exchange(other.folder_, {})), commands_(std::move(other.commands_)) {}

}  // namespace ddl
