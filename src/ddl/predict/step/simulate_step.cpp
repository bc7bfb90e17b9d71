#include "ddl/predict/step/simulate_step.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/core/random.h"
#include "ddl/plan/bucket_events.h"
#include "ddl/plan/meetings.h"
#include "ddl/plan/occasion.h"
#include "ddl/plan/peers.h"
#include "ddl/predict/step/server_turns.h"

namespace ddl {
namespace {

/// Steps of workers that step apart: those that are told of at least, of the slowest; of the fastest; those that come before, and for each step that one may be ahead of the slowest so many more, up to a limit,
/// in which who is faster comes to be so far ahead.
constexpr int kFewestApart = 4, kApart = 24, kLeadApart = 2, kLeadForEach = 4, kMostLead = 64;

int deepest(const Plan& plan) {
  int most = 0;
  for (const auto& role : plan.roles) most = std::max(most, depth(role));
  return most;
}

Nanoseconds to_nanoseconds(double time) { return static_cast<Nanoseconds>(std::llround(time * 1e9)); }

/// An event that a backward raises when so much of it is over.
struct Raise {
  double share = 1;
  std::vector<int> starts;  ///< tasks that wait for it
};

/// What a role's tasks wait for, the same in each step. Beside its tasks there are two more: what the loader does of a batch, and the harness's end of step.
struct RoleGraph {
  int tasks = 0;
  std::vector<int> open;                        ///< by task: what must come before, within the step
  std::vector<std::vector<int>> next;           ///< by task: what comes after it
  std::vector<std::vector<Raise>> raises;       ///< by task, in ascending order
  std::vector<std::pair<int, int>> queue_ends;  ///< first and last of each queue: the first waits for the last of the step before
  std::vector<int> loads;
  std::vector<int> communication;               ///< what the worker itself sends, receives and takes part in
  std::vector<int> first_of_step;               ///< of that, what is after nothing within a step: it waits for the end of the step before
  int loader() const { return tasks; }
  int harness() const { return tasks + 1; }
  int all() const { return tasks + 2; }
};

void connect(RoleGraph& graph, int from, int to) {
  graph.next[at(from)].push_back(to);
  ++graph.open[at(to)];
}

RoleGraph graph_of(const Plan& plan, int number, const StepCosts& costs) {
  const auto& role = plan.roles[at(number)];
  RoleGraph graph;
  graph.tasks = static_cast<int>(role.tasks.size());
  graph.open.resize(at(graph.all()));
  graph.next.resize(at(graph.all()));
  graph.raises.resize(at(graph.all()));
  std::vector<int> compute, serve;
  for (int t = 0; t < graph.tasks; ++t) {
    const auto& task = role.tasks[at(t)];
    if (task.kind == TaskKind::load) graph.loads.push_back(t);
    if (!communicates(task)) (task.stream == Stream::server ? serve : compute).push_back(t);
  }
  compute.push_back(graph.harness());
  std::vector<std::vector<int>> queues{compute, {graph.loader()}};
  if (!serve.empty()) queues.push_back(serve);
  for (auto& [key, tasks] : communication_queues(role)) queues.push_back(tasks);
  for (const auto& queue : queues) {
    for (std::size_t k = 1; k < queue.size(); ++k) connect(graph, queue[k - 1], queue[k]);
    graph.queue_ends.emplace_back(queue.front(), queue.back());
  }
  const BucketEvents events(plan, role);
  // A worker's step ends when all is over that it takes part in, unless steps go on into each other.
  const bool waits = !plan.asynchronous();
  std::map<std::tuple<int, int>, Raise> raises;  // by backward and bucket
  for (int t = 0; t < graph.tasks; ++t) {
    const auto& task = role.tasks[at(t)];
    if (waits && communicates(task) && task.stream == Stream::communication) {
      connect(graph, t, graph.harness());
      graph.communication.push_back(t);
    }
    for (const int other : task.after) connect(graph, other, t);
    if (task.waits_for == kNone) continue;
    const auto& bucket = role.buckets[at(task.waits_for)];
    const int backward = events.raised_by(task);
    if (backward == kNone) throw Error(Code::invalid_argument, fmt::format("[simulate] {}: nothing raises the event that '{}' waits for", role.name, task.label));
    auto& raise = raises[{backward, task.waits_for}];
    // Of a bucket of several stages nobody knows when the others' parts are there but that they are by then.
    raise.share = bucket.stage == kNone ? 1 : std::clamp(costs.ready.at(at(number)).at(at(task.waits_for)), 0.0, 1.0);
    raise.starts.push_back(t);
    ++graph.open[at(t)];
  }
  for (const int t : graph.communication)
    if (const auto& task = role.tasks[at(t)]; task.after.empty() && task.waits_for == kNone) graph.first_of_step.push_back(t);
  for (auto& [key, raise] : raises) graph.raises[at(std::get<0>(key))].push_back(raise);
  for (auto& each : graph.raises) std::stable_sort(each.begin(), each.end(), [](const Raise& a, const Raise& b) { return a.share < b.share; });
  return graph;
}

/// One message, or one collective, of a step.
struct Meeting {
  std::vector<std::pair<int, int>> members;  ///< actor and task
  int ahead = 0;                             ///< of who receives: it is counted in that one's step
};

/// Which tasks meet: a task that is a message with each of several workers is in several meetings.
struct MeetingTable {
  std::vector<Meeting> all;
  std::vector<std::vector<std::vector<int>>> of;  ///< by actor and task
};

MeetingTable meetings_of(const Plan& plan, const std::vector<Actor>& actors) {
  const auto numbers = meetings(plan).numbers;
  const bool by_worker = actors.size() != plan.roles.size() || actors.size() == at(plan.workers());
  MeetingTable out;
  std::map<std::tuple<int, int, int>, int> known;
  for (std::size_t a = 0; a < actors.size(); ++a) {
    const auto& actor = actors[a];
    const auto& role = plan.roles[at(actor.role)];
    out.of.emplace_back(role.tasks.size());
    const auto join = [&](std::size_t t, int number, int one, int other) {
      const auto [place, fresh] = known.try_emplace({number, one, other}, static_cast<int>(out.all.size()));
      if (fresh) out.all.emplace_back();
      auto& meeting = out.all[at(place->second)];
      meeting.members.emplace_back(static_cast<int>(a), static_cast<int>(t));
      if (role.tasks[t].kind != TaskKind::send) meeting.ahead = role.tasks[t].ahead;
      out.of[a][t].push_back(place->second);
    };
    std::map<int, int> first_of_group;
    for (std::size_t t = 0; t < role.tasks.size(); ++t) {
      const auto& task = role.tasks[t];
      const int number = numbers[at(actor.role)][t];
      if (number == kNone) continue;
      if (!by_worker) {
        join(t, number, 0, 0);
      } else if (!is_transfer(task)) {
        const auto [place, fresh] = first_of_group.try_emplace(task.group, 0);
        if (fresh) {
          const auto together = members(plan.mesh, plan.groups[at(task.group)], actor.worker);
          place->second = *std::min_element(together.begin(), together.end());
        }
        join(t, number, place->second, 0);
      } else {
        const auto meet = [&](int peer) {
          if (peer != kNone) join(t, number, task.kind == TaskKind::send ? actor.worker : peer, task.kind == TaskKind::send ? peer : actor.worker);
        };
        const auto& other = plan.roles[at(task.peer)];
        // What a flip leaves out, or comes from so many places back.
        if (task.peer == actor.role && task.shift != 0 && task.kind == TaskKind::receive)
          meet(role.first + places(actor.worker - role.first + task.shift, role.count));
        else if (role.count == 1 && other.count > 1)
          for (int w = 0; w < other.count; ++w) meet(other.first + w);
        else
          meet(peer_of(plan, actor.worker, task));
      }
    }
  }
  return out;
}

class Simulation {
 public:
  /// Of steps beyond those that there are costs of, the last counts.
  Simulation(const Plan& plan, std::span<const StepCosts> by_step, int steps, int first_step, Traced traced = Traced::last)
      : plan_(plan), by_step_(by_step), costs_(by_step.front()), called_(span_workers(costs_.actors)), range_(steps_to_simulate(plan)), asynchronous_(plan.asynchronous()), apart_(steps_apart(plan)), before_(deepest(plan)), steps_(steps + before_),
        first_step_(first_step), traced_(traced), shares_(costs_.resources.size()), meetings_(meetings_of(plan, costs_.actors)) {
    const auto& costs = costs_;
    if ((asynchronous_ && steps <= range_.lead + range_.tail) || (apart_ && steps < range_.lead + kFewestApart))
      throw Error(Code::invalid_argument, fmt::format("[simulate] steps of {}, which run into each other; got {}, expected {} or more", plan.strategy, steps, asynchronous_ ? range_.lead + range_.tail + 1 : range_.lead + kFewestApart));
    if (costs.tasks.size() != costs.actors.size() || costs.harness.size() != costs.actors.size() || costs.loader.size() != costs.actors.size() || costs.ready.size() != plan.roles.size())
      throw Error(Code::invalid_argument, fmt::format("[simulate] costs of {} actors and {} roles; expected {} and {}", costs.tasks.size(), costs.ready.size(), costs.actors.size(), plan.roles.size()));
    for (int r = 0; r < static_cast<int>(plan.roles.size()); ++r) graphs_.push_back(graph_of(plan, r, costs));
    std::size_t nodes = 0;
    for (const auto& actor : costs.actors) {
      first_node_.push_back(nodes);
      nodes += at(graphs_[at(actor.role)].all()) * at(steps_);
    }
    open_.resize(nodes);
    done_.resize(nodes, -1);
    for (std::size_t a = 0; a < costs.actors.size(); ++a) begin(a);
    arrived_.resize(meetings_.all.size() * at(steps_));
    slowness_.resize(costs.actors.size());
    if (varies())
      for (std::size_t a = 0; a < costs.actors.size(); ++a) {
        slowness_[a].push_back(1);
        for (const double draw : draw_maxima(std::max(1, costs.actors[a].count), steps - 1, kJitterSeed, a)) slowness_[a].push_back(std::exp(draw * (costs.actors[a].count > 1 ? costs.jitter.own() : costs.jitter.lasting())));
      }
    // Until it is met, who arrives first waits.
    states_.resize(costs.actors.size());
    through_.resize(costs.actors.size());
    for (int s = 0; apart_ && s < plan.serving.servers; ++s) {
      servers_.push_back({ServerTurns(costs.actors.size(), plan.serving.stale)});
      while (costs.actors.at(at(servers_.back().actor)).role != s) ++servers_.back().actor;
      const auto& tasks = plan.roles[at(s)].tasks;
      const auto update = std::find_if(tasks.begin(), tasks.end(), [](const Task& task) { return task.stream == Stream::server && task.kind == TaskKind::update; });
      servers_.back().update = static_cast<int>(update - tasks.begin());
    }
  }

  StepSimulation run() {
    for (std::size_t a = 0; a < costs_.actors.size(); ++a)
      for (int s = 0; s < steps_; ++s)
        for (int t = 0; t < graph(a).all(); ++t)
          if (open_[node(a, s, t)] == 0) ready_.push_back({static_cast<int>(a), s, t});
    start_ready();
    for (auto next = shares_.next(); next && !seen_enough(); next = shares_.next()) {
      now_ = next->first;
      finish(next->second);
      start_ready();
    }
    return result();
  }

 private:
  struct Place {
    int actor, step, task;
  };
  /// What goes to or comes from a server that answers each worker by itself.
  enum class AtServer : std::uint8_t { no, moves, has_its_turn };
  /// What comes after a task, where it hands messages over before its stream goes on.
  enum class Next : std::uint8_t { all, messages, others };
  /// Something under way: a task, the part of a backward until its next event, or a meeting.
  struct UnderWay {
    Place place{};
    int meeting = kNone;
    std::size_t piece = 0;
    double begin = 0;
    AtServer at_server = AtServer::no;
    ServerTurns::Turn turn = {};
    bool hands_over = false;
    std::optional<std::size_t> member = {};  ///< of a meeting, who is through with it by itself (StepCosts::ends_apart); absent: all
  };
  struct Server {
    ServerTurns turns;
    int actor = 0;   ///< with whom it lives
    int update = 0;  ///< task that applies a gradient
    double began = 0;
  };
  struct State {
    double free_since = 0;  ///< when the compute stream was last done with something
  };

  const StepCosts& costs_of(int step) const {
    const auto number = at(std::max(0, step - before_));
    if (apart_ && number >= by_step_.size() && by_step_.size() > 1) return by_step_[1 + (number - 1) % (by_step_.size() - 1)];
    return by_step_[std::min(number, by_step_.size() - 1)];
  }
  const RoleGraph& graph(std::size_t actor) const { return graphs_[at(costs_.actors[actor].role)]; }
  const Role& role(int actor) const { return plan_.roles[at(costs_.actors[at(actor)].role)]; }
  std::size_t node(std::size_t actor, int step, int task) const { return first_node_[actor] + at(step) * at(graph(actor).all()) + at(task); }
  std::size_t node(const Place& place) const { return node(at(place.actor), place.step, place.task); }

  void begin(std::size_t a) {
    const auto& own = graph(a);
    for (int s = 0; s < steps_; ++s) {
      for (int t = 0; t < own.all(); ++t) open_[node(a, s, t)] = own.open[at(t)];
      if (s > 0)
        for (const auto& [first, last] : own.queue_ends) ++open_[node(a, s, first)];
      if (s > 0)
        for (const int task : own.first_of_step) ++open_[node(a, s, task)];
      for (const int load : own.loads) open_[node(a, s, load)] += 1;
      if (s >= prefetch()) open_[node(a, s, own.loader())] += own.loads.empty() ? 0 : 1;
    }
  }

  int prefetch() const { return std::max(1, costs_.prefetch); }

  bool is_due(const Place& place) const {
    if (place.task >= graph(at(place.actor)).tasks) return true;
    if (asynchronous_) {
      const int batch = place.step - before_ + role(place.actor).tasks[at(place.task)].ahead;
      return batch >= 0 && batch < steps_ - before_;
    }
    // The last step is one among others here: what is done at the end of a run is no step's.
    return ddl::is_due(plan_, role(place.actor).tasks[at(place.task)], first_step_ + place.step, false);
  }

  void start_ready() {
    while (!ready_.empty()) {
      const auto place = ready_.back();
      ready_.pop_back();
      start(place);
    }
  }

  void start(const Place& place) {
    const auto& own = graph(at(place.actor));
    if (!is_due(place)) return over(place);
    // What comes before the first step is forwards and their messages alone.
    const bool real = place.step >= before_;
    if (place.task == own.loader()) return work(place, real ? costs_of(place.step).loader[at(place.actor)] : TaskCost{}, 0);
    if (place.task == own.harness()) {
      tell_stalls(place, own.communication);
      return work(place, real ? costs_of(place.step).harness[at(place.actor)] : TaskCost{}, 0);
    }
    const auto& task = role(place.actor).tasks[at(place.task)];
    // Of what a server does for workers that step apart each has its turn (to_server()).
    if (apart_ && task.stream == Stream::server) return over(place);
    if (!communicates(task)) {
      if (task.stream == Stream::compute) tell_stalls(place, task.after);
      return work(place, costs_of(place.step).tasks[at(place.actor)][at(place.task)], 0);
    }
    arrivals_[node(place)] = {now_, 0};
    const auto& meets = meetings_.of[at(place.actor)][at(place.task)];
    if (meets.empty()) return over(place);
    if (apart_) return to_server(place, task);
    for (const int meeting : meets) arrive(place, meeting);
  }

  void work(const Place& place, const TaskCost& cost, std::size_t piece) {
    const auto& raises = graph(at(place.actor)).raises[at(place.task)];
    const double from = piece == 0 ? 0 : raises[piece - 1].share;
    const double to = piece < raises.size() ? raises[piece].share : 1;
    if (piece == 0) began_[node(place)] = now_;
    // What the loader does goes on beside the worker.
    const bool varies = !slowness_[at(place.actor)].empty() && place.task != graph(at(place.actor)).loader();
    const double seconds = cost.seconds * (to - from) * (varies ? slowness_[at(place.actor)][at(place.step)] * piece_slowness(place, cost.seconds) : 1);
    if (seconds <= 0) return piece_over(place, piece);
    enter(shares_.start(seconds, cost.demands, now_), {place, kNone, piece, now_});
  }

  /// What comes and goes within a step is another for each task. Of an actor that stands for several they wait for each other once a step: the slowest then is in its slowness.
  double piece_slowness(const Place& place, double seconds) {
    const double deviation = costs_.actors[at(place.actor)].count > 1 || place.step == 0 ? 0 : costs_.jitter.of_piece(seconds);
    if (deviation <= 0) return 1;
    const auto number = static_cast<std::uint64_t>(costs_.actors.size() + first_node_[at(place.actor)]) + static_cast<std::uint64_t>(place.task);
    auto [found, fresh] = draws_.try_emplace(number);
    if (fresh) {
      if (quantiles_.empty()) {
        quantiles_ = draw_maxima(1, steps_ - 1, kJitterSeed, 0);
        std::sort(quantiles_.begin(), quantiles_.end());
      }
      for (const auto which : permutation(steps_ - 1, kJitterSeed, number)) found->second.push_back(quantiles_[static_cast<std::size_t>(which)]);
    }
    return std::max(0.0, 1 + deviation * found->second[at(place.step - 1)]);
  }

  void piece_over(const Place& place, std::size_t piece) {
    const auto& raises = graph(at(place.actor)).raises[at(place.task)];
    if (piece == raises.size()) return compute_over(place);
    for (const int task : raises[piece].starts) opened({place.actor, place.step, task});
    const auto& own = graph(at(place.actor));
    const auto& costs = costs_of(place.step);
    const auto& cost = place.task == own.loader() ? costs.loader[at(place.actor)] : costs.tasks[at(place.actor)][at(place.task)];
    work(place, cost, piece + 1);
  }

  void compute_over(const Place& place) {
    const auto& own = graph(at(place.actor));
    const auto began = began_.find(node(place));
    if (place.task == own.harness()) {
      tell(place, Stream::compute, Cause::harness, began->second, now_, kNone, 0);
      ends(place);
    } else if (place.task == own.loader()) {
      tell(place, Stream::loader, Cause::load, began->second, now_, kNone, 0);
    } else {
      const auto& task = role(place.actor).tasks[at(place.task)];
      tell(place, task.stream, cause_of(task.kind), began->second, now_, place.task, 0);
    }
    if (place.task == own.harness() || (place.task < own.tasks && role(place.actor).tasks[at(place.task)].stream == Stream::compute)) states_[at(place.actor)].free_since = now_;
    began_.erase(began);
    const auto& costs = costs_of(place.step);
    const double handing = place.task < own.tasks && place.step >= before_ ? costs.tasks[at(place.actor)][at(place.task)].handing : 0;
    if (handing <= 0) return over(place);
    done_[node(place)] = now_;
    open_next(place, Next::messages);
    UnderWay what{place, kNone, 0, now_};
    what.hands_over = true;
    enter(shares_.start(handing, {}, now_), what);
  }

  void handed_over(const Place& place, double began) {
    tell(place, Stream::compute, Cause::communication, began, now_, kNone, 0);
    states_[at(place.actor)].free_since = now_;
    go_on(place, Next::others);
  }

  void arrive(const Place& place, int number) {
    const auto& meeting = meetings_.all[at(number)];
    const int step = place.step + role(place.actor).tasks[at(place.task)].ahead - meeting.ahead;
    auto& count = arrived_[at(step) * meetings_.all.size() + at(number)];
    if (++count < static_cast<int>(meeting.members.size())) return;
    double seconds = 0;
    std::vector<Demand> demands;
    for (const auto& [actor, task] : meeting.members) {
      const auto& cost = costs_of(step).tasks[at(actor)][at(task)];
      seconds = std::max(seconds, cost.seconds);
      for (const auto& demand : cost.demands) {
        const auto known = std::find_if(demands.begin(), demands.end(), [&](const Demand& other) { return other.resource == demand.resource; });
        // What several of them take of one thing adds up.
        if (known == demands.end()) demands.push_back(demand);
        else known->share = std::min(1.0, known->share + demand.share);
      }
    }
    if (seconds <= 0) return met(number, step);
    const auto& [first, its_task] = meeting.members.front();
    if (!costs_.ends_apart || is_transfer(role(first).tasks[at(its_task)])) return enter(shares_.start(seconds, demands, now_), {{kNone, step, kNone}, number, 0, now_});
    for (std::size_t m = 0; m < meeting.members.size(); ++m) {
      const auto& [actor, task] = meeting.members[m];
      const double own = costs_of(step).tasks[at(actor)][at(task)].seconds;
      if (own <= 0) {
        met_by(number, step, m);
        continue;
      }
      UnderWay what{{kNone, step, kNone}, number, 0, now_};
      what.member = m;
      enter(shares_.start(own, {}, now_), what);
    }
  }

  void met(int number, int step) {
    for (std::size_t m = 0; m < meetings_.all[at(number)].members.size(); ++m) met_by(number, step, m);
  }

  void met_by(int number, int step, std::size_t member) {
    const auto& meeting = meetings_.all[at(number)];
    const auto& [actor, task] = meeting.members[member];
    const Place place{actor, step + meeting.ahead - role(actor).tasks[at(task)].ahead, task};
    auto& [arrived, over_count] = arrivals_[node(place)];
    if (++over_count < meetings_.of[at(actor)][at(task)].size()) return;
    tell({actor, step, task}, role(actor).tasks[at(task)].stream, Cause::communication, arrived, now_, task, static_cast<std::uint32_t>(number + 1));
    arrivals_.erase(node(place));
    over(place);
  }

  /// What is pushed moves, and is applied when its turn comes; who pulls has its turn once the slowest is near enough.
  void to_server(const Place& place, const Task& task) {
    const ServerTurns::Turn turn{place.actor, place.step, place.task, task.kind == TaskKind::send};
    const auto& cost = costs_of(place.step).tasks[at(place.actor)][at(place.task)];
    if (turn.push && cost.seconds > 0) return enter(shares_.start(cost.seconds, cost.demands, now_), {place, kNone, 0, now_, AtServer::moves, turn});
    ask(task.peer, turn);
  }

  void ask(int number, const ServerTurns::Turn& turn) {
    servers_[at(number)].turns.ask(turn);
    serve(number);
  }

  void serve(int number) {
    auto& server = servers_[at(number)];
    while (const auto turn = server.turns.next()) {
      server.began = now_;
      const auto& costs = costs_of(turn->step);
      const auto& cost = turn->push ? costs.tasks[at(server.actor)][at(server.update)] : costs.tasks[at(turn->actor)][at(turn->task)];
      if (cost.seconds > 0) return enter(shares_.start(cost.seconds, cost.demands, now_), {{turn->actor, turn->step, turn->task}, kNone, 0, now_, AtServer::has_its_turn, *turn});
      served(number, *turn);
    }
  }

  void served(int number, const ServerTurns::Turn& turn) {
    auto& server = servers_[at(number)];
    server.turns.over(turn);
    const Place place{turn.actor, turn.step, turn.task};
    const int meets = meetings_.of[at(turn.actor)][at(turn.task)].front();
    const auto meeting = static_cast<std::uint32_t>(meets + 1);
    for (const auto& [actor, task] : meetings_.all[at(meets)].members)
      if (role(actor).tasks[at(task)].stream == Stream::server)
        tell({actor, turn.step, task}, Stream::server, turn.push ? Cause::update : Cause::communication, server.began, now_, task, meeting);
    tell(place, Stream::communication, Cause::communication, arrivals_[node(place)].first, now_, turn.task, meeting);
    arrivals_.erase(node(place));
    over(place);
  }

  void enter(std::size_t number, const UnderWay& what) {
    if (under_way_.size() <= number) under_way_.resize(number + 1);
    under_way_[number] = what;
  }

  void finish(std::size_t number) {
    const auto what = under_way_[number];
    shares_.finish(number, now_);
    if (what.meeting != kNone) return what.member ? met_by(what.meeting, what.place.step, *what.member) : met(what.meeting, what.place.step);
    if (what.hands_over) return handed_over(what.place, what.begin);
    if (what.at_server == AtServer::no) return piece_over(what.place, what.piece);
    const int server = role(what.place.actor).tasks[at(what.place.task)].peer;
    if (what.at_server == AtServer::moves) return ask(server, what.turn);
    served(server, what.turn);
    serve(server);
  }

  void opened(const Place& place) {
    if (--open_[node(place)] == 0) ready_.push_back(place);
  }

  void over(const Place& place) {
    done_[node(place)] = now_;
    go_on(place, Next::all);
  }

  void open_next(const Place& place, Next which) {
    const auto& own = graph(at(place.actor));
    const auto& tasks = role(place.actor).tasks;
    for (const int task : own.next[at(place.task)]) {
      const bool message = task < own.tasks && communicates(tasks[at(task)]);
      if (which == Next::all || message == (which == Next::messages)) opened({place.actor, place.step, task});
    }
  }

  void go_on(const Place& place, Next which) {
    const auto& own = graph(at(place.actor));
    open_next(place, which);
    if (place.step + 1 < steps_)
      for (const auto& [first, last] : own.queue_ends)
        if (last == place.task) opened({place.actor, place.step + 1, first});
    if (place.task == own.harness() && place.step + 1 < steps_)
      for (const int task : own.first_of_step) opened({place.actor, place.step + 1, task});
    if (place.task == own.loader())
      for (const int load : own.loads) opened({place.actor, place.step, load});
    if (!own.loads.empty() && place.task == own.loads.back() && place.step + prefetch() < steps_) opened({place.actor, place.step + prefetch(), own.loader()});
  }

  /// The compute stream stood still since it was last done with something: for each task that this one is after and that came later, until that was there.
  void tell_stalls(const Place& place, const std::vector<int>& after) {
    if (!keeps(place.step)) return;
    const auto& tasks = role(place.actor).tasks;
    double since = states_[at(place.actor)].free_since;
    if (since >= now_) return;
    std::vector<std::pair<double, int>> late;
    for (const int other : after)
      if (const double done = done_[node({place.actor, place.step, other})]; done > since && communicates(tasks[at(other)])) late.emplace_back(done, other);
    std::sort(late.begin(), late.end());
    for (const auto& [done, other] : late) {
      const auto& waited = tasks[at(other)];
      const bool of_stages = waited.kind == TaskKind::receive && waited.cargo != Cargo::parameters && waited.cargo != Cargo::state && !plan_.in_process;
      const auto& meets = meetings_.of[at(place.actor)][at(other)];
      tell(place, Stream::compute, of_stages ? Cause::bubble : Cause::communication, since, done, other, meets.empty() ? 0 : static_cast<std::uint32_t>(meets.back() + 1));
      since = done;
    }
    if (place.task < graph(at(place.actor)).tasks && tasks[at(place.task)].kind == TaskKind::load && since < now_) tell(place, Stream::compute, Cause::load, since, now_, place.task, 0);
  }

  bool keeps(int step) const {
    if (asynchronous_) return step >= before_ + range_.lead && step < steps_ - range_.tail;
    if (apart_) return step >= range_.lead;
    return step + 1 == steps_ || (differ() && step > 0);
  }
  /// What is told of is all of the steps but the first.
  bool differ() const { return varies() || (traced_ == Traced::all_but_first && steps_ > 1 && !asynchronous_ && !apart_); }
  bool varies() const { return steps_ > 1 && costs_.jitter.own() > 0 && !asynchronous_ && !apart_; }

  /// Of workers that step apart one is through with all its steps, and the others have done enough of theirs.
  bool seen_enough() const {
    return apart_ && *std::max_element(through_.begin(), through_.end()) == steps_ && *std::min_element(through_.begin(), through_.end()) >= range_.lead + kFewestApart;
  }

  void tell(const Place& place, Stream stream, Cause cause, double begin, double end, int task, std::uint32_t meeting) {
    // Of a message that took no time the arrival is to be known all the same.
    if (!keeps(place.step) || (end <= begin && meeting == 0)) return;
    trace_.push_back({to_nanoseconds(begin), to_nanoseconds(end), place.step - before_, task, called_[at(place.actor)], stream, cause, meeting});
  }

  void ends(const Place& place) {
    auto& of_actor = ends_[at(place.actor)];
    of_actor.resize(at(steps_));
    of_actor[at(place.step)] = now_;
    through_[at(place.actor)] = place.step + 1;
  }

  StepSimulation result() {
    for (std::size_t n = 0; n < done_.size() && !apart_; ++n)
      if (done_[n] < 0) come_to_a_stop();
    StepSimulation out;
    out.ends.resize(at(steps_ - before_));
    for (const auto& [actor, times] : ends_)
      for (std::size_t s = at(before_); s < times.size(); ++s) out.ends[s - at(before_)] = std::max(out.ends[s - at(before_)], times[s]);
    if (asynchronous_ || apart_) {
      tell_of_each(out);
    } else {
      for (std::size_t a = 0; a < costs_.actors.size(); ++a) {
        const auto& times = ends_[a];
        const double begin = steps_ < 2 ? 0 : times[at(steps_ - 2)];
        out.last.push_back({to_nanoseconds(begin), to_nanoseconds(times.back())});
        out.traced.push_back({differ() ? to_nanoseconds(times.front()) : out.last.back().begin, out.last.back().end});
        auto& own = out.steps.emplace_back();
        for (int s = 0; s < steps_; ++s)
          if (keeps(s)) own.push_back({to_nanoseconds(s > 0 ? times[at(s - 1)] : 0), to_nanoseconds(times[at(s)])});
      }
      out.first_traced = differ() ? 1 : steps_ - 1;
      out.step_seconds = steps_ > 1 ? (out.ends.back() - out.ends.front()) / (steps_ - 1) : 0;
    }
    out.trace = std::move(trace_);
    return out;
  }

  [[noreturn]] void come_to_a_stop() const {
    throw Error(Code::invalid_argument, fmt::format("[simulate] {}: the plan comes to a stop after {:.6g} s; verify() says where", plan_.strategy, now_));
  }

  /// Of steps that go on into each other each worker has its own times: a step is their mean, or, where nobody waits for others to begin one, what all together take for as many.
  void tell_of_each(StepSimulation& out) const {
    double sum = 0, rate = 0, count = 0;
    out.first_traced = range_.lead;
    for (std::size_t a = 0; a < costs_.actors.size(); ++a) {
      const int first = before_ + range_.lead, last = apart_ ? through_[a] : steps_ - range_.tail;
      if (last <= first) come_to_a_stop();
      const auto& times = ends_.at(a);
      auto& own = out.steps.emplace_back();
      for (int s = first; s < last; ++s) own.push_back({to_nanoseconds(times[at(s - 1)]), to_nanoseconds(times[at(s)])});
      out.last.push_back(own.back());
      out.traced.push_back({own.front().begin, own.back().end});
      const double seconds = (times[at(last - 1)] - times[at(first - 1)]) / (last - first), stands_for = std::max(1, costs_.actors[a].count);
      sum += stands_for * seconds;
      rate += seconds > 0 ? stands_for / seconds : 0;
      count += stands_for;
    }
    out.step_seconds = !apart_ ? sum / count : rate > 0 ? count / rate : 0;
  }

  const Plan& plan_;
  std::span<const StepCosts> by_step_;
  const StepCosts& costs_;  ///< of the first step
  const std::vector<std::int16_t> called_;  ///< by actor, as spans have it
  StepRange range_;
  bool asynchronous_, apart_;
  int before_;              ///< steps before the first, in which some are ahead already
  int steps_, first_step_;  ///< with those
  Traced traced_;
  FairShare shares_;
  MeetingTable meetings_;
  std::vector<RoleGraph> graphs_;
  std::vector<std::size_t> first_node_;
  std::vector<int> open_;
  std::vector<double> done_;                 ///< s; below 0: not yet
  std::vector<int> arrived_;                 ///< by step and meeting
  std::vector<std::vector<double>> slowness_;  ///< by actor and step: how many times as long what it computes takes; empty without jitter
  std::vector<double> quantiles_;            ///< of a standard normal distribution, as many as steps that vary, in ascending order
  std::unordered_map<std::uint64_t, std::vector<double>> draws_;  ///< by actor and task: of each step but the first, standard normal
  std::map<std::size_t, double> began_;      ///< of what computes, by node
  std::map<std::size_t, std::pair<double, std::size_t>> arrivals_;  ///< of what communicates, by node: when, and how many of its meetings are over
  std::vector<State> states_;
  std::vector<UnderWay> under_way_;          ///< by number in shares_
  std::vector<Place> ready_;
  std::map<std::size_t, std::vector<double>> ends_;     ///< by actor and step
  std::vector<int> through_;                            ///< by actor: steps that it has done
  std::vector<Server> servers_;                         ///< of workers that step apart
  double now_ = 0;
  Trace trace_;
};

}  // namespace

int StepCosts::resource(const std::string& called) {
  const auto [place, fresh] = resource_numbers.try_emplace(called, static_cast<int>(resources.size()));
  if (fresh) resources.push_back(called);
  return place->second;
}

std::vector<Actor> roles_as_actors(const Plan& plan) {
  std::vector<Actor> actors;
  for (int r = 0; r < static_cast<int>(plan.roles.size()); ++r) actors.push_back({r, plan.roles[at(r)].first, plan.roles[at(r)].count});
  return actors;
}

std::vector<Actor> workers_as_actors(const Plan& plan) {
  std::vector<Actor> actors;
  for (int r = 0; r < static_cast<int>(plan.roles.size()); ++r)
    for (int w = 0; w < plan.roles[at(r)].count; ++w) actors.push_back({r, plan.roles[at(r)].first + w, 1});
  return actors;
}

StepRange steps_to_simulate(const Plan& plan) {
  if (const int most = deepest(plan); most > 0) return {8 * (most + 1), 0, 1, 2 * (most + 1), 2 * (most + 1)};
  if (steps_apart(plan)) {
    const int lead = std::min(kMostLead, kLeadApart + kLeadForEach * std::max(0, plan.serving.stale));
    return {lead + kApart, 0, 1, lead, 0};
  }
  int rhythm = 1, first = 0;
  for (const auto& role : plan.roles)
    for (const auto& task : role.tasks) {
      rhythm = std::lcm(rhythm, std::max(1, task.every));
      first = std::max(first, task.first_step);
    }
  return {std::max(2, rhythm) + 1, first, rhythm, 1, 0};
}

StepRange steps_to_simulate(const Plan& plan, const Jitter& jitter) {
  auto range = steps_to_simulate(plan);
  if (jitter.own() > 0 && !plan.asynchronous() && !steps_apart(plan)) range.steps = (kJitterDraws + range.round - 1) / range.round * range.round + 1;
  return range;
}

StepSimulation simulate_steps(const Plan& plan, const StepCosts& costs, int steps, int first_step, Traced traced) {
  if (steps < 1) throw Error(Code::invalid_argument, fmt::format("[simulate] steps; got {}, expected 1 or more", steps));
  return Simulation(plan, {&costs, 1}, steps, first_step, traced).run();
}

StepSimulation simulate_each_step(const Plan& plan, std::span<const StepCosts> by_step, int first_step, int steps) {
  if (by_step.empty()) throw Error(Code::invalid_argument, "[simulate] costs of steps; got none, expected those of one or more");
  for (const auto& costs : by_step)
    if (costs.actors.size() != by_step.front().actors.size() || costs.tasks.size() != costs.actors.size() || costs.harness.size() != costs.actors.size() || costs.loader.size() != costs.actors.size())
      throw Error(Code::invalid_argument, fmt::format("[simulate] actors of a step; got {}, expected {}, as in the first", costs.tasks.size(), by_step.front().actors.size()));
  return Simulation(plan, by_step, std::max(steps, static_cast<int>(by_step.size())), first_step).run();
}

}  // namespace ddl
