#include "ddl/predict/explain/step_draws.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/core/statistics.h"
#include "ddl/plan/bucket_events.h"
#include "ddl/plan/meetings.h"
#include "ddl/predict/explain/served.h"
#include "ddl/predict/step/server_turns.h"

namespace ddl {
namespace {

constexpr double kNotDone = std::numeric_limits<double>::quiet_NaN();
/// A batch that is there is handed over in a few microseconds; who waits longer than this share of a step waits for the loader.
constexpr double kStarved = 0.05;
constexpr double kHandingOver = 20e-6;

bool stands_still(Cause cause) { return cause == Cause::wait || cause == Cause::communication || cause == Cause::bubble; }

/// The share of a backward that was over when it raised an event; or, not exactly, no less than that.
struct Raised {
  double share = kNotDone;
  bool exact = false;
};

/// A compute task of one worker, and when it was done.
struct Done {
  int task = kNone;
  Nanoseconds begin = 0, end = 0;
};

/// Which of a worker's collectives went on beside what it computed.
class Beside {
 public:
  explicit Beside(std::vector<std::pair<int, Period>> collectives) : collectives_(std::move(collectives)) {
    std::sort(collectives_.begin(), collectives_.end(), [](const auto& a, const auto& b) { return a.second.begin < b.second.begin; });
  }

  /// A piece of what is computed of a task; pieces come one after the other.
  void add(const Done& task, const Period& piece) {
    while (first_ < collectives_.size() && collectives_[first_].second.end <= piece.begin) ++first_;
    auto covered = piece.begin;
    for (auto i = first_; i < collectives_.size() && collectives_[i].second.begin < piece.end; ++i) {
      const auto& [collective, on] = collectives_[i];
      const auto begin = std::max(piece.begin, on.begin), end = std::min(piece.end, on.end);
      if (end <= begin) continue;
      const auto place = [&](Nanoseconds time) { return std::clamp(static_cast<double>(time - task.begin) / static_cast<double>(task.end - task.begin), 0.0, 1.0); };
      auto& overlap = found_.try_emplace({task.task, collective}, Overlap{task.task, collective}).first->second;
      overlap.seconds += seconds(end - begin);
      if (const auto from = std::max(begin, covered); from < end) {
        if (overlap.alone == 0) overlap.from = place(from);
        overlap.alone += seconds(end - from);
        overlap.to = place(end);
        covered = end;
      }
    }
  }

  std::vector<Overlap> overlaps() const {
    std::vector<Overlap> out;
    for (const auto& [tasks, overlap] : found_) out.push_back(overlap);
    return out;
  }

 private:
  std::vector<std::pair<int, Period>> collectives_;  ///< by task
  std::size_t first_ = 0;                            ///< of those that are not over
  std::map<std::pair<int, int>, Overlap> found_;
};

/// When each worker was done with what it computed, over all steps: from then on what it made could be sent, however long it took until somebody did.
class Made {
 public:
  Made(const Plan& plan, const std::vector<TracedStep>& steps) : plan_(plan) {
    for (const auto& role : plan.roles)
      for (const auto& task : role.tasks)
        if (task.kind == TaskKind::receive && task.meeting != kNone) received_ahead_[task.meeting] = task.ahead;
    for (const auto& step : steps)
      for (const auto& span : step.spans)
        if (span.stream == Stream::compute && span.task >= 0) ends_[{span.worker, step.number, span.task}] = span.end;
  }

  /// What a message of a step is of, which counts in the step in which it is received; absent where the trace does not say.
  std::optional<Nanoseconds> of(const Span& span, std::int64_t step) const {
    const auto& role = plan_.role_of(span.worker);
    if (span.task < 0 || at(span.task) >= role.tasks.size()) return std::nullopt;
    const auto& task = role.tasks[at(span.task)];
    const auto ahead = received_ahead_.find(task.meeting);
    if (task.kind != TaskKind::send || !(task.cargo == Cargo::activations || task.cargo == Cargo::activation_gradients) || ahead == received_ahead_.end()) return std::nullopt;
    std::optional<Nanoseconds> last;
    for (const int other : task.after) {
      const auto found = ends_.find({span.worker, step - (task.ahead - ahead->second), other});
      if (communicates(role.tasks[at(other)]) || found == ends_.end()) return std::nullopt;
      last = std::max(last.value_or(found->second), found->second);
    }
    return last;
  }

 private:
  const Plan& plan_;
  std::map<int, int> received_ahead_;                                ///< by meeting
  std::map<std::tuple<int, std::int64_t, int>, Nanoseconds> ends_;   ///< by worker, step and task
};

class Reader {
 public:
  /// `served`: null unless workers step apart.
  Reader(const Plan& plan, const TracedStep& step, const Made& made, const Served* served) : plan_(plan), step_(step), served_(served), asynchronous_(plan.asynchronous()), arrivals_(step.spans), own_(at(plan.workers())) {
    for (const auto& span : step.spans) {
      if (span.worker < 0 || span.worker >= plan.workers()) continue;
      own_[at(span.worker)].push_back(span);
      if ((span.stream != Stream::communication && span.stream != Stream::server) || span.meeting == 0) continue;
      // It waits behind others of its queue.
      auto begin = span.begin;
      if (const auto could = made.of(span, step.number)) begin = std::min(begin, std::max(*could, sent_before(span)));
      const auto [place, fresh] = meetings_.try_emplace(span.meeting, Period{begin, span.end});
      place->second = {std::max(place->second.begin, begin), std::max(place->second.end, span.end)};
    }
  }

  StepDraw draw() const {
    StepDraw out;
    out.number = step_.number;
    for (int worker = 0; worker < plan_.workers(); ++worker) read(worker, out);
    if (served_ != nullptr) read_turns(out);
    for (const auto& period : step_.workers) out.seconds += seconds(period.end - period.begin) / plan_.workers();
    return out;
  }

  /// By bucket of the worker's role; NaN where the trace does not say.
  std::vector<Raised> ready(int worker) const {
    const auto& role = plan_.role_of(worker);
    const BucketEvents events(plan_, role);
    std::vector<Raised> out(role.buckets.size());
    std::map<int, std::vector<int>> filled;  // by backward: the first tasks that wait for each bucket whose event it raises
    for (int number = 0; number < static_cast<int>(role.tasks.size()); ++number) {
      const auto bucket = role.tasks[at(number)].waits_for;
      if (bucket == kNone) continue;
      auto& own = filled[events.raised_by(role.tasks[at(number)])];
      if (std::none_of(own.begin(), own.end(), [&](int other) { return role.tasks[at(other)].waits_for == bucket; })) own.push_back(number);
    }
    for (const auto& [backward, tasks] : filled) {
      const auto span = done_of(worker, backward);
      if (span.task == kNone || span.end <= span.begin) continue;
      const auto copies = copies_within(worker, span);
      const auto parameters_of = [&](int task) { return role.buckets[at(role.tasks[at(task)].waits_for)].parameters.size(); };
      std::size_t all = 0, parameters = 0;
      for (const int task : tasks) all += parameters_of(task);
      for (const int task : tasks) {
        parameters += parameters_of(task);
        auto& own = out[at(role.tasks[at(task)].waits_for)];
        if (!std::isnan(own.share)) continue;
        // Where each gradient is copied as it comes, bucket after bucket, that is the end of the last of them. Of those that are made in their place nothing is told: the event was no later than so many copies, and than the collective's beginning.
        auto raised = begin_of(worker, task, span.end);
        if (parameters > 0 && parameters <= copies.size()) raised = std::min(raised, copies[parameters - 1]);
        own = {std::clamp(static_cast<double>(raised - span.begin) / static_cast<double>(span.end - span.begin), 0.0, 1.0), parameters > 0 && copies.size() == all};
      }
    }
    return out;
  }

 private:
  /// When the last message of the same queue that began before this one was sent; 0: there is none in this step.
  Nanoseconds sent_before(const Span& span) const {
    const auto& tasks = plan_.role_of(span.worker).tasks;
    const auto& own = tasks[at(span.task)];
    Nanoseconds last = 0;
    for (const auto& other : step_.spans)
      if (other.worker == span.worker && other.stream == Stream::communication && other.begin < span.begin && other.task >= 0 && at(other.task) < tasks.size())
        if (const auto& task = tasks[at(other.task)]; task.kind == own.kind && task.cargo == own.cargo && task.peer == own.peer) last = std::max(last, other.end);
    return last;
  }

  /// Of each server the mean of what it took to apply what one worker pushed.
  void read_turns(StepDraw& out) const {
    std::map<int, std::vector<double>> applications;
    for (int worker = 0; worker < plan_.workers(); ++worker) {
      const auto costs = server_costs(plan_, *served_, worker, step_.number, own_[at(worker)]);
      for (std::size_t t = 0; t < costs.tasks.size(); ++t)
        if (!std::isnan(costs.tasks[t])) out.tasks[at(worker)][t] = costs.tasks[t];
      out.waited.push_back(costs.waited);
      for (const auto& [server, took] : costs.applications) applications[server].push_back(took);
    }
    for (const auto& [server, took] : applications) {
      const auto& tasks = plan_.role_of(server).tasks;
      for (std::size_t t = 0; t < tasks.size(); ++t)
        if (tasks[t].stream == Stream::server && tasks[t].kind == TaskKind::update) out.tasks[at(server)][t] = mean(took);
    }
  }

  void read(int worker, StepDraw& out) const {
    const auto& role = plan_.role_of(worker);
    const auto& period = step_.workers[at(worker)];
    auto& tasks = out.tasks.emplace_back(role.tasks.size(), kNotDone);
    auto& handing = out.handing.emplace_back(role.tasks.size(), 0.0);
    auto& overlaps = out.overlaps.emplace_back();
    std::vector<std::pair<int, Period>> moved;  // collectives, by task
    const auto add = [&](int task, double time) { tasks[at(task)] = (std::isnan(tasks[at(task)]) ? 0 : tasks[at(task)]) + time; };
    std::vector<Done> done;
    for (auto span : own_[at(worker)]) {
      // Batches that are loaded ahead of what is done of them belong to no task of the step.
      if (span.task < 0 && span.cause == Cause::load && span.stream == Stream::compute && role.tasks.front().kind == TaskKind::load && asynchronous_) span.task = 0;
      if (span.task < 0 || at(span.task) >= role.tasks.size() || (served_ != nullptr && span.stream == Stream::server)) continue;
      const bool moves = communicates(role.tasks[at(span.task)]);
      if (moves && served_ != nullptr) continue;  // read_turns()
      if (moves && span.stream != Stream::compute) {
        // Who is in no meeting did it alone.
        const auto met = meetings_.find(span.meeting);
        const auto both = met == meetings_.end() ? Period{span.begin, span.end} : met->second;
        // A message is over when it is received; of a collective a worker may be through before others, whose core something else has.
        const auto end = is_transfer(role.tasks[at(span.task)]) ? both.end : span.end;
        add(span.task, seconds(std::max<Nanoseconds>(0, end - both.begin)));
        if (role.tasks[at(span.task)].kind == TaskKind::collective && plan_.serving.servers == 0) moved.push_back({span.task, {both.begin, end}});
      } else if (!moves && span.stream == Stream::server) {
        add(span.task, seconds(span.end - span.begin));
      } else if (!moves && span.stream == Stream::compute) {
        done.push_back({span.task, span.begin, span.end});
        add(span.task, seconds(span.end - span.begin));
      }
    }
    std::sort(done.begin(), done.end(), [](const Done& a, const Done& b) { return a.begin < b.begin; });
    Beside beside(std::move(moved));
    double stalls = 0;
    for (const auto& piece : flatten(own_[at(worker)], worker, period.begin, period.end, arrivals_)) {
      const auto next = std::upper_bound(done.begin(), done.end(), piece.begin, [](Nanoseconds begin, const Done& each) { return begin < each.begin; });
      const bool within = next != done.begin() && piece.end <= std::prev(next)->end;
      if (!stands_still(piece.cause)) {
        if (within && work_of(role.tasks[at(std::prev(next)->task)]) != Work::load) beside.add(*std::prev(next), {piece.begin, piece.end});
        continue;
      }
      const double time = seconds(piece.end - piece.begin);
      if (within) tasks[at(std::prev(next)->task)] -= time;
      if (piece.task >= 0) stalls += time;
      else if (next != done.begin()) handing[at(std::prev(next)->task)] += time;
    }
    overlaps = beside.overlaps();
    double rest = seconds(period.end - period.begin) - stalls;
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      rest -= handing[t];
      if (!communicates(role.tasks[t]) && role.tasks[t].stream == Stream::compute && !std::isnan(tasks[t])) rest -= tasks[t];
    }
    out.rest.push_back(std::max(0.0, rest));
  }

  Done done_of(int worker, int task) const {
    for (const auto& span : own_[at(worker)])
      if (task != kNone && span.task == task && span.stream == Stream::compute) return {task, span.begin, span.end};
    return {};
  }

  /// When a task's communication began, no later than `latest`.
  Nanoseconds begin_of(int worker, int task, Nanoseconds latest) const {
    for (const auto& span : own_[at(worker)])
      if (span.task == task && span.stream == Stream::communication) return std::min(latest, span.begin);
    return latest;
  }

  std::vector<Nanoseconds> copies_within(int worker, const Done& backward) const {
    std::vector<Nanoseconds> ends;
    for (const auto& span : own_[at(worker)])
      if (span.cause == Cause::copy && span.task < 0 && span.stream == Stream::compute && span.begin >= backward.begin && span.end <= backward.end) ends.push_back(span.end);
    std::sort(ends.begin(), ends.end());
    return ends;
  }

  const Plan& plan_;
  const TracedStep& step_;
  const Served* served_;
  bool asynchronous_;
  Arrivals arrivals_;
  std::vector<Trace> own_;                      ///< by worker
  std::map<std::uint32_t, Period> meetings_;    ///< from when all who take part were at it until the last was through
};

double median_done(std::vector<double> values, double otherwise) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  return values.empty() ? otherwise : median(values);
}

/// What waited for a turn says little of what it takes by itself, where steps in which it did not say more.
void drop_those_that_waited(std::vector<StepDraw>& steps) {
  constexpr std::size_t kEnough = 3;
  for (std::size_t w = 0; w < steps.front().waited.size(); ++w)
    for (std::size_t t = 0; t < steps.front().waited[w].size(); ++t) {
      const auto known = std::count_if(steps.begin(), steps.end(), [&](const StepDraw& step) { return !step.waited[w][t] && !std::isnan(step.tasks[w][t]); });
      for (auto& step : steps)
        if (step.waited[w][t] && known >= static_cast<std::ptrdiff_t>(std::min(kEnough, steps.size()))) step.tasks[w][t] = kNotDone;
    }
}

/// Of the steps in which both were done: of the collective's part those that had it, which is what its own median is of; of the computing task's also those without.
std::vector<Overlap> median_overlaps(const std::vector<StepDraw>& steps, std::size_t worker) {
  std::map<std::pair<int, int>, std::vector<Overlap>> all;
  for (const auto& step : steps)
    for (const auto& overlap : step.overlaps[worker]) all[{overlap.compute, overlap.collective}].push_back(overlap);
  const auto done = [&](int task) { return static_cast<std::size_t>(std::count_if(steps.begin(), steps.end(), [&](const StepDraw& step) { return !std::isnan(step.tasks[worker][at(task)]); })); };
  std::vector<Overlap> out;
  for (auto& [tasks, each] : all) {
    const auto [compute, collective] = tasks;
    const auto middle = [&](double Overlap::*of, std::size_t count) {
      std::vector<double> values;
      for (const auto& overlap : each) values.push_back(overlap.*of);
      values.resize(std::max(values.size(), count), 0);
      return median(values);
    };
    out.push_back({compute, collective, middle(&Overlap::seconds, done(collective)), middle(&Overlap::alone, done(compute)), middle(&Overlap::from, 0), middle(&Overlap::to, 0)});
  }
  return out;
}

StepDraw medians_of(const std::vector<StepDraw>& steps) {
  StepDraw out = steps.front();
  const auto each = [&](const auto& number) {
    std::vector<double> values;
    for (const auto& step : steps) values.push_back(number(step));
    return median_done(std::move(values), 0);
  };
  out.seconds = each([](const StepDraw& step) { return step.seconds; });
  for (std::size_t w = 0; w < out.tasks.size(); ++w) {
    for (std::size_t t = 0; t < out.tasks[w].size(); ++t) {
      out.tasks[w][t] = each([&](const StepDraw& step) { return step.tasks[w][t]; });
      out.handing[w][t] = each([&](const StepDraw& step) { return step.handing[w][t]; });
    }
    out.rest[w] = each([&](const StepDraw& step) { return step.rest[w]; });
    out.overlaps[w] = median_overlaps(steps, w);
  }
  return out;
}

}  // namespace

double mean_of_workers(const std::vector<double>& seconds, bool apart) {
  if (!apart || std::any_of(seconds.begin(), seconds.end(), [](double each) { return each <= 0; })) return mean(seconds);
  double rate = 0;
  for (const double each : seconds) rate += 1 / each;
  return static_cast<double>(seconds.size()) / rate;
}

double StepDraws::seconds() const {
  if (apart) return mean_of_workers(workers, true);
  double sum = 0;
  for (const auto& step : steps) sum += step.seconds;
  return sum / static_cast<double>(steps.size());
}

int times_a_step(const Plan& plan, const Task& task) { return steps_apart(plan) && task.stream == Stream::server && task.kind == TaskKind::update ? plan.workers() : 1; }

Work work_of(const Task& task) {
  if (communicates(task)) return Work::communicate;
  switch (task.kind) {
    case TaskKind::load: return Work::load;
    case TaskKind::forward:
    case TaskKind::backward:
    case TaskKind::backward_input:
    case TaskKind::backward_weight: return Work::compute;
    default: return Work::other;
  }
}

double seconds_of(const Role& role, const std::vector<double>& tasks, Work work) {
  double sum = 0;
  for (std::size_t t = 0; t < tasks.size(); ++t)
    if (work_of(role.tasks[t]) == work && !std::isnan(tasks[t])) sum += tasks[t];
  return sum;
}

StepDraws step_draws(const Plan& plan, const std::vector<TracedStep>& steps, bool reads_ahead) {
  if (steps.empty()) throw Error(Code::invalid_argument, "[explain] steps; got none, expected one or more");
  StepDraws out;
  out.apart = steps_apart(plan);
  std::optional<Served> served;
  if (out.apart) served.emplace(plan, steps);
  const Made made(plan, steps);
  // By role and bucket: of all its workers and steps, and of each step the least, since what is not exact is no less than what it stands for.
  std::vector<std::vector<std::vector<double>>> exact(plan.roles.size()), least(plan.roles.size());
  for (std::size_t r = 0; r < plan.roles.size(); ++r) {
    exact[r].resize(plan.roles[r].buckets.size());
    least[r].resize(plan.roles[r].buckets.size());
  }
  for (const auto& step : steps) {
    if (static_cast<int>(step.workers.size()) != plan.workers())
      throw Error(Code::invalid_argument, fmt::format("[explain] workers of step {}; got {}, expected {}", step.number, step.workers.size(), plan.workers()));
    const Reader reader(plan, step, made, served ? &*served : nullptr);
    out.steps.push_back(reader.draw());
    for (auto& role : least)
      for (auto& bucket : role) bucket.push_back(kNotDone);
    for (int worker = 0; worker < plan.workers(); ++worker) {
      const auto own = reader.ready(worker);
      for (std::size_t b = 0; b < own.size(); ++b) {
        const auto role = at(plan.role_number(worker));
        if (own[b].exact) exact[role][b].push_back(own[b].share);
        least[role][b].back() = std::fmin(least[role][b].back(), own[b].share);
      }
    }
  }
  drop_those_that_waited(out.steps);
  out.medians = medians_of(out.steps);
  for (std::size_t r = 0; r < plan.roles.size(); ++r) {
    auto& own = out.ready.emplace_back();
    for (std::size_t b = 0; b < exact[r].size(); ++b) own.push_back(median_done(exact[r][b].empty() ? least[r][b] : exact[r][b], 1));
  }
  for (int worker = 0; worker < plan.workers(); ++worker) {
    const double waited = seconds_of(plan.role_of(worker), out.medians.tasks[at(worker)], Work::load);
    double took = 0;
    for (const auto& step : steps) took += seconds(step.workers[at(worker)].end - step.workers[at(worker)].begin) / static_cast<double>(steps.size());
    out.workers.push_back(took);
    // Who waits for each batch takes them as fast as they are made.
    out.loader.push_back(reads_ahead && waited > std::max(kStarved * took, kHandingOver) ? took : 0);
  }
  return out;
}

}  // namespace ddl
