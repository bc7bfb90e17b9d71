#include <algorithm>

#include "ddl/cli/command.h"
#include "ddl/cli/experiment_flags.h"
#include "ddl/cli/exported.h"
#include "ddl/cli/of_flag.h"
#include "ddl/cli/predicted.h"
#include "ddl/core/error.h"
#include "ddl/core/units.h"
#include "ddl/data/dataset.h"
#include "ddl/lab/predicted_trace.h"
#include "ddl/measure/clock.h"
#include "ddl/nn/model.h"

namespace ddl {
namespace {

struct PredictOptions {
  Output output;
  std::string file, machine, engine = "auto";
  int per_node = 0;  ///< 0: the profile's
  std::string storage, sample_bytes, sample_time;
  bool shared = false;
  std::string format, written;  ///< of the simulated step's trace
  std::unique_ptr<ExperimentFlags> flags;
};

/// `2,4,8`: numbers of workers, each an experiment. Anything else is one group of workers, as `run` takes it.
std::vector<std::string> groups_of_workers(const std::string& text) {
  auto words = split_outside_brackets(text);
  const bool numbers = words.size() > 1 && std::all_of(words.begin(), words.end(), [](const std::string& word) { return !word.empty() && word.find_first_not_of("0123456789") == std::string::npos; });
  return numbers ? words : std::vector<std::string>{text};
}

StoredSamples stored_samples(const PredictOptions& options) {
  StoredSamples stored;
  stored.asked = !options.storage.empty();
  if (!stored.asked && (!options.sample_bytes.empty() || !options.sample_time.empty() || options.shared))
    throw Error(Code::invalid_argument, "--sample-bytes, --sample-time and --storage-shared are of samples in storage; got no --storage-rate");
  of_flag("--storage-rate", [&] { stored.bytes_per_s = stored.asked ? storage_rate(options.storage) : 0; });
  of_flag("--sample-bytes", [&] { stored.sample_bytes = options.sample_bytes.empty() ? 0 : static_cast<double>(parse_bytes(options.sample_bytes).value); });
  of_flag("--sample-time", [&] {
    if (options.sample_time.empty()) return;
    stored.making = parse_seconds(options.sample_time).value;
    if (!(*stored.making >= 0)) throw Error(Code::invalid_argument, fmt::format("what making a sample takes; got {}, expected 0s or more", options.sample_time));
  });
  stored.shared = options.shared;
  return stored;
}

Engine engine_of(const std::string& word) { return word == "closed" ? Engine::closed : word == "simulated" ? Engine::simulated : Engine::automatic; }

PredictedPoint predict_one(const Settings& settings, const std::string& workers, const Json& machine, const PredictOptions& options) {
  auto own = settings;
  const auto known = own.find("workers");
  own["workers"] = {workers, known == own.end() ? "--workers" : known->second.origin};
  return predict_point(resolve(own), machine, engine_of(options.engine), options.per_node, stored_samples(options));
}

/// The trace of one prediction, in another form.
void write_trace(const std::vector<PredictedPoint>& points, const Json& machine, const PredictOptions& options) {
  if (points.size() > 1) throw Error(Code::invalid_argument, fmt::format("--export: one prediction is written; got {} numbers of workers, expected one", points.size()));
  const auto& experiment = points.front().experiment;
  const auto& job = experiment.job;
  const auto exporter = builtin_exporters().at(options.format).make;
  const auto record = predicted_trace(experiment, make_model(job.model, dataset_shape(job.dataset, job.synthetic)), machine, options.per_node, stored_samples(options));
  write_exported(exporter, exporter.files(record), options.written);
  options.output.say("written: " + options.written);
}

Exit act(const PredictOptions& options) {
  const auto begin = now();
  if (options.format.empty() != options.written.empty())
    throw Error(Code::invalid_argument, fmt::format("--export and -o go together; got {} alone, expected both", options.format.empty() ? "-o" : "--export"));
  auto settings = merge(options.file.empty() ? Settings{} : read_experiment(options.file), options.flags->settings());
  const auto machine = machine_called(options.machine);
  const auto workers = settings.find("workers");
  std::vector<PredictedPoint> points;
  for (const auto& group : groups_of_workers(workers == settings.end() ? "1" : workers->second.value)) points.push_back(predict_one(settings, group, machine, options));
  const auto alone = seconds_alone(points.front(), machine, engine_of(options.engine), stored_samples(options));
  if (options.output.json)
    options.output.document(predicted_json(points, machine, options.machine, options.engine, seconds(now() - begin), alone));
  else
    say_predicted(points, machine, false, options.output, alone);
  for (const auto& point : points)
    if (!point.found) options.output.say(fmt::format("{} workers: {}", point.workers(), point.reason));
  const auto exit = exit_for_predicted(points);
  if (!options.format.empty() && exit == Exit::ok) write_trace(points, machine, options);
  return exit;
}

}  // namespace

Command add_predict(CLI::App& root) {
  auto options = std::make_shared<PredictOptions>();
  auto* app = add_command(root, "predict", "What an experiment would take on a machine, without running it.", options->output,
                          {"ddlbench predict --model resnet50 --dataset imagenet --synthetic --batch 256 --workers 1,2,4,8,16 --machine v100-16gb",
                           "ddlbench predict --model resnet50 --dataset imagenet --synthetic --batch 256 --workers 8 --strategy pipeline[micro=16] --machine a100-80gb --precision bf16 --json",
                           "ddlbench predict --model resnet50 --dataset imagenet --synthetic --batch 2048 --workers 8,32 --machine v100-32gb[devices_per_node=4,link_inter=25Gbps]",
                           "ddlbench predict --model resnet50 --dataset imagenet --batch 256 --workers 1,8 --machine v100-16gb --storage-rate 200MB/s --sample-time 3ms --loader 4",
                           "ddlbench predict --model resnet50 --dataset imagenet --synthetic --batch 256 --workers 8 --machine v100-16gb --export chakra -o predicted"});
  app->add_option("file", options->file, "Experiment in YAML, as `run` takes it.")->type_name("FILE");
  app->add_option("--machine", options->machine, kMachineHelp);
  app->add_option("--engine", options->engine, "closed: the strategy's formula; simulated: event by event; auto: simulated unless the plan is too large for a second.")
      ->check(CLI::IsMember({"auto", "closed", "simulated"}))->capture_default_str();
  app->add_option("--devices-per-node", options->per_node, "Devices that share a node, where it is not the profile's number.")->check(CLI::Range(1, 1 << 20));
  app->add_option("--storage-rate", options->storage, "Read samples from storage in each step, not from memory: bytes a second that it gives a node, as in 50MB/s; measured: what probe storage found.")->type_name("RATE");
  app->add_option("--sample-bytes", options->sample_bytes, "What a sample takes in storage; as its data set is usually stored unless given.")->type_name("SIZE");
  app->add_option("--sample-time", options->sample_time, "What a loader's thread takes to make a sample; as the profile says unless given.")->type_name("TIME");
  app->add_flag("--storage-shared", options->shared, "All nodes have one storage together.");
  app->add_option("--export", options->format, "Write the simulated step's trace, too, of every worker: as export does of a run; json: as a record has it.")
      ->check(CLI::IsMember({"json", "chrome", "perfetto", "hta", "chakra"}));
  app->add_option("-o,--output", options->written, "File for that, or folder where the form is one.")->type_name("FILE");
  options->flags = std::make_unique<ExperimentFlags>(*app);
  return {app, [options] { return act(*options); }};
}

}  // namespace ddl
