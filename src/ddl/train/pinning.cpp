#include "ddl/train/pinning.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ddl/core/error.h"
#include "ddl/measure/affinity.h"
#include "ddl/measure/topology.h"
#include "ddl/train/computing_threads.h"

namespace ddl {

std::vector<int> computing_workers(const Job& job, int rank) {
  // Hosts of a test network are all this machine.
  const bool apart = job.fabric.empty() && !job.hosts.empty();
  std::vector<int> found;
  for (std::size_t other = 0; other < job.workers.size(); ++other)
    if (job.workers[other].device == "cpu" && (!apart || job.hosts.at(other) == job.hosts.at(static_cast<std::size_t>(rank)))) found.push_back(static_cast<int>(other));
  return found;
}

Pinning::Pinning(const Job& job, int rank) {
  try {
    not_bound_ = bind(job, rank);
  } catch (const std::exception& error) {
    not_bound_ = error.what();
  }
}

std::string Pinning::bind(const Job& job, int rank) {
  const auto& worker = job.workers.at(static_cast<std::size_t>(rank));
  if (job.pin == "off") return "pin is off";
  if (worker.emulated()) return "an emulated worker waits instead of computing";
  if (worker.device != "cpu") return fmt::format("it computes on {}", worker.device);
  const auto together = computing_workers(job, rank);
  std::vector<int> threads;
  for (const int each : together) threads.push_back(job.workers[static_cast<std::size_t>(each)].threads);
  const Topology topology;
  allowed_ = affinity();
  if (job.launched && static_cast<int>(allowed_.size()) < topology.all())
    return fmt::format("its launcher bound it to {} of {} processing units", allowed_.size(), topology.all());
  const auto places = topology.place(threads);
  if (places.empty())
    return fmt::format("the workers here have {} threads and may use {} processing units", std::accumulate(threads.begin(), threads.end(), 0), allowed_.size());
  const auto& own = places[static_cast<std::size_t>(std::find(together.begin(), together.end(), rank) - together.begin())];
  if (const auto taken = claims_.claim(own)) return fmt::format("another run has processing unit {}", *taken);
  if (const int error = bind_computing_threads(own); error != 0) {
    release_computing_threads(allowed_);
    return fmt::format("the kernel refuses to bind to {}: {}", fmt::join(own, ", "), std::strerror(error));
  }
  bound_ = own;
  return "";
}

Pinning::~Pinning() {
  if (!bound_.empty()) release_computing_threads(allowed_);
}

Json Pinning::json() const {
  if (bound_.empty()) return {{"bound", nullptr}, {"not_bound", not_bound_}};
  return {{"bound", bound_}, {"not_bound", nullptr}};
}

void Pinning::release_this_thread() const noexcept {
  if (!bound_.empty()) set_affinity(allowed_);
}

Pinning::Roaming::Roaming(const Pinning& pinning) : pinning_(pinning) { pinning_.release_this_thread(); }

Pinning::Roaming::~Roaming() {
  if (!pinning_.bound_.empty()) set_affinity({pinning_.bound_.front()});
}

}  // namespace ddl
