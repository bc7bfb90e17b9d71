#include "ddl/lab/advise_job.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/ranges.h>

#include "ddl/collective/compression.h"
#include "ddl/core/error.h"
#include "ddl/lab/batch_split.h"
#include "ddl/lab/beyond.h"
#include "ddl/lab/job_interval.h"
#include "ddl/lab/measured_choices.h"
#include "ddl/lab/predict_job.h"
#include "ddl/lab/real_worker.h"
#include "ddl/measure/clock.h"
#include "ddl/predict/advise/search.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/nn/model.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/step/compressed.h"
#include "ddl/strategy/split_parts.h"
#include "ddl/train/check_job.h"
#include "ddl/train/plan_job.h"
#include "ddl/train/precision.h"

namespace ddl {
namespace {

/// The simulator takes some 10 ms for so many tasks.
constexpr std::size_t kFewTasks = 20'000;
/// Of what was priced alone, so many of the fastest are simulated.
constexpr std::size_t kFastest = 10;

/// Strategies of stages whose boundaries are moved, the fastest first; and how much faster each step of that has to be.
constexpr std::size_t kCuts = 4;
constexpr double kFaster = 1e-3;

/// Numbers of workers whose shares of a batch are told one by one; plans of each number of workers that are tried with unequal ones, the fastest first.
constexpr int kMostShares = 64, kShared = 3;

/// Whether a strategy has the option `stages`. Plans of others have stages, too: units whose parameters are gathered.
bool cuts_by_hand(const Spec& strategy) {
  const auto pipeline = strategy.options.find("pipeline");
  return strategy.name == "model" || strategy.name == "pipeline" || (strategy.name == "hybrid" && pipeline != strategy.options.end() && pipeline->second != "1");
}

/// How many layers each stage has, inputs not counted, where option `stages` could say so.
std::vector<int> stages_of(const Plan& plan, const ModelGraph& graph, const Spec& strategy) {
  const auto balance = strategy.options.find("balance");
  const bool has_replicas = balance != strategy.options.end() && balance->second == "pipedream";
  if (!cuts_by_hand(strategy) || plan.stages.size() < 2 || !plan.split.empty() || plan.in_process || has_replicas || strategy.options.contains("replicas")) return {};
  std::vector<int> lengths;
  for (const auto& stage : plan.stages) {
    int length = 0;
    for (int layer = stage.first; layer < stage.last; ++layer) length += graph.layers[static_cast<std::size_t>(layer)].kind != LayerKind::input;
    lengths.push_back(length);
  }
  return lengths;
}

/// What a plan trains with, where it is not the gradient of the global batch.
std::string difference_of(const Plan& plan, const Spec& strategy) {
  if (!compression_of(strategy).empty() && plan.workers() > 1) return "lossy";
  if (plan.local_from != kNone) return "local";
  const bool stale = std::any_of(plan.roles.begin(), plan.roles.end(), [](const Role& role) { return role.staleness > 0; });
  return plan.asynchronous() || stale || (plan.serving.servers > 0 && !plan.serving.sums) ? "stale" : "";
}

/// 1, 2, 4, … and the number itself: one worker first, to compare with, then the most.
std::vector<int> numbers_of_workers(int most) {
  std::vector<int> all{1};
  if (most > 1) all.push_back(most);
  int half = 1;
  while (half * 2 < most) half *= 2;
  for (; half > 1; half /= 2) all.push_back(half);
  return all;
}

Job job_of(const Job& base, const std::vector<std::size_t>& fastest, int workers, const Spec& strategy, const std::map<std::string, std::string>& keys) {
  auto job = base;
  job.workers = chosen_workers(base.workers, fastest, workers);
  job.strategy = strategy;
  if (const auto found = keys.find("accumulate"); found != keys.end()) job.accumulate = std::stoll(found->second);
  if (const auto found = keys.find("recompute"); found != keys.end()) job.recompute = true;
  if (const auto found = keys.find("collective"); found != keys.end()) job.collective = found->second;
  if (const auto found = keys.find("transport"); found != keys.end()) job.transport = found->second;
  else if (is_in_process(job)) job.transport = "inproc";
  return job;
}

/// What joins the threads of a way that was asked for joins no processes, which other ways have.
Job of_processes(Job job) {
  if (job.transport == "inproc") job.transport = Job{}.transport;
  return job;
}

class Adviser {
 public:
  explicit Adviser(const AdviceInput& input) : input_(input), job_(of_processes(input.experiment.job)), begin_(now()) {}

  Advice run() {
    out_.transport = job_.transport;
    order_workers();
    families();
    const double search_ends = input_.budget.value * 2 / 3;
    const auto found = search(families_, [&](const Candidate& candidate) { return evaluate(candidate); }, [&] { return spent() < search_ends; });
    out_.not_searched = found.not_looked;
    if (out_.points.empty()) throw Error(Code::not_found, fmt::format("[advise] nothing could be predicted: {}", out_.refused.empty() ? "no time to look at anything" : out_.refused.front().reason));
    // A few of each number of workers; cuts can be moved for as long as there is time.
    share_batches(input_.budget.value * 5 / 6);
    move_cuts(input_.budget.value * 5 / 6);
    refine();
    finish();
    out_.seconds = spent();
    return std::move(out_);
  }

 private:
  double spent() const { return seconds(now() - begin_); }

  /// Of a worker, over so many samples: forward and backward of the whole network.
  double pass_seconds(const CostSource& source, int worker, std::int64_t samples) const {
    double sum = 0;
    for (std::size_t layer = 0; layer < input_.graph.layers.size(); ++layer) {
      const auto cost = source.layer(worker, input_.graph, layer, samples);
      sum += cost.forward + cost.backward();
    }
    const auto loss = source.loss(worker, input_.graph, samples);
    return sum + loss.forward + loss.backward();
  }

  /// Of workers that are unlike by what a pass over their part of the batch takes each of them.
  void order_workers() {
    const auto& workers = job_.workers;
    out_.fastest.resize(workers.size());
    std::iota(out_.fastest.begin(), out_.fastest.end(), std::size_t{0});
    if (std::all_of(workers.begin(), workers.end(), [&](const WorkerSpec& worker) { return worker.like(workers.front()); })) return;
    const auto samples = std::max<std::int64_t>(1, job_.batch / static_cast<std::int64_t>(workers.size()));
    std::vector<double> seconds;
    try {
      const auto costs = job_costs(job_, input_.machine, input_.per_node);
      std::vector<std::size_t> known;  // of each sort of worker its first
      for (std::size_t i = 0; i < workers.size(); ++i) {
        const auto like = std::find_if(known.begin(), known.end(), [&](std::size_t other) { return workers[other].like(workers[i]); });
        if (like != known.end()) {
          seconds.push_back(seconds[*like]);
          continue;
        }
        seconds.push_back(pass_seconds(*costs.source, static_cast<int>(i), samples));
        known.push_back(i);
      }
    } catch (const Error&) {
      return;  // what cannot be predicted of all of them is told with each plan that has them
    }
    std::stable_sort(out_.fastest.begin(), out_.fastest.end(), [&](std::size_t a, std::size_t b) { return seconds[a] < seconds[b]; });
  }

  void families() {
    const int most = static_cast<int>(job_.workers.size());
    // As asked for, whatever the choices are, and however little time there is.
    families_.push_back({job_.strategy, most, {}});
    const int per_node = input_.per_node > 0 ? input_.per_node : static_cast<int>(term_or(input_.machine, "node.devices", 8));
    for (const int workers : numbers_of_workers(most)) {
      ChoiceInput choices{input_.graph, workers, job_.batch, element_bytes(job_.precision), per_node, input_.changes_results, algorithms(workers)};
      choices.transports = transports();
      choices.compressions = compressions();
      choices.threads = may_be_threads(workers, per_node);
      for (auto& family : families_of(choices)) families_.push_back(std::move(family));
    }
  }

  /// Those that were fastest at some size between as many ranks, or as many as a mesh of them may have along an axis, where this machine measured them; a datasheet's library chooses by itself.
  std::vector<std::string> algorithms(int workers) const {
    if (!is_measured(input_.machine) || workers < 2) return {};
    std::set<std::string> all;
    for (const auto& each : measured_choices(input_.machine, job_.transport, workers)) all.insert(each.algorithm);
    return {all.begin(), all.end()};
  }

  /// Others that were measured here, and could carry the job as it is. Of a datasheet there is one kind of wire.
  std::vector<std::string> transports() const {
    std::set<std::string> all;
    if (is_measured(input_.machine) && job_.fabric.empty())
      for (const auto& part : entries(input_.machine, "communication"))
        if (const auto name = part.at("transport").get<std::string>(); part.at("memory") == "own" && name != job_.transport && parse_spec(name).name != "inproc" && trains_over(name)) all.insert(name);
    return {all.begin(), all.end()};
  }

  /// Those that were measured; of a datasheet all.
  std::vector<std::string> compressions() const {
    if (!input_.lossy || scales_loss(job_.precision)) return {};
    std::set<std::string> all;
    for (const auto& entry : entries(input_.machine, "compression")) all.insert(entry.at("compression").get<std::string>());
    if (!is_measured(input_.machine))
      for (const auto& name : builtin_compressions().names())
        if (name != "none") all.insert(name);
    return {all.begin(), all.end()};
  }

  /// Threads of one process are on one host; what joins them is to be known.
  bool may_be_threads(int workers, int per_node) const {
    const auto emulated = std::count_if(job_.workers.begin(), job_.workers.end(), [](const WorkerSpec& worker) { return worker.emulated(); });
    if (!job_.fabric.empty() || is_script(job_.model.name) || (emulated > 0 && emulated < static_cast<std::ptrdiff_t>(job_.workers.size()))) return false;
    if (!is_measured(input_.machine)) return workers <= per_node;
    const auto& parts = entries(input_.machine, "communication");
    return (input_.per_node == 0 || workers <= input_.per_node) && std::any_of(parts.begin(), parts.end(), [](const Json& part) { return part.at("transport") == "inproc"; });
  }

  std::optional<Worth> evaluate(const Candidate& candidate) {
    const auto& family = families_[candidate.family];
    AdvisedPoint point{family.spec(candidate.at), family.keys(candidate.at), family.workers};
    // Told keys are the experiment's own everywhere.
    const bool as_asked = point.strategy == job_.strategy && family.axes.empty();
    if (as_asked && job_.accumulate > 1) point.keys["accumulate"] = std::to_string(job_.accumulate);
    if (as_asked && job_.recompute) point.keys["recompute"] = "true";
    // Another family may have the same among its ways.
    const bool plain = point.keys.empty() && job_.accumulate <= 1 && !job_.recompute;
    point.asked = point.workers == static_cast<int>(job_.workers.size()) && point.strategy == job_.strategy && (plain || as_asked);
    const auto number = look(std::move(point));
    return number ? std::optional(worth_of(out_.points[*number])) : std::nullopt;
  }

  /// The number of the point, a new one if it was not looked at yet; none where it cannot be planned.
  std::optional<std::size_t> look(AdvisedPoint point) {
    // Another name for what stands there already.
    const auto called = fmt::format("{} {}", point.workers, in_words(point.strategy, point.keys));
    if (const auto known = known_.find(called); known != known_.end()) {
      if (known->second) out_.points[*known->second].asked |= point.asked;
      return known->second;
    }
    known_[called] = std::nullopt;
    try {
      predict(point, false);
    } catch (const Error& error) {
      out_.refused.push_back({point.strategy, point.keys, point.workers, error.what(), point.asked});
      return std::nullopt;
    }
    out_.points.push_back(std::move(point));
    return known_[called] = out_.points.size() - 1;
  }

  /// From the fastest plans of stages that fit, one of each strategy and number of workers, boundary by boundary: first by many layers, then by fewer, down to one.
  void move_cuts(double ends) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < out_.points.size(); ++i)
      if (out_.points[i].memory.fits && !out_.points[i].stages.empty()) order.push_back(i);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return out_.points[a].step.seconds < out_.points[b].step.seconds; });
    std::set<std::pair<std::string, int>> seen;
    for (const auto number : order)
      if (seen.size() < kCuts && seen.emplace(out_.points[number].strategy.name, out_.points[number].workers).second) move_cuts(number, ends);
  }

  void move_cuts(std::size_t best, double ends) {
    int by = std::max(1, *std::max_element(out_.points[best].stages.begin(), out_.points[best].stages.end()) / 2);
    while (by > 0) {
      bool better = false;
      for (const auto& cut : moved_cuts(out_.points[best].stages, by)) {
        if (spent() >= ends) return;
        const auto& from = out_.points[best];
        AdvisedPoint point{from.strategy, from.keys, from.workers};
        point.strategy.options.erase("balance");
        point.strategy.options["stages"] = fmt::format("{}", fmt::join(cut, "/"));
        const auto found = look(std::move(point));
        if (!found || !out_.points[*found].memory.fits || out_.points[*found].step.seconds > (1 - kFaster) * out_.points[best].step.seconds) continue;
        best = *found;
        better = true;
        break;
      }
      if (!better) by /= 2;
    }
  }

  /// Of workers that are not alike, the fastest plans in which each has as much of the batch: with as much as each does in the time of the others, and within what it has room for.
  void share_batches(double ends) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < out_.points.size(); ++i)
      if (out_.points[i].strategy.name == "data" && out_.points[i].workers > 1 && out_.points[i].workers <= kMostShares && !out_.points[i].strategy.options.contains("shares")) order.push_back(i);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return out_.points[a].step.seconds < out_.points[b].step.seconds; });
    std::map<int, int> seen;  // by workers
    for (const auto number : order) {
      if (spent() >= ends) return;
      const auto& from = out_.points[number];
      const auto workers = chosen_workers(job_.workers, out_.fastest, from.workers);
      const auto option = from.strategy.options.find("in-process");
      if (std::all_of(workers.begin(), workers.end(), [&](const WorkerSpec& worker) { return worker == workers.front(); }) || (option != from.strategy.options.end() && option->second == "parallel")) continue;
      if (++seen[from.workers] <= kShared) share_batch(number);
    }
  }

  void share_batch(std::size_t number) {
    const auto& from = out_.points[number];
    const auto job = job_at(from);
    const auto& costs = costs_of(job);
    std::map<std::tuple<std::string, int, std::string, double, std::int64_t>, double> known;
    const auto seconds = [&](int worker, std::int64_t samples) {
      const auto& own = job.workers[static_cast<std::size_t>(worker)];
      const auto [place, unknown] = known.try_emplace({own.device, own.threads, own.stands_for, own.slow, samples});
      if (!unknown) return place->second;
      return place->second = static_cast<double>(job.accumulate) * pass_seconds(*costs.source, worker, (samples + job.accumulate - 1) / job.accumulate);
    };
    const auto look_at = [&](const std::vector<std::int64_t>& samples) -> std::optional<std::size_t> {
      if (samples.empty() || std::all_of(samples.begin(), samples.end(), [&](std::int64_t each) { return each == samples.front(); })) return std::nullopt;
      AdvisedPoint point{out_.points[number].strategy, out_.points[number].keys, out_.points[number].workers};
      point.strategy.options["shares"] = fmt::format("{}", fmt::join(samples, "/"));
      return look(std::move(point));
    };
    const auto found = look_at(balanced_batch(job.batch, from.workers, seconds));
    // The even split is there already.
    if (out_.points[found.value_or(number)].memory.fits) return;
    look_at(balanced_batch(job.batch, out_.points[number].workers, seconds, room_of(job, costs)));
  }

  /// The most samples of a batch that each worker has room for.
  std::vector<std::int64_t> room_of(const Job& job, const JobCosts& costs) const {
    std::map<double, std::int64_t> known;  // by memory
    std::vector<std::int64_t> out;
    for (const double memory : costs.memory_of) {
      const auto [place, unknown] = known.try_emplace(memory, 0);
      for (std::int64_t low = 0, high = job.batch; unknown && low < high;) {
        const auto middle = (low + high + 1) / 2;
        auto even = job;
        even.batch = middle * static_cast<std::int64_t>(job.workers.size());
        if (static_cast<double>(plan_job(even, input_.graph).roles.front().holds.total()) <= memory) place->second = low = middle;
        else high = middle - 1;
      }
      out.push_back(place->second);
    }
    return out;
  }

  static Worth worth_of(const AdvisedPoint& point) { return {point.step.seconds, static_cast<double>(point.step.most.total()), point.memory.fits}; }

  /// What a point's workers do. Errors: of the plan.
  Job job_at(const AdvisedPoint& point) const {
    auto base = job_;
    // Each way says it for itself.
    base.accumulate = 1;
    base.recompute = false;
    return job_on(job_of(base, out_.fastest, point.workers, point.strategy, point.keys), input_.graph, input_.machine);
  }

  /// Errors: of the source.
  const JobCosts& costs_of(const Job& job) {
    const std::tuple of{job.workers.size(), collective_of(job), job.transport, job.graphs};
    auto known = costs_.find(of);
    if (known == costs_.end()) known = costs_.emplace(of, job_costs(job, input_.machine, input_.per_node)).first;
    return known->second;
  }

  /// Errors: of the plan, of the source.
  void predict(AdvisedPoint& point, bool simulate) {
    const auto job = job_at(point);
    const auto& costs = costs_of(job);
    check_way(job);
    const auto plan = planned_job(job, input_.graph, *costs.source);
    const auto& part = part_of(plan);
    const bool runs = parts_have_a_place(job, plan);
    if (!runs && is_measured(input_.machine)) throw Error(Code::unsupported, fmt::format("[advise] unsupported: parameters in parts on devices with memory of their own are not run in this version; got {}, expected a strategy without shards", to_string(job.strategy)));
    point.differs = difference_of(plan, point.strategy);
    point.stages = stages_of(plan, part, point.strategy);
    std::size_t tasks = 0;
    for (const auto& role : plan.roles) tasks += role.tasks.size() * static_cast<std::size_t>(costs.by_worker ? role.count : 1);
    const bool small = tasks * 3 <= kFewTasks && !plan.asynchronous();
    PredictionInput asked{plan, part, job.strategy, job.batch, *costs.source, 0, Engine::automatic, costs.by_worker, loading_of(job, input_.machine), costs.unlike};
    if (!simulate && has_closed_form(asked)) asked.engine = small ? Engine::simulated : Engine::closed;
    point.step = predict_step(asked);
    point.step.trace.clear();
    auto beyond = beyond_known(job, plan, part, costs, input_.machine, {}, point.step);
    const auto interval = job_interval(job, plan, part, costs, beyond, point.step);
    point.step.low = interval.low;
    point.step.high = interval.high;
    point.apart = interval.apart;
    point.beyond = std::move(beyond.words);
    if (!runs) point.beyond.emplace_back("parameters in parts on devices with memory of their own are predicted, and not run in this version");
    point.waited = waited(job, plan, costs);
    point.memory_bytes = costs.memory_bytes;
    point.memory = job_memory(job, input_.graph, plan, costs, point.step);
  }

  /// Kept, since sources know networks by where they lie.
  const ModelGraph& part_of(const Plan& plan) {
    if (plan.split.empty()) return input_.graph;
    const auto key = fmt::format("{} {}", plan.split, fmt::join(plan.part_axes(), "x"));
    if (const auto known = parts_.find(key); known != parts_.end()) return *known->second;
    kept_.push_back(graph_of(plan, input_.graph, 0));
    return *(parts_[key] = &kept_.back());
  }

  std::vector<std::size_t> front() const {
    std::vector<Worth> worths;
    for (const auto& point : out_.points) worths.push_back(worth_of(point));
    return pareto_front(worths);
  }

  /// Of what was priced by its closed form: simulates the front and the fastest, until these were all simulated, or the time is over.
  void refine() {
    std::set<std::size_t> tried;
    while (spent() < input_.budget.value) {
      std::vector<std::size_t> best = front();
      std::vector<std::size_t> order;
      for (std::size_t i = 0; i < out_.points.size(); ++i)
        if (out_.points[i].memory.fits) order.push_back(i);
      std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return out_.points[a].step.seconds < out_.points[b].step.seconds; });
      order.resize(std::min(order.size(), kFastest));
      best.insert(best.begin(), order.begin(), order.end());
      const auto next = std::find_if(best.begin(), best.end(), [&](std::size_t i) { return out_.points[i].step.engine == Engine::closed && !tried.contains(i); });
      if (next == best.end()) return;
      tried.insert(*next);
      predict(out_.points[*next], true);
    }
  }

  void finish() {
    for (const auto number : front()) out_.points[number].pareto = true;
    std::stable_sort(out_.points.begin(), out_.points.end(), [](const AdvisedPoint& a, const AdvisedPoint& b) { return a.memory.fits != b.memory.fits ? a.memory.fits : a.step.seconds < b.step.seconds; });
    std::vector<Rated> rated;
    for (std::size_t i = 0; i < out_.points.size(); ++i) {
      auto& point = out_.points[i];
      if (point.memory.fits) point.rank = static_cast<int>(i) + 1;
      if (point.step.engine == Engine::closed) ++out_.priced;
      rated.push_back(rated_of(point));
    }
    out_.verdict = judge(rated);
  }

  const AdviceInput& input_;
  const Job job_;
  Nanoseconds begin_;
  std::vector<StrategyFamily> families_;
  std::map<std::string, std::optional<std::size_t>> known_;    ///< numbers of points, by what they are called
  std::map<std::tuple<std::size_t, std::string, std::string, std::string>, JobCosts> costs_;  ///< by number of workers, algorithm, transport and whether passes are graphs
  std::deque<ModelGraph> kept_;
  std::map<std::string, const ModelGraph*> parts_;
  Advice out_;
};

}  // namespace

Advice advise(const AdviceInput& input) { return Adviser(input).run(); }

std::vector<WorkerSpec> chosen_workers(const std::vector<WorkerSpec>& workers, const std::vector<std::size_t>& fastest, int count) {
  auto order = fastest;
  order.resize(std::min(order.size(), static_cast<std::size_t>(count)));
  std::sort(order.begin(), order.end());
  std::vector<WorkerSpec> out;
  for (const auto number : order) out.push_back(workers[number]);
  out.resize(static_cast<std::size_t>(count), workers.back());
  return out;
}

std::vector<std::vector<int>> moved_cuts(const std::vector<int>& stages, int by) {
  std::vector<std::vector<int>> out;
  for (std::size_t boundary = 0; boundary + 1 < stages.size(); ++boundary)
    for (const auto& [from, to] : {std::pair{boundary, boundary + 1}, {boundary + 1, boundary}}) {
      if (stages[from] <= by) continue;
      auto moved = stages;
      moved[from] -= by;
      moved[to] += by;
      out.push_back(std::move(moved));
    }
  return out;
}

std::string in_words(const Spec& strategy, const std::map<std::string, std::string>& keys) {
  auto words = to_string(strategy);
  for (const auto& [key, value] : keys) words += value == "true" ? fmt::format(" --{}", key) : fmt::format(" --{} {}", key, value);
  return words;
}

std::pair<std::string, double> largest_loss(const Ledger& ledger) {
  std::pair<std::string, double> most{"", 0};
  for (std::size_t i = 0; i < kCauses; ++i) {
    const auto cause = static_cast<Cause>(i);
    if (cause == Cause::forward || cause == Cause::backward || ledger.wall <= 0) continue;
    if (const double share = ledger[cause] / ledger.wall; share > most.second) most = {std::string(name(cause)), share};
  }
  return most;
}

}  // namespace ddl
