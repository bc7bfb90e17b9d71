#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>

#include "ddl/cli/command.h"
#include "ddl/cli/experiment_flags.h"
#include "ddl/cli/prediction_json.h"
#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/core/units.h"
#include "ddl/lab/config_values.h"
#include "ddl/lab/predict_job.h"
#include "ddl/measure/clock.h"
#include "ddl/nn/model.h"

namespace ddl {
namespace {

struct Options {
  Output output;
  std::string file, machine, engine = "auto";
  int per_node = 0;  ///< 0: the profile's
  std::unique_ptr<ExperimentFlags> flags;
};

/// `2,4,8`: numbers of workers, each an experiment. Anything else is one group of workers, as `run` takes it.
std::vector<std::string> groups_of_workers(const std::string& text) {
  auto words = split_outside_brackets(text);
  const bool numbers = words.size() > 1 && std::all_of(words.begin(), words.end(), [](const std::string& word) { return !word.empty() && word.find_first_not_of("0123456789") == std::string::npos; });
  return numbers ? words : std::vector<std::string>{text};
}

/// One experiment of a curve.
struct Point {
  Experiment experiment;
  std::optional<JobPrediction> found;
  std::string reason;  ///< why there is none
  int workers() const { return static_cast<int>(experiment.job.workers.size()); }
};

Engine engine_of(const std::string& word) { return word == "closed" ? Engine::closed : word == "simulated" ? Engine::simulated : Engine::automatic; }

Point predict_one(const Settings& settings, const std::string& workers, const Json& machine, const Options& options) {
  auto own = settings;
  const auto known = own.find("workers");
  own["workers"] = {workers, known == own.end() ? "--workers" : known->second.origin};
  Point point{resolve(own), {}, ""};
  const auto& job = point.experiment.job;
  try {
    point.found = predict_job(job, make_model(job.model, dataset_shape(job.dataset, job.synthetic)), machine, engine_of(options.engine), options.per_node);
  } catch (const Error& error) {
    point.reason = error.what();
  }
  return point;
}

Json point_json(const Point& point) {
  Json out{{"workers", point.workers()}, {"strategy", to_string(point.experiment.job.strategy)}};
  if (!point.found) {
    out["reason"] = point.reason;
    return out;
  }
  add_prediction(out, point.found->step, point.experiment.job.batch, point.found->fits);
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

Exit act(const Options& options) {
  const auto begin = now();
  auto settings = merge(options.file.empty() ? Settings{} : read_experiment(options.file), options.flags->settings());
  const auto machine = machine_called(options.machine);
  const auto workers = settings.find("workers");
  std::vector<Point> points;
  for (const auto& group : groups_of_workers(workers == settings.end() ? "1" : workers->second.value)) points.push_back(predict_one(settings, group, machine, options));
  const auto any = std::any_of(points.begin(), points.end(), [](const Point& point) { return point.found.has_value(); });
  if (options.output.json) {
    Json all = Json::array();
    for (const auto& point : points) all.push_back(point_json(point));
    options.output.document({{"schema", "ddlbench.predict/1"}, {"machine", machine.value("name", machine.value("host", options.machine))}, {"source", is_measured(machine) ? "measured" : "datasheet"}, {"engine", options.engine}, {"points", all}, {"seconds", seconds(now() - begin)}});
  } else {
    std::vector<std::vector<std::string>> rows{{"workers", "step", "90 %", "samples/s", "speed-up", "a worker holds", "where its time goes"}};
    double first = 0;
    for (const auto& point : points) {
      if (!point.found) continue;
      const auto& found = point.found->step;
      const double rate = static_cast<double>(point.experiment.job.batch) / found.seconds;
      if (first == 0) first = rate / point.workers();
      rows.push_back({std::to_string(point.workers()), fmt::format("{:.4g} ms", found.seconds * 1e3), fmt::format("{:.4g} to {:.4g}", found.low * 1e3, found.high * 1e3), fmt::format("{:.5g}", rate), fmt::format("{:.2f}", rate / first),
                      to_string(Bytes{found.most.total()}) + (point.found->fits ? "" : ", more than there is"), where_it_goes(found.mean)});
    }
    if (any) options.output.data(columns(rows));
    if (!is_measured(machine)) options.output.say(fmt::format("{}: from its datasheet; no layer was measured there, hence the wide interval", machine.value("name", options.machine)));
  }
  for (const auto& point : points)
    if (!point.found) options.output.say(fmt::format("{} workers: {}", point.workers(), point.reason));
  if (any) return std::all_of(points.begin(), points.end(), [](const Point& point) { return point.found.has_value(); }) ? Exit::ok : Exit::partial;
  print_error(fmt::format("[predict] nothing could be predicted: {}", points.front().reason));
  return Exit::usage;
}

}  // namespace

Command add_predict(CLI::App& root) {
  auto options = std::make_shared<Options>();
  auto* app = add_command(root, "predict", "What an experiment would take on a machine, without running it.", options->output,
                          {"ddlbench predict --model resnet50 --dataset imagenet --synthetic --batch 256 --workers 1,2,4,8,16 --machine v100-16gb",
                           "ddlbench predict --model resnet50 --dataset imagenet --synthetic --batch 256 --workers 8 --strategy pipeline[micro=16] --machine a100-80gb --precision bf16 --json"});
  app->add_option("file", options->file, "Experiment in YAML, as `run` takes it.")->type_name("FILE");
  app->add_option("--machine", options->machine, "A profile: a name (ddlbench list machines), or a file; none: this machine's own, as probe measured it.");
  app->add_option("--engine", options->engine, "closed: the strategy's formula; simulated: event by event; auto: simulated unless the plan is too large for a second.")
      ->check(CLI::IsMember({"auto", "closed", "simulated"}))->capture_default_str();
  app->add_option("--devices-per-node", options->per_node, "Devices that share a node, where it is not the profile's number.")->check(CLI::PositiveNumber);
  options->flags = std::make_unique<ExperimentFlags>(*app);
  return {app, [options] { return act(*options); }};
}

}  // namespace ddl
