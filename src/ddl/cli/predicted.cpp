#include "ddl/cli/predicted.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "ddl/cli/prediction_json.h"
#include "ddl/core/error.h"
#include "ddl/core/units.h"
#include "ddl/data/dataset.h"
#include "ddl/nn/model.h"

namespace ddl {
namespace {

Json point_json(const PredictedPoint& point, std::optional<double> alone) {
  Json out{{"workers", point.workers()}, {"strategy", to_string(point.experiment.job.strategy)}};
  if (!point.experiment.name.empty()) out["case"] = point.experiment.name;
  if (!point.found) {
    for (const auto* field : {"engine", "step_ms", "throughput", "ledger_ms", "memory_bytes", "memory_total_bytes", "memory_interval_bytes", "fits", "fits_surely", "speed_up", "links"}) out[field] = nullptr;
    out["reason"] = point.reason;
    return out;
  }
  add_prediction(out, point.found->step, point.experiment.job.batch, point.found->memory);
  out["speed_up"] = alone ? Json(*alone / point.found->step.seconds) : Json();
  out["waited"] = point.found->waited;
  out["beyond"] = point.found->beyond;
  out["links"] = links_json(point.found->links, point.found->step.seconds);
  const auto& tuned = point.found->tuned;
  out["bucket_bytes"] = tuned ? Json(tuned->bytes) : Json();
  out["bucket_overlap"] = tuned ? Json(tuned->overlap) : Json();
  return out;
}

/// What of a worker's time is not its own computation, the largest first.
std::string where_it_goes(const Ledger& ledger) {
  std::vector<std::pair<double, std::string>> parts;
  for (std::size_t i = 0; i < kCauses; ++i)
    if (const auto cause = static_cast<Cause>(i); ledger.wall > 0 && ledger[cause] / ledger.wall >= 0.005) parts.emplace_back(ledger[cause] / ledger.wall, std::string(name(cause)));
  std::sort(parts.rbegin(), parts.rend());
  std::string out;
  for (const auto& [share, cause] : parts) out += fmt::format("{}{} {:.0f} %", out.empty() ? "" : ", ", cause, 100 * share);
  return out;
}

bool is_known(const PredictedPoint& point) { return point.found.has_value(); }

/// Whether its plan is `single`'s: `data` has nobody to exchange gradients with.
bool is_alone(const Job& job) { return job.workers.size() == 1 && (job.strategy.name == "single" || job.strategy.name == "data"); }

}  // namespace

PredictedPoint predict_point(Experiment experiment, const Json& machine, Engine engine, int per_node, const StoredSamples& stored) {
  PredictedPoint point{std::move(experiment), {}, ""};
  const auto& job = point.experiment.job;
  try {
    if (point.experiment.subject != "ddlbench") throw Error(Code::unsupported, fmt::format("[predict] only ddlbench's own steps are predicted; got {}, expected ddlbench", point.experiment.subject));
    point.found = predict_job(job, make_model(job.model, dataset_shape(job.dataset, job.synthetic)), machine, engine, per_node, stored);
  } catch (const Error& error) {
    point.reason = error.what();
  }
  return point;
}

Json predicted_json(const std::vector<PredictedPoint>& points, const Json& machine, const std::string& asked, const std::string& engine, double seconds, std::optional<double> alone) {
  Json all = Json::array();
  std::set<std::string> used;
  for (const auto& point : points) {
    all.push_back(point_json(point, alone));
    if (point.found) used.emplace(name(point.found->step.engine));
  }
  return {{"schema", "ddlbench.predict/1"}, {"machine", machine.value("name", machine.value("host", asked))}, {"source", source_of(machine)},
          {"engine", used.empty() ? engine : used.size() == 1 ? *used.begin() : "mixed"}, {"asked_engine", engine}, {"one_worker_ms", alone ? Json(*alone * 1e3) : Json()}, {"points", std::move(all)}, {"seconds", seconds}};
}

std::optional<double> seconds_alone(const PredictedPoint& first, const Json& machine, Engine engine, const StoredSamples& stored) {
  const auto seconds_of = [](const PredictedPoint& point) { return point.found ? std::optional(point.found->step.seconds) : std::nullopt; };
  if (is_alone(first.experiment.job)) return seconds_of(first);
  // Of workers that are unlike, the one that is fastest alone.
  std::optional<double> least;
  std::vector<WorkerSpec> sorts;
  for (const auto& worker : first.experiment.job.workers)
    if (std::none_of(sorts.begin(), sorts.end(), [&](const WorkerSpec& each) { return each.like(worker); })) sorts.push_back(worker);
  for (const auto& worker : sorts) {
    auto experiment = first.experiment;
    auto& job = experiment.job;
    job.workers = {worker};
    job.strategy = {"single", {}};
    job.fabric.clear();
    const auto found = seconds_of(predict_point(std::move(experiment), machine, engine, 0, stored));
    if (found && (!least || *found < *least)) least = found;
  }
  return least;
}

void say_predicted(const std::vector<PredictedPoint>& points, const Json& machine, bool named, const Output& output, std::optional<double> alone) {
  std::vector<std::vector<std::string>> rows{{named ? "case" : "workers", "step", "90 %", "samples/s"}};
  // Experiments that differ in more than their workers have no speed-up over each other.
  if (!named) rows.front().emplace_back("speed-up");
  rows.front().insert(rows.front().end(), {"a worker holds", "where its time goes"});
  for (const auto& point : points) {
    if (!point.found) continue;
    const auto& found = point.found->step;
    const double rate = static_cast<double>(point.experiment.job.batch) / found.seconds;
    rows.push_back({named ? point.experiment.name : std::to_string(point.workers()), fmt::format("{:.4g} ms", found.seconds * 1e3), fmt::format("{:.4g} to {:.4g}", found.low * 1e3, found.high * 1e3),
                    fmt::format("{:.5g}", rate)});
    if (!named) rows.back().push_back(alone ? fmt::format("{:.2f}", *alone / found.seconds) : "-");
    rows.back().insert(rows.back().end(), {memory_held(found, point.found->memory), where_it_goes(found.mean)});
  }
  if (rows.size() > 1) output.data(columns(rows));
  const auto called = [&](const PredictedPoint& point) { return named ? point.experiment.name : fmt::format("{} workers", point.workers()); };
  for (const auto& point : points)
    if (point.found && point.found->tuned)
      output.say(fmt::format("{}: bucket=auto is predicted to take {}, {} backward", called(point), to_string(Bytes{point.found->tuned->bytes}), point.found->tuned->overlap ? "during" : "after"));
  for (const auto& point : points)
    if (const auto words = point.found ? links_words(point.found->links, point.found->step.seconds) : ""; !words.empty()) output.say(fmt::format("{}: {}", called(point), words));
  for (const auto& point : points)
    if (point.found)
      for (const auto& words : point.found->beyond) output.say(fmt::format("{}: {}", called(point), words));
  double waited = 0;
  for (const auto& point : points) waited = std::max(waited, point.found ? point.found->waited : 0);
  if (const auto words = waited_words(waited); !words.empty()) output.say(words);
  say_source(machine, output);
}

void say_source(const Json& machine, const Output& output) {
  if (is_datasheet(machine)) output.say(fmt::format("{}: from its datasheet; no layer was measured there, hence the wide interval (nor what its devices take from each other, how steps vary or what loading takes: taken as nothing)", machine.value("name", "machine")));
}

Exit exit_for_predicted(const std::vector<PredictedPoint>& points) {
  if (std::all_of(points.begin(), points.end(), is_known)) return Exit::ok;
  if (std::any_of(points.begin(), points.end(), is_known)) return Exit::partial;
  print_error(fmt::format("[predict] nothing could be predicted: {}", points.front().reason));
  return Exit::usage;
}

}  // namespace ddl
