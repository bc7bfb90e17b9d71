#include "ddl/lab/probe_comm.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ddl/collective/bus_factor.h"
#include "ddl/collective/native.h"
#include "ddl/core/error.h"
#include "ddl/core/statistics.h"
#include "ddl/lab/agent_hub.h"
#include "ddl/lab/probe_group.h"
#include "ddl/lab/record.h"
#include "ddl/measure/clock.h"
#include "ddl/measure/environment.h"
#include "ddl/transport/fabric.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/measured/communication_part.h"

namespace ddl {
namespace {

constexpr std::size_t kElement = 4;

/// The name after the goal, with no options: "ring" of "ring[segment=64KiB]" and of "reduce-scatter/ring".
std::string bare(const std::string& text) {
  const auto named = parse_spec(text).name;
  return named.substr(named.find('/') == std::string::npos ? 0 : named.find('/') + 1);
}

std::vector<ProbeCase> cases_of(const CommunicationProbe& probe, const std::string& transport, int ranks) {
  std::vector<ProbeCase> cases;
  const auto wants = [&](Goal goal) { return probe.goals.empty() || std::find(probe.goals.begin(), probe.goals.end(), goal) != probe.goals.end(); };
  const auto add = [&](Goal goal, const std::string& algorithm) {
    if (goal == Goal::barrier) {
      cases.push_back({goal, algorithm, 0});
      return;
    }
    const std::size_t grain = kElement * (goal == Goal::all_to_all ? static_cast<std::size_t>(ranks) : 1);
    for (const auto size : probe.sizes) cases.push_back({goal, algorithm, std::max(grain, size / grain * grain)});
  };
  for (const auto registry = builtin_collectives(); const auto& entry : registry.entries()) {
    if (!wants(entry.make.goal) || (entry.make.goal == Goal::point_to_point && ranks < 2)) continue;
    if (probe.algorithms.empty()) {
      add(entry.make.goal, bare(entry.name));
      continue;
    }
    for (const auto& text : probe.algorithms)
      if (bare(text) == bare(entry.name)) add(entry.make.goal, text.substr(text.find('/') == std::string::npos ? 0 : text.find('/') + 1));
  }
  // The library's own, where the transport has one.
  if (parse_spec(transport).name == "mpi")
    for (const Goal goal : kGoals) {
      if (!wants(goal) || !is_native_goal(goal)) continue;
      if (probe.algorithms.empty()) add(goal, "native");
      for (const auto& text : probe.algorithms)
        if (parse_native(goal, text)) add(goal, text);
    }
  if (cases.empty()) throw Error(Code::invalid_argument, "[probe] nothing to measure: no algorithm is both of those collectives and of those names");
  for (const auto& each : cases)  // options that are wrong are so before anything runs
    if (!parse_native(each.goal, each.algorithm)) choose_algorithm(each.goal, each.algorithm);
  return cases;
}

/// Between what was measured, linearly; the ends go on level below and in proportion above.
double between(const std::map<std::size_t, ProbeLimits>& limits, double ProbeLimits::*part, double bytes) {
  const std::pair<const std::size_t, ProbeLimits>* before = nullptr;
  for (const auto& point : limits) {
    const double time = point.second.*part;
    if (static_cast<double>(point.first) >= bytes) {
      if (before == nullptr) return time;
      const double along = (bytes - static_cast<double>(before->first)) / static_cast<double>(point.first - before->first);
      return before->second.*part + along * (time - before->second.*part);
    }
    before = &point;
  }
  return before == nullptr ? 0 : before->second.*part * bytes / static_cast<double>(std::max<std::size_t>(1, before->first));
}

/// s that hardware and wire allow at best: the measured bound of shared memory for an all-reduce; otherwise one exchange of the
/// bytes that must pass, and no fewer rounds than it takes to hear of everyone.
std::optional<double> limit_of(const ProbedGroup& group, const ProbeCase& which) {
  if (which.goal == Goal::barrier || group.limits.empty()) return std::nullopt;
  if (const auto found = group.limits.find(which.bytes); which.goal == Goal::all_reduce && found != group.limits.end() && found->second.reduce > 0)
    return found->second.reduce;
  const auto part = has_root(which.goal) ? &ProbeLimits::one_way : &ProbeLimits::exchange;
  const double rounds = which.goal == Goal::point_to_point ? 1 : std::ceil(std::log2(group.ranks));
  return std::max(between(group.limits, part, bus_factor(which.goal, group.ranks) * static_cast<double>(which.bytes)),
                  rounds * between(group.limits, part, 0));
}

/// A case that every rank has timed, and what came of it.
struct Row {
  std::size_t number;
  Interval time;
};

Json row_json(const ProbedGroup& group, const Row& row, const FittedPart::Row& fitted) {
  const auto& which = group.cases[row.number];
  const double bits = 8e-9 * static_cast<double>(which.bytes) / row.time.median;
  const bool reduces_nothing = which.goal == Goal::barrier;
  Json samples = Json::array();
  for (const double time : group.slowest(row.number)) samples.push_back(time * 1e6);
  const auto& counted = group.sent[row.number];
  const bool unknown = fitted.native || counted.front() < 0;
  bool equal = true;
  for (std::size_t rank = 0; !unknown && rank < counted.size(); ++rank) equal &= counted[rank] == static_cast<std::int64_t>(fitted.sample.group->bytes_sent[rank]);
  const auto limit = limit_of(group, which);
  return {{"transport", group.transport}, {"collective", name(which.goal)}, {"algorithm", which.algorithm}, {"ranks", group.ranks}, {"bytes", which.bytes},
          {"time_us", {{"median", row.time.median * 1e6}, {"low", row.time.low * 1e6}, {"high", row.time.high * 1e6}, {"samples", samples}}},
          {"algorithm_gbps", reduces_nothing ? Json() : Json(bits)},
          {"bus_gbps", reduces_nothing ? Json() : Json(bits * bus_factor(which.goal, group.ranks))},
          {"fit_us", fitted.native ? Json() : Json(fitted.fitted * 1e6)}, {"simulated_us", fitted.native ? Json() : Json(fitted.simulated * 1e6)}, {"limit_us", limit ? Json(*limit * 1e6) : Json()},
          {"one_pass", fitted.one_shot},
          {"bytes_sent", unknown ? Json() : Json(counted)}, {"priced_bytes", fitted.native ? Json() : Json(fitted.sample.group->bytes_sent)},
          {"bytes_equal", unknown ? Json() : Json(equal)}};
}

/// Fits, chooses and writes down what one group measured.
void conclude(const ProbedGroup& group, const std::string& memory, Json& document) {
  std::vector<Row> rows;
  std::vector<TimedCollective> timed;
  for (std::size_t i = 0; i < group.cases.size(); ++i) {
    if (!group.complete(i)) continue;
    rows.push_back({i, median_interval(group.slowest(i))});
    timed.push_back({group.cases[i].goal, group.cases[i].algorithm, group.cases[i].bytes, rows.back().time.median});
  }
  if (rows.empty()) return;
  CommunicationPart like{group.transport, group.ranks, memory};
  like.measured = document["started"];
  const auto found = fit_part(std::move(like), group.shares_memory, timed);
  for (const auto& fitted : found.fits)
    for (auto piece : to_json(fitted.cost)) {
      Json entry{{"transport", group.transport}, {"ranks", group.ranks}, {"memory", memory}, {"path", fitted.one_shot ? "one-pass" : "rounds"}};
      entry.update(piece);
      entry["mean_error_pct"] = 100 * fitted.error;
      entry["held_out_error_pct"] = fitted.held_out < 0 ? Json() : Json(100 * fitted.held_out);
      document["fit"].push_back(entry);
    }
  for (const auto& choice : found.part.best) {
    Json entry{{"transport", group.transport}, {"ranks", group.ranks}, {"memory", memory}};
    entry.update(choice);
    document["best"].push_back(entry);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) document["results"].push_back(row_json(group, rows[i], found.rows[i]));
  Json limits = Json::array();
  const auto micros = [](double time) { return time > 0 ? Json(time * 1e6) : Json(); };
  for (const auto& [bytes, limit] : group.limits)
    limits.push_back({{"bytes", bytes}, {"exchange_us", micros(limit.exchange)}, {"one_way_us", micros(limit.one_way)}, {"reduce_us", micros(limit.reduce)}});
  document["limits"].push_back({{"transport", group.transport}, {"ranks", group.ranks}, {"points", limits}});
  document["machine_parts"].push_back(to_json(found.part));
}

void check_ranks(const CommunicationProbe& probe, const AgentHub* launched) {
  if (launched == nullptr) return;
  if (!probe.fabric.empty())
    throw Error(Code::unsupported, fmt::format("--fabric: unsupported: a launcher has placed its ranks already; got {}, expected none, or ddlbench started plainly", probe.fabric));
  for (const int ranks : probe.ranks)
    if (ranks != launched->ranks())
      throw Error(Code::invalid_argument, fmt::format("--ranks: as many as the launcher started processes; got {}, expected {}", ranks, launched->ranks()));
}

/// What carries a test network's traffic.
void check_fabric(const std::string& transport, const FabricDescription& fabric) {
  const auto name = parse_spec(transport).name;
  if (name != "tcp" && name != "mpi")
    throw Error(Code::invalid_argument, fmt::format("--fabric: a fabric carries tcp and mpi; got transport {}, expected --transport tcp or mpi", transport));
  if (name == "mpi" && fabric.latency.value > 0)
    throw Error(Code::invalid_argument, fmt::format("--fabric: latency is added by our tcp alone; got latency={} for {}, expected none", to_string(fabric.latency), transport));
}

}  // namespace

Json probe_communication(const CommunicationProbe& probe, const RunEvents& events, AgentHub* launched) {
  check_ranks(probe, launched);
  Json document{{"schema", "ddlbench.probe/1"}, {"kind", "comm"}, {"fabric", probe.fabric.empty() ? Json() : Json(probe.fabric)}, {"state", "ok"}, {"started", utc_now()}, {"environment", capture_environment()},
                {"results", Json::array()}, {"fit", Json::array()}, {"best", Json::array()}, {"limits", Json::array()},
                {"failed", Json::array()}, {"machine_parts", Json::array()}};
  for (const auto& transport : probe.transports) choose_transport(transport, {});
  for (const auto& transport : probe.transports)
    for (const int ranks : probe.ranks) cases_of(probe, transport, ranks);
  for (const auto& transport : probe.transports)
    for (const int ranks : probe.ranks) {
      if (document["state"] == "interrupted") break;
      ProbeSettings settings;
      settings.transport = transport;
      settings.options.secret = new_secret();
      std::optional<Fabric> fabric;
      if (!probe.fabric.empty()) {
        check_fabric(transport, parse_fabric(probe.fabric));
        fabric.emplace(probe.fabric);
        for (int rank = 0; rank < ranks; ++rank) settings.hosts.push_back(host_of(rank, ranks, fabric->hosts()));
        settings.enter = [&fabric, &settings, ranks](int rank) {
          const int host = host_of(rank, ranks, fabric->hosts());
          fabric->enter(host);
          return fabric->options(host, settings.options);
        };
      }
      settings.memory = probe.memory;
      settings.check = probe.check;
      settings.budget = probe.budget;
      settings.timeout = probe.timeout;
      settings.cases = cases_of(probe, transport, ranks);
      const auto group = probe_group(settings, ranks, events, launched, fabric ? &*fabric : nullptr);
      conclude(group, probe.memory, document);
      if (!group.failed.empty()) {
        document["failed"].push_back({{"transport", transport}, {"ranks", ranks}, {"reason", group.failed}});
        document["state"] = "partial";
      }
      if (group.interrupted) document["state"] = "interrupted";
    }
  if (document["results"].empty() && document["state"] == "partial") document["state"] = "failed";
  document["finished"] = utc_now();
  return document;
}

void add_to_machine(Json& machine, const Json& document) {
  const auto& keys = entry_keys("communication");
  for (const auto& entry : document.at("machine_parts")) add_entry(machine, "communication", keys, joined(earlier_entry(machine, "communication", keys, entry), entry));
}

}  // namespace ddl
