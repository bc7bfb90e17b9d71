#include "ddl/lab/beyond_exchanges.h"

#include <map>
#include <set>

#include "ddl/collective/native.h"
#include "ddl/core/units.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/measured/measured_machine.h"
#include "ddl/predict/measured/wire_seconds.h"
#include "ddl/predict/step/compressed.h"
#include "ddl/train/precision.h"

namespace ddl {
namespace {

/// A message or collective.
struct Smallest {
  double bytes = 0;  ///< none
  Goal goal = Goal::point_to_point;
};

void smaller(const Smallest& each, Smallest& least) {
  if (least.bytes == 0 || each.bytes < least.bytes) least = each;
}

/// What a plan's workers exchange, by how many of them take part.
struct Exchanged {
  std::map<int, double> largest;  ///< bytes of the largest message or collective
  std::map<int, Smallest> smallest, smallest_of_layers;
  std::map<int, double> of_layers;  ///< the same of those that move what layers make, which lies where layers make it
  std::map<int, std::set<Goal>> goals;  ///< what they do
  double bucket = 0;              ///< bytes of the largest bucket
  Smallest gradients;             ///< the smallest collective of gradients
  int widest = 1;
};

Exchanged exchanged(const Plan& plan) {
  Exchanged out;
  std::vector<int> ranks;
  for (const auto& group : plan.groups) {
    ranks.push_back(static_cast<int>(members(plan.mesh, group, 0).size()));
    out.widest = std::max(out.widest, ranks.back());
  }
  for (const auto& role : plan.roles) {
    for (const auto& task : role.tasks) {
      const bool message = task.kind == TaskKind::send;
      if (!message && task.kind != TaskKind::collective) continue;
      const int among = message ? 2 : ranks.at(static_cast<std::size_t>(task.group));
      if (among < 2) continue;
      const auto goal = message ? Goal::point_to_point : task.goal;
      out.goals[among].insert(goal);
      const Smallest small{static_cast<double>(task.bytes), goal};
      if (task.bytes > 0) smaller(small, out.smallest[among]);
      if (task.bytes > 0 && !message && task.cargo == Cargo::gradients) smaller(small, out.gradients);
      auto& most = out.largest[among];
      most = std::max(most, static_cast<double>(task.bytes));
      if (message ? task.cargo == Cargo::activations || task.cargo == Cargo::activation_gradients : task.layer != kNone) {
        auto& largest = out.of_layers[among];
        largest = std::max(largest, static_cast<double>(task.bytes));
        if (task.bytes > 0) smaller(small, out.smallest_of_layers[among]);
      }
    }
    for (const auto& bucket : role.buckets) out.bucket = std::max(out.bucket, static_cast<double>(bucket.bytes));
  }
  return out;
}

double far(int asked, int known) { return std::abs(std::log2(static_cast<double>(asked) / known)); }

void larger(double asked, double measured, const std::string& what, const std::string& probe, Beyond& out) {
  const double doublings = doublings_over(asked, measured);
  if (doublings <= kAboutAsLarge) return;
  out.bytes = std::max(out.bytes, doublings);
  out.words.push_back(fmt::format("{} of {} are larger than any that were measured, {}: carried on from there, and the interval is wider for it ({})", what, to_string(Bytes{static_cast<std::int64_t>(asked)}),
                                  to_string(Bytes{static_cast<std::int64_t>(measured)}), probe));
}

/// The largest message that was measured between so many ranks, in memory of that sort; 0: nobody said.
double most_measured(const Json& machine, const std::string& transport, int ranks, const std::string& memory) {
  const auto* const part = measured_part(machine, transport, ranks, memory);
  return part != nullptr ? part->value("most_bytes", 0.0) : 0;
}

/// The smallest that was timed between so many ranks, in memory of that sort; 0: nobody said.
double least_measured(const Json& machine, const std::string& transport, int ranks, const std::string& memory) {
  const auto* const part = measured_part(machine, transport, ranks, memory);
  double least = 0;
  if (part == nullptr) return least;
  for (const auto* list : {"timed", "native"})
    for (const auto& each : entries(*part, list))
      for (const auto& point : each.at("points"))
        if (const auto bytes = point.at("bytes").get<double>(); bytes > 0) least = least == 0 ? bytes : std::min(least, bytes);
  return least;
}

/// What one takes below the smallest that was measured is that one's latency: carried on from nothing where its bytes still take more than this share of its time.
constexpr double kBytesCount = 0.5;
/// Of so few bytes nobody's take more than meeting does, whatever a fit to one size says.
constexpr double kFewBytes = 256;

void beyond_latency(const Job& job, const Smallest& small, int ranks, const std::string& memory, const std::string& what, const Json& machine, Beyond& out) {
  const double least = least_measured(machine, job.transport, ranks, memory), doublings = doublings_over(least, small.bytes);
  if (doublings <= kAboutAsLarge || least <= kFewBytes) return;
  WireSetup setup;
  setup.transport = job.transport;
  setup.collective = collective_of(job);
  setup.memory = memory;
  const auto seconds = [&](Portion portion) { return wire_seconds(machine, setup, small.goal, static_cast<std::int64_t>(least), ranks, portion); };
  if (seconds(Portion::latency) >= (1 - kBytesCount) * seconds(Portion::whole)) return;
  out.bytes = std::max(out.bytes, doublings);
  out.words.push_back(fmt::format("{} of {} are smaller than any that were measured, {}, whose bytes take most of their time: what is left without them is carried on from there, and the interval is wider for it (ddlbench probe comm --transport {} --ranks {}{} --sizes …)", what,
                                  to_string(Bytes{static_cast<std::int64_t>(small.bytes)}), to_string(Bytes{static_cast<std::int64_t>(least)}), job.transport, ranks, memory == "own" ? "" : " --memory " + memory));
}

/// By what was measured between the ranks that price them, whatever others had.
void beyond_sizes(const Job& job, const Exchanged& of, const Json& machine, Beyond& out) {
  std::map<int, double> asked;  // by the ranks that price
  for (const auto& [ranks, bytes] : of.largest)
    if (const int pricing = pricing_ranks(machine, job.transport, ranks); pricing > 0) asked[pricing] = std::max(asked[pricing], bytes);
  for (const auto& [ranks, bytes] : asked) {
    larger(bytes, most_measured(machine, job.transport, ranks, "own"), fmt::format("messages over {}", job.transport), fmt::format("ddlbench probe comm --transport {} --ranks {} --sizes …", job.transport, ranks), out);
  }
  std::map<int, Smallest> least;
  for (const auto& [ranks, small] : of.smallest)
    if (const int pricing = pricing_ranks(machine, job.transport, ranks); pricing > 0) smaller(small, least[pricing]);
  for (const auto& [ranks, small] : least) beyond_latency(job, small, ranks, "own", "messages over " + job.transport, machine, out);
}

void beyond_compression(const std::string& compression, const Exchanged& of, const Json& machine, Beyond& out) {
  const auto of_it = [&](const Json& entry) { return entry.value("compression", "") == compression; };
  std::vector<int> measured;
  for (const auto& entry : entries(machine, "compression"))
    if (of_it(entry)) measured.push_back(entry.at("ranks"));
  const int nearest = nearest_ranks(of.widest, measured);
  if (nearest == 0) return;  // which prices have refused
  double most = 0, least = 0;
  for (const auto& entry : entries(machine, "compression"))
    if (of_it(entry) && entry.at("ranks") == nearest) {
      const auto bytes = entry.at("bytes").get<double>();
      most = std::max(most, bytes);
      least = least == 0 ? bytes : std::min(least, bytes);
    }
  larger(of.bucket, most, "buckets under " + compression, "--bucket sets their size", out);
  if (const double doublings = doublings_over(least, of.bucket); doublings > kAboutAsLarge) {
    out.bytes = std::max(out.bytes, doublings);
    out.words.push_back(fmt::format("buckets under {} of {} at most are smaller than any that were measured, {}: carried on from there, and the interval is wider for it", compression, to_string(Bytes{static_cast<std::int64_t>(of.bucket)}), to_string(Bytes{static_cast<std::int64_t>(least)})));
  }
  if (nearest == of.widest) return;
  out.ranks = std::max(out.ranks, far(of.widest, nearest));
  out.words.push_back(fmt::format("what {} takes of a bucket that {} ranks sum was not measured: taken from {}, and the interval is wider for it (ddlbench probe compute --compression {})", compression, of.widest, nearest, compression));
}

/// By each number of ranks among which a plan exchanges; messages are between two.
void beyond_ranks(const Job& job, const Exchanged& of, const Json& machine, Beyond& out) {
  for (const auto& [ranks, bytes] : of.largest) {
    const int nearest = pricing_ranks(machine, job.transport, ranks);
    if (nearest == 0 || nearest == ranks) continue;
    out.ranks = std::max(out.ranks, far(ranks, nearest));
    out.words.push_back(fmt::format("{} of {} ranks over {} were not measured: taken from what was measured between {}, and the interval is wider for it (ddlbench probe comm --transport {} --ranks {})", ranks == 2 ? "exchanges" : "collectives", ranks,
                                    job.transport, nearest, job.transport, ranks));
  }
}

/// Any is priced by the rounds that all which were timed are made of.
void beyond_goals(const Job& job, const Exchanged& of, const Json& machine, Beyond& out) {
  std::map<int, std::set<Goal>> asked;  // by the ranks that price
  for (const auto& [ranks, goals] : of.goals)
    if (const int pricing = pricing_ranks(machine, job.transport, ranks); pricing > 0) asked[pricing].insert(goals.begin(), goals.end());
  for (const auto& [ranks, goals] : asked) {
    const auto* const part = measured_part(machine, job.transport, ranks, "own");
    const auto timed = part == nullptr ? Json::array() : part->value("best", Json::array());
    if (timed.empty()) continue;  // nobody said
    for (const auto goal : goals) {
      if (std::any_of(timed.begin(), timed.end(), [&](const Json& each) { return each.value("collective", "") == name(goal); })) continue;
      out.untimed = true;
      out.words.push_back(fmt::format("{} between {} ranks over {} was not timed: priced by the rounds that others are made of, and the interval is wider for it (ddlbench probe comm --transport {} --ranks {} --collective {})", name(goal), ranks, job.transport, job.transport,
                                      ranks, name(goal)));
    }
  }
}

/// Bytes of gradients and parameters that are in a cache still, whatever processor it is.
constexpr std::int64_t kInAnyCache = 1 << 20;

/// Whose memory a message is in counts between ranks that read each other's; whether it is in a cache still, between any.
void beyond_memory(const Job& job, const Plan& plan, const ModelGraph& part, const Exchanged& of, const MeasuredMachine& measured, const Json& machine, Beyond& out) {
  const auto told = [&](const char* memory, int ranks, double bytes, const Smallest& small, const std::string& what, const std::string& messages) {
    if (measured.knows_memory(memory, ranks)) {
      beyond_latency(job, small, ranks, memory, messages, machine, out);
      const auto most = most_measured(machine, job.transport, ranks, memory);
      if (most > 0) larger(bytes, most, messages, fmt::format("ddlbench probe comm --transport {} --ranks {} --memory {} --sizes …", job.transport, ranks, memory), out);
      return;
    }
    if (!measured.knows_memory("own", ranks)) return;  // of the latter beyond_ranks() tells
    out.memory = true;
    out.words.push_back(fmt::format("{} between {} ranks over {} was not measured: taken for the transport's own memory, and the interval is wider for it (ddlbench probe comm --transport {} --ranks {} --memory {})", what, ranks, job.transport,
                                    job.transport, ranks, memory));
  };
  if (shares_memory(job.transport))
    for (const auto& [ranks, bytes] : of.of_layers) told("outside", ranks, bytes, of.smallest_of_layers.contains(ranks) ? of.smallest_of_layers.at(ranks) : Smallest{}, "memory of what layers make, as messages", fmt::format("messages of what layers make over {}", job.transport));
  const bool gradients = std::any_of(plan.roles.begin(), plan.roles.end(), [](const Role& role) { return std::any_of(role.tasks.begin(), role.tasks.end(), [](const Task& task) { return task.kind == TaskKind::collective && task.cargo == Cargo::gradients; }); });
  const auto made = part.parameters() * element_bytes(job.precision);
  if (gradients && of.widest > 1 && 2 * made > kInAnyCache && term_or(machine, "device.cache_bytes", 0) <= 0) {
    out.memory = true;
    out.words.emplace_back("the profile does not say how much the largest cache holds: gradients are taken to be in it when they are exchanged, and the interval is wider for it (any ddlbench probe there writes it)");
  }
  if (gradients && of.widest > 1 && measured.left_caches(made, 0) > 0) told("evicted", of.widest, of.bucket, of.gradients, "memory that has left the caches before it is exchanged", fmt::format("buckets that have left the caches, over {},", job.transport));
}

/// A library sums numbers of 16 bits by a function of ours, twice as many of them in as many bytes.
void beyond_native(const Job& job, const Plan& plan, const std::string& compression, const Exchanged& of, const Json& machine, Beyond& out) {
  const auto summed = [](const Role& role) { return std::any_of(role.tasks.begin(), role.tasks.end(), [](const Task& task) { return task.kind == TaskKind::collective && task.goal == Goal::all_reduce && task.layer != kNone; }); };
  const bool narrow = compression == "fp16" || compression == "bf16" || ((job.precision == "bf16" || job.precision == "fp16") && std::any_of(plan.roles.begin(), plan.roles.end(), summed));
  if (!narrow) return;
  const auto asked = collective_of(job);
  bool native = parse_native(Goal::all_reduce, asked).has_value();
  for (const auto& [ranks, bytes] : of.largest)
    for (const auto& choice : best_algorithms(machine, job.transport, ranks, Goal::all_reduce)) native |= asked == "auto" && parse_native(Goal::all_reduce, choice.algorithm).has_value();
  if (!native) return;
  out.untimed = true;
  out.words.push_back(fmt::format("sums of 16-bit numbers by the library behind {} were not timed: taken to go as fast as those of as many bytes of fp32, and the interval is wider for it", job.transport));
}

}  // namespace

void beyond_exchanges(const Job& job, const Plan& plan, const ModelGraph& part, const JobCosts& costs, const Json& machine, Beyond& out) {
  if (plan.workers() < 2) return;
  const auto of = exchanged(plan);
  const auto compression = compression_of(job.strategy);
  beyond_goals(job, compression.empty() ? of : exchanged(compressed_moves(plan, compression, part.parameter_specs())), machine, out);
  if (compression.empty()) beyond_sizes(job, of, machine, out);
  else beyond_compression(compression, of, machine, out);
  beyond_native(job, plan, compression, of, machine, out);
  beyond_ranks(job, of, machine, out);
  beyond_memory(job, plan, part, of, *costs.measured, machine, out);
  if (of.largest.empty()) return;
  if (job.fabric.empty() && costs.per_node > 0 && plan.workers() > costs.per_node) {
    out.untimed = true;
    out.words.push_back(fmt::format("wires between hosts of {} {} were not measured: exchanges are priced as within one, and the interval is wider for it (--fabric says what joins hosts)", costs.per_node, costs.per_node == 1 ? "worker" : "workers"));
  }
  if (job.fabric.empty()) return;
  out.fabric = true;
  out.words.push_back(fmt::format("exchanges over fabric {} were not measured: priced from messages on this host and from what the network is said to let through, and the interval is wider for it", job.fabric));
  if (parse_spec(job.transport).name != "mpi") return;
  out.untimed = true;
  out.words.push_back("an MPI has other ways between hosts than within one, where it was measured: what its calls cost there is not known, and the interval is wider for it");
}

}  // namespace ddl
