#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "ddl/collective/bus_factor.h"
#include "ddl/collective/communicator.h"
#include "ddl/collective/native.h"
#include "ddl/collective/prepare.h"
#include "ddl/core/error.h"
#include "ddl/core/spec.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/measured/history.h"
#include "ddl/predict/measured/measured_machine.h"
#include "ddl/predict/measured/wire_seconds.h"
#include "ddl/predict/price.h"
#include "ddl/predict/schedule_group.h"

namespace ddl {
namespace {

constexpr std::size_t kElement = 4;

/// What was touched since, over what the cache holds: up to 1 / kStays all of a buffer is still there, from kGone on nothing is. Judgement: caches forget neither all at once nor the oldest first.
constexpr double kStays = 2, kGone = 2;

/// The part of the profile that was measured with so many ranks, or with the number nearest to it; of memory that is not the transport's, or in no cache, with just as many.
const Json& nearest_part(const Json& profile, const std::string& transport, int ranks, Goal goal, const std::string& memory) {
  if (const auto* found = measured_part(profile, transport, ranks, memory)) return *found;
  const int nearest = pricing_ranks(profile, transport, ranks);
  if (nearest == 0)
    throw Error(Code::not_found, fmt::format("[measured] what {} between {} ranks over {} takes was not measured; run ddlbench probe comm --transport {} --ranks {}", name(goal), ranks, transport, transport, ranks));
  return *measured_part(profile, transport, nearest, "own");
}

/// Of rounds over a test network's wires: latency comes to each, and what the processor does of a byte goes on beside its way over the wire, so that the slower of both counts.
UnitCosts over_wire(UnitCosts costs, const WireSetup& setup) {
  costs.alpha += setup.latency;
  if (setup.bytes_per_s > 0 && 1 / setup.bytes_per_s > costs.beta + 2 * costs.copy) {
    costs.beta = 1 / setup.bytes_per_s;
    costs.copy = 0;
  }
  return costs;
}

/// What `make` makes of a key, made once. What it throws leaves nothing: who asks again is refused again, instead of being given a zero.
template <typename Map, typename Make>
const typename Map::mapped_type& remembered(Map& known, const typename Map::key_type& key, const Make& make) {
  const auto found = known.find(key);
  return found != known.end() ? found->second : known.emplace(key, make()).first->second;
}

/// What is left of unit costs.
UnitCosts portion_of(const UnitCosts& costs, Portion portion) { return portion == Portion::latency ? UnitCosts{costs.alpha, costs.overhead} : costs; }

std::string default_word(const WireSetup& setup, Goal goal, std::size_t size, int ranks) { return std::string(default_algorithm(goal, size, ranks, shares_memory(setup.transport))); }

/// As users write it; maybe the library's own. As runs choose: they follow a profile in all-reduces alone, and what is asked for also where parts are scattered and gathered, if such have it.
std::string word_for(const Json& profile, const WireSetup& setup, Goal goal, std::size_t size, int ranks) {
  const auto& asked = setup.collective;
  const bool of_parts = goal == Goal::reduce_scatter || goal == Goal::all_gather;
  if (asked != "auto" && (goal == Goal::all_reduce || (of_parts && (asked == "ring" || asked == "direct")))) return asked;
  const auto word = goal == Goal::all_reduce ? best_algorithm(profile, setup.transport, ranks, goal, size) : "";
  return word.empty() ? default_word(setup, goal, size, ranks) : word;
}

/// Of a test network, that no byte goes faster than its wire lets it through.
double library_seconds(const Json& part, const WireSetup& setup, Goal goal, const std::string& word, std::size_t size, int ranks, Portion portion) {
  if (const auto name = parse_spec(setup.transport).name; shares_memory(name) || name == "tcp")
    throw Error(Code::invalid_argument, fmt::format("[measured] native is the all-reduce of a transport's library, and {} has none; got {}, expected transport mpi", name, word));
  const double there = native_seconds(part, goal, word, static_cast<std::int64_t>(size), ranks, portion), latency = setup.latency * std::ceil(std::log2(ranks));
  if (portion == Portion::latency || setup.bytes_per_s <= 0) return there + latency;
  return std::max(there, bus_factor(goal, ranks) * static_cast<double>(size) / setup.bytes_per_s) + latency;
}

}  // namespace

const Json* measured_part(const Json& profile, const std::string& transport, int ranks, const std::string& memory) {
  for (const auto& part : entries(profile, "communication"))
    if (part.at("transport") == transport && part.at("memory") == memory && part.at("ranks") == ranks) return &part;
  return nullptr;
}

bool shares_memory(const std::string& transport) {
  const auto name = parse_spec(transport).name;
  return name == "shm" || name == "inproc";
}

bool contends_alike(const std::string& measured, const std::string& transport) {
  // Threads of one process read each other's memory as processes do that share some.
  return parse_spec(measured).name == parse_spec(transport).name || (shares_memory(measured) && shares_memory(transport));
}

int nearest_ranks(int ranks, const std::vector<int>& measured) {
  const auto far = [&](int each) { return std::abs(std::log2(static_cast<double>(each) / ranks)); };
  // Of two that are as near, more: whichever was measured first.
  const auto nearest = std::min_element(measured.begin(), measured.end(), [&](int a, int b) { return std::pair(far(a), -a) < std::pair(far(b), -b); });
  return nearest == measured.end() ? 0 : *nearest;
}

int pricing_ranks(const Json& profile, const std::string& transport, int ranks) {
  std::vector<int> measured;
  for (const auto& part : entries(profile, "communication"))
    if (part.at("transport") == transport && part.at("memory") == "own") measured.push_back(part.at("ranks"));
  return nearest_ranks(ranks, measured);
}

double wire_seconds(const Json& profile, const WireSetup& setup, Goal goal, std::int64_t bytes, int ranks, Portion portion) {
  const auto& part = nearest_part(profile, setup.transport, ranks, goal, setup.memory);
  const bool shared = shares_memory(setup.transport);
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(0, bytes));
  const auto word = word_for(profile, setup, goal, size, ranks);
  if (parse_native(goal, word)) {
    // Of other memory it may not have been timed.
    const bool timed = times_native(part, goal, word);
    return library_seconds(timed ? part : nearest_part(profile, setup.transport, ranks, goal, "own"), setup, goal, word, size, ranks, portion);
  }
  const auto [algorithm, shape] = chosen_schedules(goal, word, size, ranks, kElement);
  const auto one_shot = wire_cost_from_json(part.at("one_shot"));
  if (shared && shape.elements != 0 && !one_shot.pieces.empty() && prepare(algorithm(0, shape), goal, shape.root).one_shot)
    return portion_of(one_shot.at(size), portion).seconds(one_shot_counts(shape, kElement));
  const auto rounds = wire_cost_from_json(part.at("rounds"));
  if (rounds.pieces.empty())
    throw Error(Code::not_found, fmt::format("[measured] what rounds of {} between {} ranks over {} take was not measured; run ddlbench probe comm --transport {} --ranks {}", name(goal), ranks,
                                             setup.transport, setup.transport, ranks));
  return price(group_schedules(algorithm, shape, kElement), portion_of(over_wire(rounds.at(size), setup), portion)).seconds;
}

double WireLoads::busiest() const {
  double most = 0;
  for (const auto* way : {&out, &in})
    for (const auto& [host, bytes] : *way) most = std::max(most, bytes);
  return most;
}

WireLoads wire_loads(const Json& profile, const WireSetup& setup, Goal goal, std::int64_t bytes, const std::vector<int>& hosts) {
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(0, bytes));
  const auto ranks = static_cast<int>(hosts.size());
  auto word = word_for(profile, setup, goal, size, ranks);
  // A library tells nobody what it sends where; taken to be what ours would.
  if (parse_native(goal, word)) word = default_word(setup, goal, size, ranks);
  const auto [algorithm, shape] = chosen_schedules(goal, word, size, ranks, kElement, hosts);
  WireLoads loads;
  loads.hosts = static_cast<int>(std::set<int>(hosts.begin(), hosts.end()).size());
  const auto group = group_schedules(algorithm, shape, kElement);
  for (std::size_t rank = 0; rank < group.ranks.size(); ++rank) {
    int rounds = 0;
    for (const auto& round : group.ranks[rank]) {
      bool crosses = false;
      for (const auto& taken : round.to) {
        const int here = hosts[rank], there = hosts[static_cast<std::size_t>(taken.rank)];
        if (here == there || taken.bytes == 0) continue;
        loads.out[here] += static_cast<double>(taken.bytes);
        loads.in[there] += static_cast<double>(taken.bytes);
        crosses = true;
      }
      rounds += crosses;
    }
    loads.rounds = std::max(loads.rounds, rounds);
  }
  return loads;
}

const WireLoads& MeasuredMachine::loads(Goal goal, std::int64_t bytes, const std::vector<int>& workers, const std::string& asked) const {
  std::vector<int> hosts;
  for (const int worker : workers) hosts.push_back(wire_host(worker));
  return remembered(loads_, {static_cast<int>(goal), asked, bytes, hosts}, [&] { return wire_loads(profile_, {setup_.transport, asked}, goal, bytes, hosts); });
}

bool MeasuredMachine::crosses(const std::vector<int>& workers) const {
  return std::any_of(workers.begin(), workers.end(), [&](int worker) { return wire_host(worker) != wire_host(workers.front()); });
}

bool MeasuredMachine::knows_memory(const std::string& memory, int ranks) const { return measured_part(profile_, setup_.transport, ranks, memory) != nullptr; }

double MeasuredMachine::evicted_share(std::int64_t touched, const std::vector<int>& workers) const {
  return knows_memory("evicted", static_cast<int>(workers.size())) ? left_caches(touched, workers.front()) : 0;
}

double MeasuredMachine::left_caches(std::int64_t touched, int worker) const {
  const auto cache = term_or(profile_, "device.cache_bytes", 0);
  if (cache <= 0) return 0;
  const int host = setup_.workers.at(static_cast<std::size_t>(worker)).host;
  // Between the first byte that is made and the last each worker has read as many parameters as it made gradients.
  const double all = 2 * static_cast<double>(touched) * static_cast<double>(computing_on(host, "cpu"));
  return all <= 0 ? 0 : std::clamp(std::log2(all / cache * kStays) / std::log2(kStays * kGone), 0.0, 1.0);
}

double MeasuredMachine::wire_alone(Goal goal, std::int64_t bytes, int ranks, const std::string& memory, const std::string& asked, bool over_fabric) const {
  return remembered(wires_, {static_cast<int>(goal), memory, asked, over_fabric, bytes, ranks}, [&] {
    return wire_seconds(profile_, {setup_.transport, asked, over_fabric ? setup_.wire_bytes_per_s : 0, over_fabric ? setup_.wire_latency : 0, memory}, goal, bytes, ranks);
  });
}

MeasuredMachine::OfCollective MeasuredMachine::beside_collective(int threads) const {
  return remembered(besides_, threads, [&] {
    double logs = 0, measured = 0, loads = 0;
    int count = 0, companies = 0;
    for (const auto& entry : entries(profile_, "contention")) {
      if (entry.value("what", "") != "collective" || entry.value("device", "cpu") != "cpu" || !contends_alike(entry.value("transport", ""), setup_.transport) || entry.value("threads", 0) != threads) continue;
      logs += std::log(std::max(1.0, usual(entry, "slowdown"))) + std::log(std::max(1.0, entry.at("collective_slowdown").get<double>()));
      measured = entry.at("workers").get<double>();
      count += 2;
    }
    // Unmeasured where a worker has more threads than half of the cores: each rank then is taken to keep one busy.
    if (count == 0) return OfCollective{1.0 / cores_, 0};
    // They were at it together before the collective came, too, and had slowed each other by so much: a pace at which they want less of what both want than they would alone.
    for (const auto& entry : entries(profile_, "contention"))
      if (entry.value("what", "") == "workers" && entry.value("device", "cpu") == "cpu" && entry.value("threads", 0) == threads && entry.at("workers").get<double>() == measured) {
        loads += std::log(std::max(1.0, usual(entry, "slowdown")));
        ++companies;
      }
    const double company = companies > 0 ? std::exp(loads / companies) : 1;
    // What both lost to each other, by the product of both: computing (1 + lost) / company, the collective 1 + lost. Where nobody's core was idle, cores that both wanted.
    const double both = std::exp(logs / count), lost = both * std::min(both, std::sqrt(company)) - 1, idle = std::max(0.0, 1 - measured * threads / cores_);
    if (idle <= 0) return OfCollective{lost / measured, 0};
    // Else something else that both wanted, while a rank kept an idle core busy, as long as there were such.
    return OfCollective{std::min(measured / cores_, idle) / measured, lost};
  });
}

int MeasuredMachine::room_of(int host, StepCosts& resources) { return resources.resource(fmt::format("room beside collectives on host {}", host)); }

TaskCost MeasuredMachine::wire(Goal goal, std::int64_t bytes, std::int64_t touched, const std::vector<int>& workers, Moved what, StepCosts& resources) const {
  const auto ranks = static_cast<int>(workers.size());
  if (ranks < 2) return {};
  const auto asked = asked_of(goal, what);
  const std::string memory = what == Moved::layers ? "outside" : "own";
  // Neighbours on one host of a test network have none of its wires between them.
  const bool over_fabric = (setup_.wire_bytes_per_s > 0 || setup_.wire_latency > 0) && crosses(workers);
  const auto* wires = over_fabric && !setup_.wire_hosts.empty() ? &loads(goal, bytes, workers, asked) : nullptr;
  // Of workers with a host each every round is over wires; of others some are, and those of a host share its wire.
  const bool each_has_one = over_fabric && (wires == nullptr || wires->hosts == ranks);
  TaskCost cost{wire_alone(goal, bytes, ranks, memory, asked, each_has_one)};
  if (const double evicted = what == Moved::buckets ? evicted_share(touched, workers) : 0; evicted > 0)
    cost.seconds += evicted * std::max(0.0, wire_alone(goal, bytes, ranks, "evicted", asked, each_has_one) - cost.seconds);
  if (wires != nullptr && !each_has_one)
    cost.seconds = std::max(cost.seconds, setup_.wire_bytes_per_s > 0 ? wires->busiest() / setup_.wire_bytes_per_s : 0) + wires->rounds * setup_.wire_latency;
  // Of each host what its ranks take, together no more than there is; of workers with unlike numbers of threads each knows its own part. All who take part say as much of it, and that adds up.
  std::map<int, double> shares, besides;
  for (const int each : workers) {
    const int host = setup_.workers.at(static_cast<std::size_t>(each)).host;
    const auto& known = beside_collective(worker(each).threads);
    shares[host] += known.cores;
    besides[host] = std::max(besides[host], known.lost);
  }
  for (auto& [host, share] : shares) share = std::min(1.0, share) / ranks;
  for (auto& [host, lost] : besides) lost = std::min(1.0, lost) / ranks;
  // What it takes of cores was measured without a test network, whose wires need none: the same work is spread over a longer time.
  if (over_fabric && cost.seconds > 0)
    for (auto* const all : {&shares, &besides})
      for (auto& [host, share] : *all) share *= std::min(1.0, wire_alone(goal, bytes, ranks, memory, asked, false) / cost.seconds);
  for (const auto& [host, share] : shares)
    if (share > 0) cost.demands.push_back({cores_of(host, resources), share});
  for (const auto& [host, lost] : besides)
    if (lost > 0) cost.demands.push_back({room_of(host, resources), lost});
  if (wires != nullptr && setup_.wire_bytes_per_s > 0 && cost.seconds > 0) {
    const double rate = setup_.wire_bytes_per_s * cost.seconds * ranks;
    for (const auto& [host, sent] : wires->out) cost.demands.push_back({resources.resource(fmt::format("wire out of host {}", host)), sent / rate});
    for (const auto& [host, received] : wires->in) cost.demands.push_back({resources.resource(fmt::format("wire into host {}", host)), received / rate});
  }
  if (const double away = staged(bytes, workers); away > 0 && cost.seconds > 0) {
    // The host's cores have nothing to do with that.
    for (auto& demand : cost.demands) demand.share *= cost.seconds / (cost.seconds + away);
    cost.seconds += away;
  }
  demand_gpus(workers, cost, resources);
  return cost;
}

void MeasuredMachine::demand_gpus(const std::vector<int>& workers, TaskCost& cost, StepCosts& resources) const {
  for (const int number : workers) {
    const auto& own = worker(number);
    if (own.is_host()) continue;
    double logs = 0;
    int count = 0;
    for (const auto& entry : entries(profile_, "contention")) {
      if (entry.value("what", "") != "collective" || !is_of(entry, own) || !contends_alike(entry.value("transport", ""), setup_.transport)) continue;
      logs += std::log(std::max(1.0, usual(entry, "slowdown"))) + std::log(std::max(1.0, entry.at("collective_slowdown").get<double>()));
      count += 2;
    }
    // Beside a worker that takes all of its GPU.
    if (count > 0 && logs > 0) cost.demands.push_back({gpu_of(number, resources), std::min(1.0, (std::exp(logs / count) - 1) / static_cast<double>(workers.size()))});
  }
}

TaskCost MeasuredMachine::collective(Goal goal, std::int64_t bytes, const std::vector<int>& workers, StepCosts& resources) const { return wire(goal, bytes, bytes, workers, Moved::buckets, resources); }

TaskCost MeasuredMachine::numbers(Goal goal, std::int64_t bytes, const std::vector<int>& workers, StepCosts& resources) const { return wire(goal, bytes, bytes, workers, Moved::numbers, resources); }

TaskCost MeasuredMachine::collective_after(Goal goal, std::int64_t bytes, std::int64_t touched, const std::vector<int>& workers, StepCosts& resources) const {
  return wire(goal, bytes, std::max(bytes, touched), workers, Moved::buckets, resources);
}

TaskCost MeasuredMachine::message(std::int64_t bytes, int from, int to, StepCosts& resources) const { return wire(Goal::point_to_point, bytes, bytes, {from, to}, Moved::buckets, resources); }

TaskCost MeasuredMachine::exchange(Goal goal, std::int64_t bytes, const std::vector<int>& workers, StepCosts& resources) const {
  auto cost = wire(goal, bytes, bytes, workers, Moved::layers, resources);
  // A piece goes into a buffer with places for all, and what came out of it to where layers read it (train/part_move.cpp); a sum is computed in a buffer of its own at most.
  // All workers of a host do so at once.
  const auto part = bytes / static_cast<std::int64_t>(std::max<std::size_t>(1, workers.size()));
  const int host = setup_.workers.at(static_cast<std::size_t>(workers.front())).host;
  const auto beside = std::count_if(workers.begin(), workers.end(), [&](int worker) { return setup_.workers.at(static_cast<std::size_t>(worker)).host == host; });
  const auto& memory = entries(profile_, "memory");
  if (!worker(workers.front()).is_host() || std::none_of(memory.begin(), memory.end(), [](const Json& entry) { return entry.value("what", "") == "copy"; })) return cost;
  const double copying = copy_together(workers.front(), goal == Goal::all_reduce ? bytes : bytes + part, static_cast<int>(beside)), moving = cost.seconds;
  cost.seconds += copying;
  if (cost.seconds <= 0) return cost;
  // Who copies has a core; of what both take of cores the mean over both.
  const auto cores = std::find_if(cost.demands.begin(), cost.demands.end(), [at = cores_of(host, resources)](const Demand& demand) { return demand.resource == at; });
  for (auto& demand : cost.demands) demand.share *= moving / cost.seconds;
  const double share = std::min(1.0, static_cast<double>(beside) / static_cast<double>(workers.size()) / cores_) * copying / cost.seconds;
  if (cores != cost.demands.end()) cores->share += share;
  else if (share > 0) cost.demands.push_back({cores_of(host, resources), share});
  return cost;
}

TaskCost MeasuredMachine::activation(std::int64_t bytes, int from, int to, StepCosts& resources) const { return wire(Goal::point_to_point, bytes, bytes, {from, to}, Moved::layers, resources); }

}  // namespace ddl
