#include "ddl/lab/predict_links.h"

#include <algorithm>
#include <string_view>

#include "ddl/core/error.h"
#include "ddl/core/units.h"
#include "ddl/lab/measured_choices.h"
#include "ddl/predict/datasheet/gpu.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/measured/wire_seconds.h"
#include "ddl/predict/step/compressed.h"
#include "ddl/predict/step/placed_actors.h"
#include "ddl/predict/step/server_turns.h"
#include "ddl/train/emulation/machine_costs.h"
#include "ddl/train/make_communicator.h"
#include "ddl/train/precision.h"
#include "ddl/transport/fabric_description.h"

namespace ddl {
namespace {

/// Pairs of more workers than that are not listed, nor links of more places.
constexpr std::size_t kMostListed = 1024;
/// A message that is long enough for its rate to be the link's.
constexpr std::int64_t kLong = std::int64_t{4} << 20;

/// As the executor asks for them, and its communicators answer.
std::string algorithm_of(const Job& job, const Task& task, int ranks) {
  const auto asked = collective_of(job);
  const bool of_numbers = task.cargo == Cargo::control || task.cargo == Cargo::norms;
  std::string word = "auto";
  if (task.goal == Goal::all_reduce && !of_numbers) word = asked;
  // An algorithm may be one of all-reduce alone.
  else if ((task.goal == Goal::reduce_scatter || task.goal == Goal::all_gather) && task.layer == kNone && (asked == "ring" || asked == "direct")) word = asked;
  return word == "auto" ? automatic_algorithm(job, task.goal, static_cast<std::size_t>(task.bytes), ranks, shares_memory(job.transport)) : word;
}

LinkRates rates_of_datasheet(const Job& job, const Json& machine, int per_node) {
  auto gpu = gpu_of(machine, job.precision);
  if (per_node > 0) gpu.per_node = per_node;
  LinkRates rates{"node", {}, gpu.bus, gpu.network * gpu.per_node};
  for (int worker = 0; worker < static_cast<int>(job.workers.size()); ++worker) rates.places.push_back(worker / gpu.per_node);
  return rates;
}

LinkRates rates_of_hosts(const Job& job, const Json& machine, int per_node) {
  LinkRates rates{"host", {}, 0, 0};
  const auto ranks = static_cast<int>(job.workers.size());
  int hosts = 1;
  if (!job.fabric.empty()) {
    const auto fabric = parse_fabric(job.fabric);
    hosts = fabric.hosts;
    rates.wires = payload_bandwidth(fabric).value / 8;
  }
  for (int rank = 0; rank < ranks; ++rank) rates.places.push_back(per_node > 0 ? rank / per_node : hosts > 1 ? host_of(rank, ranks, hosts) : 0);
  try {
    rates.inside = static_cast<double>(kLong) / wire_seconds(machine, {job.transport, "auto"}, Goal::point_to_point, kLong, 2);
  } catch (const Error& error) {
    if (error.code() != Code::not_found) throw;
  }
  return rates;
}

}  // namespace

JobLinks job_links(const Job& job, const Plan& plan, const ModelGraph& part, const Json& machine, int per_node) {
  JobLinks out;
  if (plan.workers() < 2) return out;
  const bool library = is_datasheet(machine);
  auto rates = library ? rates_of_datasheet(job, machine, per_node) : rates_of_hosts(job, machine, per_node);
  // Of workers that step by themselves those near a server do most of the steps, so that nobody knows how often in one of all together what is told here passes.
  if (steps_apart(plan) && at_several_places(plan, [&](int worker) { return rates.places.at(static_cast<std::size_t>(worker)); })) rates.inside = rates.wires = 0;
  CollectiveWays ways;
  // Micro-batches that do not divide: a plan's messages are those of the largest.
  ways.filled = static_cast<double>(job.batch) / static_cast<double>(plan.shares() * places_of_share(plan, job.batch));
  auto own = job;
  if (!library) {
    ways.element = static_cast<int>(element_bytes(job.precision));
    if (!job.fabric.empty()) ways.hosts = rates.places;
    // As a run follows its machine's profile.
    if (own.measured.empty() && collective_of(job) == "auto") own.measured = measured_choices(machine, job.transport, plan.workers());
    ways.algorithm = [&own](const Task& task, int ranks) { return algorithm_of(own, task, ranks); };
  }
  const auto compression = compression_of(job.strategy);
  out.pairs = bytes_between(compression.empty() ? plan : compressed_moves(plan, compression, part.parameter_specs()), ways);
  out.links = links_of(out.pairs, rates);
  return out;
}

const LinkUse* busiest(const JobLinks& links, double seconds) {
  const auto most = std::max_element(links.links.begin(), links.links.end(), [&](const LinkUse& a, const LinkUse& b) {
    return std::pair(a.full(seconds), a.busiest) < std::pair(b.full(seconds), b.busiest);
  });
  return most == links.links.end() ? nullptr : &*most;
}

Json links_json(const JobLinks& links, double seconds) {
  const auto one = [&](const LinkUse& use) {
    const bool known = use.bytes_per_s > 0;
    return Json{{"link", use.link}, {"sent_bytes", use.sent}, {"received_bytes", use.received}, {"busiest_bytes", use.busiest},
                {"bytes_per_s", known ? Json(use.bytes_per_s) : Json(nullptr)}, {"full", known ? Json(use.full(seconds)) : Json(nullptr)}};
  };
  Json pairs = nullptr, all = Json::array();
  if (links.pairs.size() <= kMostListed) {
    pairs = Json::array();
    for (const auto& pair : links.pairs) pairs.push_back({{"from", pair.from}, {"to", pair.to}, {"bytes", pair.bytes}});
  }
  for (std::size_t i = 0; i < std::min(links.links.size(), kMostListed); ++i) all.push_back(one(links.links[i]));
  const auto* most = busiest(links, seconds);
  return {{"pairs", std::move(pairs)}, {"links", std::move(all)}, {"busiest", most != nullptr ? one(*most) : Json(nullptr)}};
}

std::string links_words(const JobLinks& links, double seconds) {
  const auto* most = busiest(links, seconds);
  if (most == nullptr) return "";
  const auto full = most->bytes_per_s > 0 ? fmt::format("{:.0f} % full", 100 * most->full(seconds)) : "of a rate that is not known";
  return fmt::format("busiest link: {}, {} a step the busier way, {}", most->link, to_string(Bytes{static_cast<std::int64_t>(most->busiest)}), full);
}

}  // namespace ddl
