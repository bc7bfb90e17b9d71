#include "ddl/predict/datasheet/collective_library.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ddl/core/error.h"
#include "ddl/predict/datasheet/gpu.h"
#include "ddl/predict/datasheet/library.h"

namespace ddl {
namespace {

constexpr double kUs = 1e-6;

FittedCollectives read_fitted(const Json& part) {
  return {term(part, "latency_us") * kUs, term(part, "latency_us_per_rank") * kUs, term(part, "half_bytes"), term(part, "bandwidth"), term(part, "bandwidth_of_two"),
          term(part, "across_latency_us") * kUs, term(part, "across_latency_us_per_node") * kUs};
}

TuningTable read_tuning(const Json& part) {
  TuningTable out;
  for (const auto& each : part.at("algorithms")) {
    auto& one = out.algorithms.emplace_back();
    one.tree = each.at("algorithm") == "tree";
    one.capped = each.value("capped", false);
    one.nvlink_alone = each.value("nvlink_alone", false);
    one.plateau = each.value("plateau", false);
    one.base = term(each, "base_us") * kUs;
    one.nvlink = term(each, "nvlink_us") * kUs;
    one.pci = term(each, "pci_us") * kUs;
    one.network = term(each, "network_us") * kUs;
    one.share = term(each, "share");
    one.share_across = term_or(each, "share_across", one.share);
    one.overheads = term_or(each, "network_overhead", 1);
    if (one.tree) one.correction = part.at("tree_correction").at(each.at("protocol").get<std::string>()).get<std::vector<double>>();
  }
  for (const auto& each : part.at("generations")) out.generations.push_back({term(each, "below_capability"), term(each, "plateau"), each.at("ll_bandwidth").get<std::vector<double>>()});
  out.network_overhead = term(part, "network_overhead_us") * kUs;
  out.channel_bandwidth = term(part, "channel_bandwidth");
  out.plateau_bytes = term(part, "plateau_bytes");
  return out;
}

DecidedCollectives::Algorithm algorithm_of(const std::string& word) {
  using Algorithm = DecidedCollectives::Algorithm;
  if (word == "ring") return Algorithm::ring;
  if (word == "recursive-doubling") return Algorithm::recursive_doubling;
  if (word == "halving-doubling") return Algorithm::halving_doubling;
  throw Error(Code::unsupported, fmt::format("[machine] unsupported: algorithm of a library; got '{}', expected ring, recursive-doubling or halving-doubling", word));
}

DecidedCollectives read_decisions(const Json& part) {
  DecidedCollectives out;
  for (const auto& each : part.at("all_reduce")) out.decisions.push_back({term_or(each, "below_bytes", std::numeric_limits<double>::infinity()), algorithm_of(each.at("algorithm").get<std::string>())});
  out.latency = term(part, "latency_us") * kUs;
  out.rdma_latency = term(part, "rdma_latency_us") * kUs;
  out.network_latency = term(part, "network_latency_us") * kUs;
  out.bandwidth = term(part, "bandwidth");
  out.reduce_passes = term(part, "reduce_passes");
  return out;
}

StagedCollectives read_staged(const Json& document) {
  constexpr double kMs = 1e-3, kMegabyte = 1e6;
  const auto calls = [&](const char* of) {
    const auto& part = document.at("horovod").at(of);
    return StagedCollectives::Calls{term(part, "call_ms") * kMs, term(part, "call_ms_per_doubling_of_devices") * kMs, term(part, "ms_per_mb") * kMs / kMegabyte};
  };
  return {calls("of_two"), calls("of_more"), read_decisions(document.at("decisions"))};
}

/// One all-reduce: what it is over. `network`: the share of wires between nodes that is reached.
struct Asked {
  const Gpu& gpu;
  double bytes, ranks, on_node, network;
  double on_nodes = 0;  ///< how many nodes they are on; 0: as many on each

  bool across() const { return on_node < ranks; }
  double nodes() const { return on_nodes > 0 ? on_nodes : std::max(1.0, ranks / on_node); }
  /// A ring crosses each node's wires once each way, by all that its ranks there have of them.
  double ring_rate() const { return across() ? std::min(gpu.network * network * on_node, gpu.bus) : gpu.bus; }
};

double seconds(const FittedCollectives& fit, const Asked& of) {
  const double moved = 2 * (of.ranks - 1) / of.ranks * of.bytes;
  if (of.across()) return fit.across_latency + fit.across_latency_per_node * std::max(of.nodes() - 1, 0.0) + moved / of.ring_rate();
  const double rate = of.gpu.bus * fit.bandwidth * (of.ranks <= 2 ? fit.bandwidth_of_two : 1);
  return fit.latency + fit.latency_per_rank * of.ranks + moved / rate * (1 + std::sqrt(fit.half_bytes / std::max(of.bytes, 1.0)));
}

double seconds(const TuningTable& table, const TuningTable::Algorithm& one, const Asked& of) {
  const auto generation = std::find_if(table.generations.begin(), table.generations.end(), [&](const auto& each) { return of.gpu.compute_capability < each.below; });
  if (generation == table.generations.end() || generation->ll_bandwidth.size() != 3)
    throw Error(Code::unsupported, fmt::format("[machine] unsupported: compute capability of {}; got {}, expected one that the library knows", of.gpu.name, of.gpu.compute_capability));
  const double n = of.ranks, nodes = of.nodes(), inside = of.gpu.nvlink() ? one.nvlink : one.pci;
  double bus = of.ring_rate() * (of.across() ? one.share_across : one.share);
  if (one.capped) bus = std::min(bus, generation->ll_bandwidth[nodes <= 1 ? 0 : nodes <= 2 ? 1 : 2]);
  double latency = 0;
  if (one.tree) {
    const double blocks = std::floor(std::log2(std::max(of.bytes / 64, 1.0)));
    if (blocks < static_cast<double>(one.correction.size())) bus *= one.correction[static_cast<std::size_t>(blocks)];
    bus *= 0.5;
    latency = one.base + 2 * ((of.on_node - 1) * inside + std::floor(std::log2(nodes)) * one.network);
  } else {
    const double steps = 2 * (n - 1), between = 2 * (nodes - 1);
    bus *= n / steps;
    latency = one.base + (steps - between) * std::max(inside, of.across() ? one.overheads * table.network_overhead : 0) + between * one.network;
    const double channels = std::max(1.0, std::round(of.gpu.bus / table.channel_bandwidth));
    if (one.plateau && of.across() && of.bytes / (channels * n) >= table.plateau_bytes) latency *= generation->plateau;
  }
  return latency + of.bytes / bus;
}

double seconds(const TuningTable& table, const Asked& of) {
  double best = std::numeric_limits<double>::infinity();
  for (const auto& one : table.algorithms)
    if (!one.nvlink_alone || (of.gpu.nvlink() && of.gpu.compute_capability >= 7)) best = std::min(best, seconds(table, one, of));
  return best;
}

/// Of one step: RDMA where the profile's wires are InfiniBand's.
double step_latency(const DecidedCollectives& mpi, const Gpu& gpu, bool across) {
  return !across ? mpi.latency : gpu.wires.find("infiniband") != std::string::npos ? mpi.rdma_latency : mpi.network_latency;
}

double seconds(const DecidedCollectives& mpi, const Asked& of) {
  using Algorithm = DecidedCollectives::Algorithm;
  const auto decided = std::find_if(mpi.decisions.begin(), mpi.decisions.end(), [&](const auto& each) { return of.bytes < each.below; });
  const auto algorithm = decided == mpi.decisions.end() ? Algorithm::ring : decided->algorithm;
  const double n = of.ranks, alpha = step_latency(mpi, of.gpu, of.across()), gamma = mpi.reduce_passes / of.gpu.bandwidth;
  const double inside = of.gpu.bus * mpi.bandwidth, across = std::min(of.ring_rate(), inside);
  const double rate = of.across() ? across : inside, share = (n - 1) / n * of.bytes;
  if (algorithm == Algorithm::ring) return 2 * (n - 1) * alpha + 2 * share / rate + share * gamma;
  const double doublings = std::ceil(std::log2(n));
  if (algorithm == Algorithm::halving_doubling) return 2 * doublings * alpha + 2 * share / rate + share * gamma;
  // All ranks of a node use its wires at once where partners are on another.
  const double between = std::ceil(std::log2(of.nodes())), here = doublings - between;
  return here * (mpi.latency + of.bytes / inside) + between * (alpha + of.bytes / (of.gpu.network * of.network)) + doublings * of.bytes * gamma;
}

double seconds(const StagedCollectives& staged, const Asked& of) {
  const auto& calls = of.ranks <= 2 ? staged.of_two : staged.of_more;
  return calls.call + calls.call_per_doubling * std::log2(of.ranks) + calls.per_byte * 2 * (of.ranks - 1) / of.ranks * of.bytes;
}

}  // namespace

CollectiveLibrary CollectiveLibrary::read(const Json& document, std::string form) {
  CollectiveLibrary out;
  out.name_ = document.value("name", "?");
  if (form.empty()) form = document.value("used", "");
  if (!document.contains(form)) throw Error(Code::not_found, fmt::format("[machine] library '{}' has no description '{}'; expected fitted, tuning, decisions or horovod there", out.name_, form));
  const bool staged = form == "horovod";
  if (staged && !document.contains("decisions")) throw Error(Code::not_found, fmt::format("[machine] library '{}' has no decisions; expected those for messages, beside horovod", out.name_));
  auto part = document.at(staged ? "decisions" : form);
  part["name"] = out.name_;
  out.network_bandwidth_ = term(part, "network_bandwidth");
  try {
    if (form == "fitted") out.form_ = read_fitted(part);
    else if (form == "tuning") out.form_ = read_tuning(part);
    else if (form == "decisions") out.form_ = read_decisions(part);
    else if (staged) out.form_ = read_staged(document);
    else throw Error(Code::unsupported, fmt::format("[machine] unsupported: library '{}'; got '{}', expected fitted, tuning, decisions or horovod", out.name_, form));
  } catch (const Json::exception& error) {
    throw Error(Code::corrupt, fmt::format("[machine] library '{}', {}: {}", out.name_, form, error.what()));
  }
  return out;
}

double CollectiveLibrary::all_reduce(const Gpu& gpu, double bytes, double ranks, double on_node, double nodes) const {
  if (ranks <= 1) return 0;
  return std::visit([&](const auto& form) { return seconds(form, {gpu, bytes, ranks, on_node, network_bandwidth_, nodes}); }, form_);
}

double CollectiveLibrary::message_latency(const Gpu& gpu) const {
  if (const auto* fit = std::get_if<FittedCollectives>(&form_)) return fit->across_latency / 2;
  if (const auto* mpi = std::get_if<DecidedCollectives>(&form_)) return step_latency(*mpi, gpu, true);
  if (const auto* staged = std::get_if<StagedCollectives>(&form_)) return step_latency(staged->between_processors, gpu, true);
  double least = std::numeric_limits<double>::infinity();
  for (const auto& one : std::get<TuningTable>(form_).algorithms) least = std::min(least, one.network);
  return least;
}

CollectiveLibrary library_of(const Json& machine) {
  const auto& node = machine.value("node", Json::object());
  const bool gpu = !machine.contains("device") || machine["device"].value("kind", "gpu") == "gpu";
  const auto document = find_library(node.value("library", gpu ? "nccl" : "openmpi"));
  return CollectiveLibrary::read(document, gpu && document.contains("horovod") ? "horovod" : "");
}

}  // namespace ddl
