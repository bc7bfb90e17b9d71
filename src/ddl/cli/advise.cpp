#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "ddl/cli/advise_verify.h"
#include "ddl/cli/command.h"
#include "ddl/cli/experiment_flags.h"
#include "ddl/cli/of_flag.h"
#include "ddl/cli/predicted.h"
#include "ddl/cli/prediction_json.h"
#include "ddl/core/error.h"
#include "ddl/core/units.h"
#include "ddl/data/dataset.h"
#include "ddl/lab/advise_words.h"
#include "ddl/lab/config_values.h"
#include "ddl/lab/predict_job.h"
#include "ddl/lab/signals.h"
#include "ddl/nn/model.h"
#include "ddl/strategy/builtin.h"

namespace ddl {
namespace {

struct AdviseOptions {
  Output output;
  std::string file, machine, budget = "10s";
  int per_node = 0, verify = 0;
  bool stale = false, lossy = false;
  std::unique_ptr<ExperimentFlags> flags;
};

/// What is told: the front, the best of each strategy at each number of workers, the ten fastest, what was asked for, plain data, what is advised and one worker, and what is verified.
std::vector<std::size_t> told(const Advice& advice, const std::set<std::size_t>& verified) {
  std::set<std::pair<std::string, int>> seen;
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < advice.points.size(); ++i) {
    const auto& point = advice.points[i];
    const bool first = seen.emplace(fmt::format("{} {}", point.strategy.name, point.differs), point.workers).second;
    if (first || point.pareto || point.asked || static_cast<int>(i) == plain_data(advice) || (point.rank > 0 && point.rank <= 10) || advice.verdict.pick == i || advice.verdict.alone == i || verified.contains(i)) out.push_back(i);
  }
  return out;
}

/// Of those, what a table has room for: the front where it saves a twentieth of memory or more, the best of each strategy, the one worker, what was asked for.
bool in_table(const Advice& advice, std::size_t number, std::set<std::string>& seen, double& least) {
  const auto& point = advice.points[number];
  const bool first = point.memory.fits && seen.insert(fmt::format("{} {}", point.strategy.name, point.differs)).second;
  const auto bytes = static_cast<double>(point.step.most.total());
  const bool saves = point.pareto && bytes <= 0.95 * least;
  if (saves) least = bytes;
  return first || saves || point.asked || static_cast<int>(number) == plain_data(advice) || (advice.verdict.alone && *advice.verdict.alone == number) ||
         (advice.verdict.pick && *advice.verdict.pick == number);
}

void print_table(const Advice& advice, const std::vector<std::size_t>& numbers, std::int64_t batch, const Output& output) {
  const double one = advice.verdict.alone ? advice.points[*advice.verdict.alone].step.seconds : 0;
  std::vector<std::vector<std::string>> rows{{"rank", "front", "strategy", "workers", "step", "90 %", "samples/s", "speed-up", "a worker holds", "largest loss"}};
  // Only where something of them was asked for is there anything to tell apart.
  const bool differ = std::any_of(advice.points.begin(), advice.points.end(), [](const AdvisedPoint& point) { return !point.differs.empty(); });
  if (differ) rows.front().emplace_back("gradient");
  std::set<std::string> seen;
  double least = std::numeric_limits<double>::infinity();
  for (const auto number : numbers) {
    if (!in_table(advice, number, seen, least)) continue;
    const auto& point = advice.points[number];
    const auto& step = point.step;
    const auto [loss, share] = largest_loss(step.mean);
    rows.push_back({point.rank > 0 ? std::to_string(point.rank) : "-", point.pareto ? "*" : "", in_words(point.strategy, point.keys), std::to_string(point.workers), fmt::format("{:.4g} ms", step.seconds * 1e3),
                    fmt::format("{:.4g} to {:.4g}", step.low * 1e3, step.high * 1e3), fmt::format("{:.5g}", static_cast<double>(batch) / step.seconds), one > 0 ? fmt::format("{:.2f}", one / step.seconds) : "-",
                    memory_held(step, point.memory), share >= 0.005 ? fmt::format("{} {:.0f} %", loss, 100 * share) : "-"});
    if (differ) rows.back().push_back(point.differs.empty() ? "whole" : point.differs);
  }
  output.data(columns(rows));
}

/// Reasons, without their numbers, and how often.
std::vector<std::pair<std::string, int>> why_refused(const Advice& advice) {
  std::map<std::string, std::pair<std::string, int>> kinds;
  for (const auto& each : advice.refused) {
    std::string kind;
    for (const char c : each.reason.substr(0, each.reason.find("; got")))
      if (std::isdigit(static_cast<unsigned char>(c)) == 0) kind += c;
    auto [place, fresh] = kinds.try_emplace(kind, each.reason, 0);
    ++place->second.second;
  }
  std::vector<std::pair<std::string, int>> out;
  for (const auto& [kind, reason] : kinds) out.push_back(reason);
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

void say_what_was_looked_at(const Advice& advice, const AdviseOptions& options) {
  const auto misfits = std::count_if(advice.points.begin(), advice.points.end(), [](const AdvisedPoint& point) { return !point.memory.fits; });
  const auto looked = advice.points.size() + advice.refused.size();
  options.output.say(fmt::format("{} candidates looked at in {:.3g} s ({:.0f} a second): {} predicted{}, {} do not fit, {} cannot be planned{}", looked, advice.seconds,
                                 static_cast<double>(looked) / std::max(advice.seconds, 1e-9), advice.points.size(), advice.priced > 0 ? fmt::format(" ({} by their closed form alone)", advice.priced) : "", misfits,
                                 advice.refused.size(), advice.not_searched > 0 ? fmt::format("; {:.0f} more were not: --budget looks longer", advice.not_searched) : ""));
  for (const auto& each : advice.refused)
    if (each.asked) options.output.say(fmt::format("as asked for, {} with {} workers cannot be planned: {}", in_words(each.strategy, each.keys), each.workers, each.reason));
  const auto why = why_refused(advice);
  for (std::size_t i = 0; i < std::min<std::size_t>(3, why.size()); ++i) options.output.say(fmt::format("  not planned, {} times: {}", why[i].second, why[i].first));
  if (!options.lossy) options.output.say("compression of gradients, whose sum is then another, is left out: --allow-lossy looks at it, too");
  if (!options.stale) options.output.say("strategies that train something else than the global batch's gradient (asynchronous, stale, local) are left out: --allow-stale looks at them, too");
}

/// Of what is to be taken: where it rests on what was not measured.
void say_what_is_beyond(const Advice& advice, const Output& output) {
  if (!advice.verdict.pick) return;
  const auto& point = advice.points[*advice.verdict.pick];
  for (const auto& words : point.beyond) output.say(fmt::format("of {} with {} workers: {}", in_words(point.strategy, point.keys), point.workers, words));
  if (const auto words = waited_words(point.waited); !words.empty()) output.say(words);
}

Json advice_json(const Advice& advice, std::int64_t batch) {
  const auto& verdict = advice.verdict;
  const auto rank = [&](const std::optional<std::size_t>& number) { return number ? Json(advice.points[*number].rank) : Json(); };
  const int plain = plain_data(advice);
  Json gain;
  if (verdict.pick && verdict.alone && *verdict.pick != *verdict.alone) {
    const auto &pick = advice.points[*verdict.pick], &alone = advice.points[*verdict.alone];
    const auto [low, high] = times_as_fast(rated_of(pick), rated_of(alone));
    gain = {{"value", alone.step.seconds / pick.step.seconds}, {"low", low}, {"high", high}};
  }
  Json ties = Json::array();
  for (const auto number : verdict.ties) ties.push_back(advice.points[number].rank);
  return {{"words", advice_words(advice, batch)}, {"worth_it", verdict.pick && looked_at_several(advice) && (verdict.alone || one_does_not_hold_it(advice)) ? Json(verdict.worth_it()) : Json()}, {"take", rank(verdict.pick)}, {"fastest", rank(verdict.best)}, {"one_worker", rank(verdict.alone)},
          {"plain_data", plain < 0 ? Json() : Json(advice.points[static_cast<std::size_t>(plain)].rank)}, {"ties", ties}, {"times_one_worker", gain}};
}

Json document(const Advice& advice, const std::vector<std::size_t>& numbers, const Json& machine, const AdviseOptions& options, std::int64_t batch) {
  Json points = Json::array(), refused = Json::array();
  for (const auto number : numbers) {
    const auto& point = advice.points[number];
    Json one{{"workers", point.workers}, {"strategy", to_string(point.strategy)}, {"keys", point.keys}, {"rank", point.rank > 0 ? Json(point.rank) : Json()}, {"pareto", point.pareto}, {"asked", point.asked}, {"differs", point.differs.empty() ? Json() : Json(point.differs)}};
    add_prediction(one, point.step, batch, point.memory);
    one["waited"] = point.waited;
    one["beyond"] = point.beyond;
    points.push_back(std::move(one));
  }
  for (const auto& each : advice.refused) refused.push_back({{"workers", each.workers}, {"strategy", to_string(each.strategy)}, {"keys", each.keys}, {"reason", each.reason}});
  const auto misfits = std::count_if(advice.points.begin(), advice.points.end(), [](const AdvisedPoint& point) { return !point.memory.fits; });
  return {{"schema", "ddlbench.advise/1"}, {"machine", machine.value("name", machine.value("host", options.machine))}, {"source", source_of(machine)}, {"batch", batch},
          {"advice", advice_json(advice, batch)}, {"points", points}, {"refused", refused}, {"searched", advice.points.size() + advice.refused.size()}, {"not_searched", advice.not_searched}, {"misfits", misfits},
          {"priced", advice.priced}, {"verified", Json::array()}, {"seconds", advice.seconds}};
}

void print_verified(const Advice& advice, const std::vector<VerifiedPoint>& verified, const Output& output) {
  std::vector<std::vector<std::string>> rows{{"rank", "strategy", "workers", "predicted", "measured", "95 %", "off"}};
  for (const auto& each : verified) {
    const auto& point = advice.points[each.number];
    const bool ran = each.state == "ok";
    rows.push_back({std::to_string(point.rank), in_words(point.strategy, point.keys), std::to_string(point.workers), fmt::format("{:.4g} ms", point.step.seconds * 1e3),
                    ran ? fmt::format("{:.4g} ms", each.median * 1e3) : each.state, ran ? fmt::format("{:.4g} to {:.4g}", each.low * 1e3, each.high * 1e3) : "-", ran ? fmt::format("{:+.1f} %", each.error_pct) : each.reason});
  }
  output.data("\n" + columns(rows));
}

Exit act(const AdviseOptions& options) {
  const SignalsHeld held;
  const auto settings = merge(options.file.empty() ? Settings{} : read_experiment(options.file), options.flags->settings());
  const auto experiment = resolve(settings);
  try {
    builtin_strategies().at(experiment.job.strategy.name);
  } catch (const Error& error) {
    throw prefixed(origin_of(experiment, "strategy"), error);
  }
  const auto budget = of_flag("--budget", [&] {
    const auto time = parse_seconds(options.budget);
    if (time.value <= 0) throw Error(Code::invalid_argument, fmt::format("no time; got '{}', expected more than 0", options.budget));
    return time;
  });
  if (experiment.subject != "ddlbench") throw Error(Code::unsupported, fmt::format("{}: only ddlbench's own steps are predicted; got {}, expected ddlbench", origin_of(experiment, "subject"), experiment.subject));
  const auto machine = machine_called(options.machine);
  if (options.verify > 0) require_own_machine(machine);
  const auto& job = experiment.job;
  const auto graph = make_model(job.model, dataset_shape(job.dataset, job.synthetic));
  const auto advice = advise({experiment, graph, machine, options.per_node, options.stale, budget, options.lossy});
  const auto numbers = told(advice, options.verify > 0 ? to_verify(advice, options.verify) : std::set<std::size_t>{});
  auto result = document(advice, numbers, machine, options, job.batch);
  if (!options.output.json) {
    options.output.say(advice_words(advice, job.batch) + "\n");
    print_table(advice, numbers, job.batch, options.output);
    say_what_was_looked_at(advice, options);
    say_source(machine, options.output);
    say_what_is_beyond(advice, options.output);
  }
  Exit exit = advice.verdict.pick ? Exit::ok : Exit::failure;
  if (options.verify > 0 && advice.verdict.pick) {
    bool interrupted = false;
    const auto verified = verify_advice(advice, options.verify, settings, options.output, interrupted);
    result["verified"] = verified_json(advice, verified);
    result["advice"]["verified"] = verified_words(advice, verified);
    if (!options.output.json) {
      print_verified(advice, verified, options.output);
      options.output.say(verified_words(advice, verified));
    }
    if (std::any_of(verified.begin(), verified.end(), [](const VerifiedPoint& each) { return each.state != "ok"; })) exit = Exit::partial;
    if (interrupted) exit = Exit::interrupted;
  }
  if (options.output.json) options.output.document(result);
  return exit;
}

}  // namespace

Command add_advise(CLI::App& root) {
  auto options = std::make_shared<AdviseOptions>();
  auto* app = add_command(root, "advise", "Which strategy to take for an experiment, with which options and how many workers, and whether it is worth it.", options->output,
                          {"ddlbench advise --model resnet50 --dataset imagenet --synthetic --batch 256 --workers 8 --machine v100-16gb --budget 3s",
                           "ddlbench advise --model gpt[hidden=2048,layers=24,heads=16,seq=1024,vocab=51200] --dataset language --synthetic --batch 64 --workers 16 --machine a100-80gb --precision bf16 --budget 3s --json"});
  app->add_option("file", options->file, "Experiment in YAML, as `run` takes it; its workers are the most to look at.")->type_name("FILE");
  app->add_option("--machine", options->machine, kMachineHelp);
  app->add_option("--devices-per-node", options->per_node, "Devices that share a node, where it is not the profile's number.")->check(CLI::Range(1, 1 << 20));
  app->add_option("--budget", options->budget, "How long to look.")->type_name("TIME")->capture_default_str();
  app->add_option("--verify", options->verify, "Run so many of the best on this machine, and what is advised and one worker if they are not among them, two seconds of steps each, and hold what was predicted against that.")->type_name("N")->check(CLI::Range(1, 100));
  app->add_flag("--allow-lossy", options->lossy, "Look at compressed gradients, too: data[compress=…]. What is summed is then not what workers found, and training may take more steps.");
  app->add_flag("--allow-stale", options->stale, "Look at strategies whose results differ, too: asynchronous pipelines and servers, bounded staleness, local steps.");
  options->flags = std::make_unique<ExperimentFlags>(*app);
  return {app, [options] { return act(*options); }};
}

}  // namespace ddl
