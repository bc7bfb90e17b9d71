#include "ddl/lab/explain_run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <span>

#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/lab/advice.h"
#include "ddl/lab/config_values.h"
#include "ddl/lab/predict_job.h"
#include "ddl/lab/predict_run.h"
#include "ddl/lab/record.h"
#include "ddl/nn/model.h"
#include "ddl/plan/meetings.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/measured/wire_seconds.h"
#include "ddl/predict/step/compressed.h"
#include "ddl/predict/step/simulate_step.h"
#include "ddl/strategy/split_parts.h"
#include "ddl/train/emulation/machine_costs.h"
#include "ddl/train/plan_job.h"
#include "ddl/transport/fabric_description.h"

namespace ddl {
namespace {

/// What is gained by less than this share of the speed-up is not worth a change.
constexpr double kWorthIt = 0.02;
constexpr std::size_t kMostRead = 500;  // records of a store that are looked at for one worker's, a millisecond each and more

std::string text_at(const Json& record, const char* key) { return record.contains(key) && record[key].is_string() ? record[key].get<std::string>() : std::string(); }

template <class Word, std::size_t count>
Word word_of(const std::string& text) {
  for (std::size_t i = 0; i < count; ++i)
    if (text == name(static_cast<Word>(i))) return static_cast<Word>(i);
  throw Error(Code::corrupt, fmt::format("[explain] a trace's word that this version does not know; got {}", text));
}

Nanoseconds nanoseconds(const Json& microseconds) { return static_cast<Nanoseconds>(std::llround(microseconds.get<double>() * 1e3)); }

/// The keys that say what work a step is; workers and how they share it apart.
const std::vector<std::string>& keys_of_work() {
  static const std::vector<std::string> keys{"subject", "model", "dataset", "synthetic", "batch", "precision", "kernels", "optimizer", "recompute", "clip", "accumulate", "loader"};
  return keys;
}

/// Whether passes were graphs of a device, whatever was asked for.
bool by_graphs(const Json& record) {
  const auto ranks = record.value("ranks", Json::array());
  return ranks.is_array() && std::any_of(ranks.begin(), ranks.end(), [](const Json& rank) {
    const auto graphs = rank.is_object() ? rank.value("graphs", Json()) : Json();
    return graphs.is_object() && graphs.contains("steps") && graphs["steps"].is_number() && graphs["steps"].get<double>() > 0;
  });
}

/// What machine profiles know a machine by; null where a record does not say.
Json processor_of(const Json& record) {
  const auto environment = record.value("environment", Json());
  const auto before = environment.is_object() ? environment.value("before", Json()) : Json();
  return before.is_object() ? new_machine(before).at("cpu") : Json();
}

bool same_work(const Json& a, const Json& b) {
  if (!a.contains("config") || !b.contains("config") || !a["config"].is_object() || !b["config"].is_object()) return false;
  if (by_graphs(a) != by_graphs(b) || processor_of(a) != processor_of(b)) return false;
  return std::all_of(keys_of_work().begin(), keys_of_work().end(), [&](const std::string& key) { return a["config"].value(key, Json()) == b["config"].value(key, Json()); });
}

/// On how many a launcher placed it.
int hosts_of(const Json& record) {
  const auto before = record.value("prediction", Json());
  return before.is_object() && before.value("hosts", Json()).is_number_integer() ? before["hosts"].get<int>() : 1;
}

std::vector<WorkerSpec> workers_of(const Json& record) {
  return parse_workers(record.at("config").at("workers").get<std::string>());
}

/// Divided as it is, so long in all. `ledger`: of a step that took something.
Ledger as_long_as(Ledger ledger, double wall) {
  for (auto& each : ledger.seconds) each *= wall / ledger.wall;
  ledger.wall = wall;
  return ledger;
}

/// One worker's step as its run has it, without what made some of them longer than others: the median step, divided as the ledger is.
std::optional<OneWorker> one_worker_of(const Json& record) {
  const auto ledger = mean_ledger(record);
  if (!ledger || ledger->wall <= 0 || !record.at("step_ms").is_object()) return std::nullopt;
  const auto usual = as_long_as(*ledger, record["step_ms"].at("median").get<double>() * 1e-3);
  OneWorker one;
  one.compute = usual[Cause::forward] + usual[Cause::backward];
  one.load = usual[Cause::load];
  one.other = usual.wall - one.compute - one.load;
  return one;
}

/// Where a plan is not the one that a record tells of; empty where it is.
std::string differs(const Json& told, const Plan& plan) {
  const auto& roles = told.at("roles");
  if (roles.size() != plan.roles.size()) return fmt::format("{} roles, here {}", roles.size(), plan.roles.size());
  for (std::size_t r = 0; r < plan.roles.size(); ++r) {
    const auto& role = plan.roles[r];
    const auto& tasks = roles[r].at("tasks");
    if (roles[r].at("first") != role.first || roles[r].at("count") != role.count || tasks.size() != role.tasks.size())
      return fmt::format("{} has {} workers and {} tasks, here {} and {}", role.name, roles[r].at("count").dump(), tasks.size(), role.count, role.tasks.size());
    for (std::size_t t = 0; t < tasks.size(); ++t)
      if (tasks[t].at("name") != role.tasks[t].label || (tasks[t].contains("bytes") && tasks[t]["bytes"] != role.tasks[t].bytes))
        return fmt::format("task {} of {} is {}, here '{}'", t, role.name, tasks[t].at("name").dump(), role.tasks[t].label);
  }
  return "";
}

/// By which all-reduce buckets of so many bytes went, as the run says: what it had chosen by a profile of then.
std::map<std::int64_t, std::string> moved_by(const Json& record) {
  std::map<std::int64_t, std::string> out;
  const auto buckets = record.value("buckets", Json());
  for (const auto& bucket : buckets.is_array() ? buckets : Json::array())
    if (bucket.is_object() && bucket.value("bytes", Json()).is_number_integer() && bucket.value("algorithm", Json()).is_string()) out[bucket["bytes"].get<std::int64_t>()] = bucket["algorithm"].get<std::string>();
  return out;
}

/// What messages take for want of bytes: by the profile's fits for the transport, and what a test network's wires add. Nothing where neither is known.
std::function<std::optional<double>(const Task&, const std::vector<int>&)> latency_of(const Job& job, const Json* machine, std::map<std::int64_t, std::string> moved) {
  std::vector<Json> profiles;
  std::optional<Json> wires;
  // A transport of its own kind: what of its rounds is latency.
  const auto made = [&](double alpha) {
    const WireCost cost{{{0, std::numeric_limits<std::size_t>::max(), {alpha}}}};
    return Json{{"communication", Json::array({{{"transport", job.transport}, {"ranks", static_cast<int>(job.workers.size())}, {"memory", "own"}, {"rounds", to_json(cost)}, {"one_shot", to_json(WireCost{})}, {"best", Json::array()}}})}};
  };
  if (machine != nullptr)
    for (const auto& part : entries(*machine, "communication"))
      if (part.value("transport", "") == job.transport && part.value("memory", "") == "own") {
        profiles.push_back(*machine);
        break;
      }
  if (!job.fabric.empty())
    if (const auto wire = parse_fabric(job.fabric); wire.latency.value > 0) wires = made(wire.latency.value);
  if (profiles.empty() && !wires) return {};
  const WireSetup setup{job.transport, collective_of(job)};
  const auto all = static_cast<int>(job.workers.size()), hosts = job.fabric.empty() ? 1 : parse_fabric(job.fabric).hosts;
  return [profiles, wires, setup, all, hosts, moved = std::move(moved)](const Task& task, const std::vector<int>& among) -> std::optional<double> {
    const auto ranks = static_cast<int>(among.size());
    if (ranks < 2) return 0;
    double sum = 0;
    auto own = setup;
    if (const auto chosen = moved.find(task.bytes); chosen != moved.end() && task.bucket != kNone && task.goal == Goal::all_reduce) own.collective = chosen->second;
    const auto add = [&](const Json& profile) { sum += wire_seconds(profile, own, is_transfer(task) ? Goal::point_to_point : task.goal, task.bytes, ranks, Portion::latency); };
    try {
      for (const auto& profile : profiles) add(profile);
      // Neighbours on one host have no wire between them.
      if (wires && std::any_of(among.begin(), among.end(), [&](int worker) { return host_of(worker, all, hosts) != host_of(among.front(), all, hosts); })) add(*wires);
    } catch (const Error&) {
      return std::nullopt;  // an algorithm that has no schedule of ours
    }
    return sum;
  };
}

/// What shares cores, memory or devices takes longer for it, by a profile of the machine: workers beside each other, and what they compute beside their collectives.
struct Contention {
  std::vector<double> workers = {};                     ///< LossInput::contention
  std::function<Slowed(int, const Task&)> beside = {};  ///< LossInput::beside
};

/// Of resources, by number, what all of their users want, of what there is.
using Wanted = std::map<int, double>;

/// What workers that compute want, by worker and all together.
struct Computing {
  Computing(const Plan& plan, const CostSource& source, StepCosts& resources) {
    for (int worker = 0; worker < plan.workers(); ++worker)
      for (const auto& demand : by_worker.emplace_back(source.computing(worker, resources))) wanted[demand.resource] += demand.share;
  }
  /// How much longer a worker takes beside the others: as what it wants most of is wanted by all.
  double longer(const std::vector<Demand>& own) const {
    double times = 1;
    for (const auto& demand : own) times = std::max(times, wanted.at(demand.resource));
    return times;
  }
  std::vector<std::vector<Demand>> by_worker;
  Wanted wanted;
};

/// What computing and a collective make of each other where they share resources fairly (fair_share.h): of all workers, of whom this one wants `own`, and what the collective wants. Whatever a worker is held up by
/// elsewhere leaves of a resource what it does not use meanwhile.
Slowed slowed_beside(const Computing& computing, const std::vector<Demand>& own, const Wanted& collective) {
  const double level = computing.longer(own);
  Slowed out;
  for (const auto& [resource, share] : collective) {
    if (share <= 0) continue;
    const auto found = computing.wanted.find(resource);
    const double wanted = found == computing.wanted.end() ? 0 : found->second;
    if (wanted + share <= level) {
      out.collective = std::max(out.collective, share / (1 - wanted / level));
      continue;
    }
    out.collective = std::max(out.collective, wanted + share);
    if (std::any_of(own.begin(), own.end(), [&, resource = resource](const Demand& demand) { return demand.resource == resource; })) out.compute = std::max(out.compute, (wanted + share) / level);
  }
  return out;
}

/// By worker and task, of collectives.
std::vector<std::vector<Slowed>> slowed_by_collectives(const Job& job, const Plan& plan, const ModelGraph& graph, const CostSource& source) {
  auto costs = step_costs(plan, plan.split.empty() ? graph : graph_of(plan, graph, 0), job.batch, workers_as_actors(plan), source, {}, compression_of(job.strategy));
  const Computing computing(plan, source, costs);
  std::vector<std::vector<Slowed>> out;
  for (int worker = 0; worker < plan.workers(); ++worker) {
    auto& slowed = out.emplace_back();
    const auto& tasks = plan.role_of(worker).tasks;
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      slowed.emplace_back();
      if (tasks[t].kind != TaskKind::collective) continue;
      // All who take part say their share, and these add up to all there is at most.
      const auto ranks = static_cast<double>(members(plan.mesh, plan.groups[static_cast<std::size_t>(tasks[t].group)], worker).size());
      Wanted collective;
      for (const auto& demand : costs.tasks[static_cast<std::size_t>(worker)][t].demands) collective[demand.resource] += ranks * demand.share;
      for (auto& [resource, share] : collective) share = std::min(1.0, share);
      slowed.back() = slowed_beside(computing, computing.by_worker[static_cast<std::size_t>(worker)], collective);
    }
  }
  return out;
}

/// Whether what a collective and computing take from each other was measured of all its workers.
bool knows_collectives(const Job& job, const Plan& plan, const MeasuredMachine& measured, const Json& machine) {
  for (int worker = 0; worker < plan.workers(); ++worker) {
    const auto& known = entries(machine, "contention");
    if (std::none_of(known.begin(), known.end(), [&](const Json& entry) {
          return entry.value("what", "") == "collective" && MeasuredMachine::is_of(entry, measured.worker(worker)) && contends_alike(entry.value("transport", ""), job.transport);
        }))
      return false;
  }
  return true;
}

/// `overlaps`: whether anything was computed beside a collective. What is not known of that is told in `notes`.
Contention contention_of(const Job& job, const Plan& plan, const ModelGraph& graph, const Json& machine, bool overlaps, std::vector<std::string>& notes) {
  if (!is_measured(machine) || entries(machine, "contention").empty()) return {};
  const auto untold = [&](const std::string& why) {
    if (overlaps) notes.push_back(fmt::format("contention: what computing and a collective over {} took from each other is counted as nothing: {}", job.transport, why));
  };
  Contention out;
  try {
    const auto costs = job_costs(job, machine);
    StepCosts resources;
    const Computing computing(plan, *costs.source, resources);
    for (const auto& own : computing.by_worker) out.workers.push_back(computing.longer(own));
    if (job.emulates() || costs.measured == nullptr) {
      untold("emulated workers sleep while they compute");
      return out;
    }
    if (!knows_collectives(job, plan, *costs.measured, machine)) {
      untold("it was not measured");
      return out;
    }
    out.beside = [slowed = slowed_by_collectives(job, plan, graph, *costs.source), &plan](int worker, const Task& task) {
      return slowed[static_cast<std::size_t>(worker)][static_cast<std::size_t>(&task - plan.role_of(worker).tasks.data())];
    };
  } catch (const Error& error) {
    untold(error.what());
  }
  return out;
}

/// Where the profile knows what it did not before the run: predictions of now are not what was said then.
std::string measured_since(const Json& record, const Json& machine, double now) {
  const auto began = text_at(record, "started");
  std::string newest;
  for (const auto* part : {"compute", "communication", "contention", "optimizer", "memory"})
    for (const auto& entry : entries(machine, part))
      if (const auto& measured = entry.value("measured", Json()); measured.is_string()) newest = std::max(newest, measured.get<std::string>());
  if (began.empty() || newest <= began) return "";
  const auto& before = record.value("prediction", Json());
  const bool said = before.is_object() && before.value("step_ms", Json()).is_number();
  return fmt::format("the profile was measured again after this run, last at {}: what is predicted here, {:.4g} ms, knows that; {}", newest, now * 1e3,
                     said ? fmt::format("before its first step {:.4g} ms were", before["step_ms"].get<double>()) : "before its first step nothing was");
}

/// Traced steps count as usual that are no further from the median step, and are enough to tell how it is divided.
constexpr double kUsual = 0.1;
constexpr int kFewestUsual = 5;

/// Mean over workers of the traced steps that took about so long; none where these are few.
std::optional<Ledger> ledger_of_usual(const Json& record, const Plan& plan, double usual) {
  Ledger sum;
  int steps = 0;
  for (const auto& step : traced_steps(record, plan.workers())) {
    Ledger all;
    for (int w = 0; w < plan.workers(); ++w) all += fold(step.spans, w, step.workers[at(w)].begin, step.workers[at(w)].end);
    if (std::abs(all.wall / plan.workers() - usual) > kUsual * usual) continue;
    sum += all;
    ++steps;
  }
  if (steps < kFewestUsual) return std::nullopt;
  return sum;
}

/// A prediction is of the median step, and a few that something held up for long move the mean, and what held them up alone: those are no mistakes of the model.
Ledger usual_ledger(const RunExplanation& run, const Plan& plan) {
  const auto samples = run.record.at("step_ms").at("samples").get<std::vector<double>>();
  const auto warm = run.record.at("samples").at("warmup_steps").get<std::size_t>();
  if (samples.size() <= warm || run.ledger->wall <= 0) return *run.ledger;
  const double usual = usual_step(plan, std::span(samples).subspan(warm)) * 1e-3;
  // Steps of a round are unlike, and so is how they are divided.
  const auto found = steps_to_simulate(plan).round > 1 ? std::nullopt : ledger_of_usual(run.record, plan, usual);
  return as_long_as(found ? *found : *run.ledger, usual);
}

void foresee(RunExplanation& run, const ModelGraph& graph, const Json* machine) {
  if (machine == nullptr) {
    run.no_prediction = "nothing was measured of this machine yet; run ddlbench probe compute, and probe comm";
    return;
  }
  try {
    auto job = run.experiment->job;
    if (!by_graphs(run.record)) job.graphs = "off";
    const auto found = predict_job(job, graph, *machine);
    run.foreseen = ForeseenStep{found.step.seconds, found.step.low, found.step.high, found.step.mean, run.loss && run.loss->apart ? *run.ledger : usual_ledger(run, plan_job(job, graph)), found.beyond};
    for (const auto& words : found.beyond) run.notes.push_back("predicted: " + words);
    if (const auto words = waited_words(found.waited); !words.empty()) run.notes.push_back(words);
    if (const auto words = measured_since(run.record, *machine, found.step.seconds); !words.empty()) run.notes.push_back(words);
  } catch (const Error& error) {
    run.no_prediction = error.what();
  }
}

void attribute(RunExplanation& run, const Json* one, const ModelGraph& graph, const Json* machine) {
  const auto& record = run.record;
  auto& job = run.experiment->job;
  const auto plan = plan_of_run(record, job, graph);
  auto steps = traced_steps(record, plan.workers());
  // Of what happens in some steps alone as much as in all: the last whole rounds.
  const auto round = static_cast<std::size_t>(steps_to_simulate(plan).round);
  if (steps.size() >= round)
    steps.erase(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(steps.size() % round));
  else if (!steps.empty())
    run.notes.push_back(fmt::format("{} traced steps are no whole round of {}: causes are of these, with more or less of what comes once in a round than it takes in all (--trace all keeps more)", steps.size(), round));
  if (steps.empty()) {
    run.no_loss = "all of its traced steps are warm-up; it takes more --steps";
    return;
  }
  const auto draws = step_draws(plan, steps, job.loader_threads > 0);
  LossInput input{plan, draws};
  input.latency = latency_of(job, machine, moved_by(record));
  if (machine != nullptr && plan.workers() > 1) {
    const bool overlaps = std::any_of(draws.steps.begin(), draws.steps.end(), [](const StepDraw& step) { return std::any_of(step.overlaps.begin(), step.overlaps.end(), [](const auto& own) { return !own.empty(); }); });
    auto contention = contention_of(job, plan, graph, *machine, overlaps, run.notes);
    input.contention = std::move(contention.workers);
    input.beside = std::move(contention.beside);
  }
  if (one != nullptr && plan.workers() > 1) {
    input.one = one_worker_of(*one);
    run.one_worker = text_at(*one, "id");
  }
  run.loss = attribute_loss(input);
  if (run.loss->drawn < draws.steps.size() && plan.workers() > 1)
    run.notes.push_back(fmt::format("of {} traced steps the last {} {} simulated for each set of causes, as the plan is large: what they had of jitter stands for all", draws.steps.size(), run.loss->drawn, run.loss->drawn == 1 ? "was" : "were"));
  run.straggler = find_straggler(plan, draws);
  double most = kWorthIt * run.loss->speedup;
  for (const auto& part : run.loss->parts) {
    // Of workers that are alike, none of which is slower than the others, the waiting is chance.
    if (part.cause == LossCause::unequal && plan.stages.size() <= 1 && run.straggler && run.straggler->worker == kNone &&
        std::all_of(job.workers.begin(), job.workers.end(), [&](const WorkerSpec& worker) { return worker.like(job.workers.front()); }))
      continue;
    const auto advice = advice_against(part.cause, job, plan, hosts_of(record));
    if (advice.empty() || part.speedup_without - run.loss->speedup <= most) continue;
    most = part.speedup_without - run.loss->speedup;
    run.advice = advice;
    run.advised = part;
  }
  const double median = record.at("step_ms").at("median").get<double>() * 1e-3, took = run.loss->measured;
  if (std::abs(took - median) > 0.1 * median)
    run.notes.push_back(fmt::format("the {} traced steps took {:.4g} ms on the mean, the whole run's median is {:.4g} ms: causes are those of the traced steps (--trace all keeps more)", steps.size(), took * 1e3, median * 1e3));
  if (const double mean = run.ledger->wall; !run.loss->apart && std::abs(mean - median) > 0.1 * median)
    run.notes.push_back(fmt::format("all steps after warm-up took {:.4g} ms on the mean, half of them {:.4g} ms or less: what is held against a prediction is the usual step (docs/explain.md)", mean * 1e3, median * 1e3));
  if (plan.asynchronous() || run.loss->apart) run.notes.emplace_back("gradients are of parameters that have been updated since: causes are of speed, and what a step learns is another thing (docs/strategies.md)");
  if (steps.size() < 10) run.notes.push_back(fmt::format("{} traced steps after warm-up: few to tell jitter and stragglers from", steps.size()));
}

}  // namespace

bool is_one_worker_of(const Json& one, const Json& record) {
  try {
    const auto alone = workers_of(one), all = workers_of(record);
    return text_at(one, "state") == "ok" && alone.size() == 1 && !all.empty() && std::all_of(all.begin(), all.end(), [&](const WorkerSpec& each) { return each.like(alone.front()); }) && same_work(one, record) && one_worker_of(one).has_value();
  } catch (const std::exception&) {
    return false;  // of another version
  }
}

std::optional<Json> find_one_worker(const Store& store, const Json& record) {
  const auto rows = store.rows();
  std::size_t read = 0;
  for (auto row = rows.rbegin(); row != rows.rend() && read < kMostRead; ++row) {
    if (row->state != "ok") continue;
    ++read;
    Json other;
    try {
      other = store.get(row->id);
    } catch (const Error&) {
      continue;  // one that cannot be read is none
    }
    if (is_one_worker_of(other, record)) return other;
  }
  return std::nullopt;
}

std::optional<Ledger> mean_ledger(const Json& record) {
  Ledger sum;
  int ranks = 0;
  if (!record.contains("ranks")) return std::nullopt;
  for (const auto& rank : record["ranks"]) {
    if (!rank.contains("ledger_ms") || !rank["ledger_ms"].is_object()) return std::nullopt;
    for (std::size_t c = 0; c < kCauses; ++c) {
      const auto found = rank["ledger_ms"].find(std::string(name(static_cast<Cause>(c))));
      if (found != rank["ledger_ms"].end() && found->is_number()) sum.seconds[c] += found->get<double>() * 1e-3;
    }
    sum.wall += rank.at("wall_ms").get<double>() * 1e-3;
    ++ranks;
  }
  if (ranks == 0) return std::nullopt;
  sum.wall /= ranks;
  for (auto& each : sum.seconds) each /= ranks;
  return sum;
}

Plan plan_of_run(const Json& record, Job& job, const ModelGraph& graph) {
  if (record.contains("measured_layers") && record["measured_layers"].is_object()) {
    // Inputs took nothing and are not listed.
    const auto& layers = record["measured_layers"].at("layers");
    std::size_t next = 0;
    job.forward_seconds.clear();
    job.backward_seconds.clear();
    for (const auto& layer : graph.layers) {
      const bool listed = layer.kind != LayerKind::input && next < layers.size();
      job.forward_seconds.push_back(listed ? layers[next].at("forward_ms").get<double>() * 1e-3 : 0);
      job.backward_seconds.push_back(listed ? layers[next].at("backward_ms").get<double>() * 1e-3 : 0);
      next += listed ? 1 : 0;
    }
  }
  job = job_as_run(std::move(job), record.value("bucket_tuning", Json()));
  if (auto ran = plan_as_run(job, graph, record); differs(record.at("plan"), ran).empty()) return ran;
  // Older records have the plan as it was before gradients came.
  auto plan = plan_job(job, graph);
  if (const auto where = differs(record.at("plan"), plan); !where.empty())
    throw Error(Code::unsupported, fmt::format("[explain] unsupported: this build plans the run otherwise than the one that ran it: {}", where));
  return plan;
}

std::vector<TracedStep> traced_steps(const Json& record, int workers) {
  const auto warm = record.at("samples").is_object() ? record["samples"].at("warmup_steps").get<std::int64_t>() : 0;
  std::map<std::int64_t, TracedStep> steps;
  // Buckets of the first step are not those of the others.
  const auto counts = [&](std::int64_t step) { return step >= std::max<std::int64_t>(1, warm); };
  std::map<std::int64_t, int> told;
  for (const auto& entry : record.at("trace_steps")) {
    const auto number = entry.at("step").get<std::int64_t>();
    const int rank = entry.at("rank").get<int>();
    if (!counts(number) || rank < 0 || rank >= workers) continue;
    auto& step = steps[number];
    step.number = number;
    step.workers.resize(at(workers));
    step.workers[at(rank)] = {nanoseconds(entry.at("begin_us")), nanoseconds(entry.at("end_us"))};
    ++told[number];
  }
  std::erase_if(steps, [&](const auto& each) { return told[each.first] != workers; });
  for (const auto& entry : record.at("trace")) {
    const auto found = steps.find(entry.at("step").get<std::int64_t>());
    if (found == steps.end()) continue;
    found->second.spans.push_back({nanoseconds(entry.at("begin_us")), nanoseconds(entry.at("end_us")), static_cast<std::int32_t>(found->first), entry.at("task").get<std::int32_t>(), entry.at("rank").get<std::int16_t>(),
                                   word_of<Stream, kStreams>(entry.at("stream").get<std::string>()), word_of<Cause, kCauses>(entry.at("cause").get<std::string>()), entry.value("meeting", std::uint32_t{0})});
  }
  std::vector<TracedStep> out;
  for (auto& [number, step] : steps) out.push_back(std::move(step));
  return out;
}

RunExplanation explain_run(const Json& record, const Json* one, const std::string& machine) {
  RunExplanation run;
  run.record = record;
  try {
    run.ledger = mean_ledger(record);
    if (!run.ledger) throw Error(Code::not_found, fmt::format("[explain] run {} has no measured steps; its state is {}", text_at(record, "id"), text_at(record, "state")));
    if (text_at(record, "subject") != "ddlbench") {
      run.no_loss = run.no_prediction = fmt::format("{} keeps to itself what its tasks are: its ledger is all there is", text_at(record, "subject"));
      return run;
    }
    if (!record.contains("trace") || record["trace"].empty() || !record.contains("plan") || !record["plan"].is_object())
      throw Error(Code::not_found, fmt::format("[explain] run {} has no {}; got --trace {}, expected a run with --trace recent or all", text_at(record, "id"),
                                               record.contains("trace") && !record["trace"].empty() ? "plan in its record" : "trace", record.contains("config") ? text_at(record["config"], "trace") : ""));
    run.experiment = experiment_from(record.at("config"), record.value("provenance", Json()));
    const auto& job = run.experiment->job;
    const auto graph = make_model(job.model, dataset_shape(job.dataset, job.synthetic));
    std::optional<Json> profile;
    if (!machine.empty()) profile = machine_called(machine);
    else if (const auto own = default_machine_path(); !own.empty() && std::filesystem::exists(own)) {
      try {
        profile = read_machine(own);
      } catch (const Error& error) {
        run.notes.push_back(error.what());
      }
    }
    if (profile && machine.empty() && !same_machine(*profile, record.at("environment").at("before"))) {
      run.notes.push_back("the run is of another machine than this one, whose profile says nothing of it (--machine)");
      profile.reset();
    }
    // What a profile says is of one host: of wires between several, and of cores that not all ranks share, it knows nothing.
    const auto before = record.value("prediction", Json());
    const bool several = hosts_of(record) > 1;
    if (several) profile.reset();
    const auto* known = profile ? &*profile : nullptr;
    try {
      attribute(run, one, graph, known);
    } catch (const Error& error) {
      if (error.code() != Code::unsupported) throw;
      run.no_loss = error.what();
    }
    foresee(run, graph, known);
    if (several) run.no_prediction = text_at(before, "reason");
  } catch (const Json::exception& error) {
    throw Error(Code::corrupt, fmt::format("[explain] run {} is not as docs/record.md has it: {}", text_at(record, "id"), error.what()));
  }
  return run;
}

}  // namespace ddl
