#include <filesystem>
#include <optional>

#include "ddl/cli/command.h"
#include "ddl/cli/recorder.h"
#include "ddl/core/error.h"
#include "ddl/lab/explain_run.h"
#include "ddl/lab/ledger_difference.h"

namespace ddl {
namespace {

struct ExplainOptions {
  Output output;
  std::string run = "latest", against, machine, store = "ddlbench.db";
};

/// Whether it is a record's file, as `run --json` and `export` write them.
bool is_file(const std::string& run) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(run, ignored);
}

Json record_of(const ExplainOptions& options, const std::string& run) {
  if (!is_file(run)) return open_existing(options.store).get(run);
  auto record = parse_json(read_file(run), run);
  if (!record.is_object() || record.value("schema", Json()) != "ddlbench.run/1" || !record.contains("ranks"))
    throw Error(Code::corrupt, fmt::format("[explain] {} is no run's record; expected one document of schema ddlbench.run/1", run));
  return record;
}

std::optional<Json> one_worker(const ExplainOptions& options, const Json& record, const std::optional<Json>& against) {
  if (against && is_one_worker_of(*against, record)) return against;
  std::error_code ignored;
  if (!std::filesystem::exists(options.store, ignored)) return std::nullopt;
  return find_one_worker(open_existing(options.store), record);
}

std::string ms(double seconds) { return fmt::format("{:.4g}", seconds * 1e3); }

using Rows = std::vector<std::vector<std::string>>;

std::string ranks_table(const Json& record) {
  Rows rows{{"rank", "step ms"}};
  for (std::size_t c = 0; c < kCauses; ++c) rows.front().emplace_back(name(static_cast<Cause>(c)));
  for (const auto& rank : record.at("ranks")) {
    rows.push_back({rank.at("rank").dump(), ms(rank.at("wall_ms").get<double>() * 1e-3)});
    for (std::size_t c = 0; c < kCauses; ++c) {
      const auto& value = rank.at("ledger_ms").at(std::string(name(static_cast<Cause>(c))));
      rows.back().push_back(value.is_number() ? ms(value.get<double>() * 1e-3) : "-");
    }
  }
  return columns(rows);
}

std::string causes_table(const LossReport& loss) {
  const bool several = loss.workers > 1;
  Rows rows{{"cause", several ? "lost" : "", "without it: step ms", "gained ms", several ? "speed-up" : "", "what"}};
  for (const auto& part : loss.parts)
    rows.push_back({std::string(name(part.cause)), several ? fmt::format("{:.3f}x", part.lost) : "", ms(part.step_without), ms(loss.simulated - part.step_without), several ? fmt::format("{:.2f}x", part.speedup_without) : "", std::string(words(part.cause))});
  if (several) {
    rows.push_back({"not explained", fmt::format("{:.3f}x", loss.not_explained), "", "", "", fmt::format("the simulator has a step of {} ms, measured were {}", ms(loss.simulated), ms(loss.measured))});
    rows.push_back({"sum", fmt::format("{:.3f}x", loss.loss()), "", "", "", fmt::format("{} workers, {:.3f}x reached", loss.workers, loss.speedup)});
  }
  return columns(rows);
}

std::string prediction_table(const ForeseenStep& foreseen, bool apart) {
  const auto& measured = foreseen.measured;
  Rows rows{{"term", "predicted ms", "measured ms", "predicted - measured", "of the step"}};
  const auto row = [&](const std::string& term, double predicted, double was) {
    rows.push_back({term, ms(predicted), ms(was), fmt::format("{:+.4g}", (predicted - was) * 1e3), fmt::format("{:+.1f} %", 100 * (predicted - was) / measured.wall)});
  };
  for (std::size_t c = 0; c < kCauses; ++c) row(std::string(name(static_cast<Cause>(c))), foreseen.mean.seconds[c], measured.seconds[c]);
  // Of workers that step apart, too, the mean of their own.
  row("step", apart ? foreseen.mean.wall : foreseen.seconds, measured.wall);
  return columns(rows) + fmt::format("a step is predicted to take {} to {} ms nine times of ten\n", ms(foreseen.low), ms(foreseen.high));
}

std::string difference_table(const LedgerDifference& difference) {
  Rows rows{{"term", "ms", "against", "difference", "percent", "of the steps' difference"}};
  const auto row = [&](const std::string& term, double ours, double other) {
    rows.push_back({term, ms(ours), ms(other), fmt::format("{:+.4g}", (ours - other) * 1e3), other > 0 ? fmt::format("{:+.1f} %", 100 * (ours - other) / other) : "-",
                    difference.step() != 0 ? fmt::format("{:.0f} %", 100 * (ours - other) / difference.step()) : "-"});
  };
  for (std::size_t c = 0; c < kCauses; ++c) row(std::string(name(static_cast<Cause>(c))), difference.ours.seconds[c], difference.other.seconds[c]);
  row("step", difference.ours.wall, difference.other.wall);
  return columns(rows);
}

std::string straggler_line(const Straggler& found) {
  const auto judged = fmt::format("over {} steps, more than three standard errors and 2 % of a step count", found.steps);
  if (found.worker == kNone) return fmt::format("straggler: none; the latest worker is busy {} ms (+- {}) longer than its peers ({})\n", ms(found.late), ms(found.error), judged);
  return fmt::format("straggler: rank {}, busy {} ms (+- {}) longer than its peers; {}: {} ms ({})\n", found.worker, ms(found.late), ms(found.error), found.task, ms(found.task_late), judged);
}

void print(const ExplainOptions& options, const RunExplanation& run, const std::optional<LedgerDifference>& difference) {
  std::string text = in_words(run) + "\n\nLedgers, ms per step:\n" + ranks_table(run.record);
  if (run.loss) {
    text += run.loss->workers > 1 ? "\nWhat is lost against ideal speed-up, and what would be gained without each cause alone:\n" : "\nWhat would be gained without each cause alone:\n";
    text += causes_table(*run.loss);
    for (const auto cause : run.loss->not_known) {
      if (cause == LossCause::latency) text += "latency: not known apart from bytes; ddlbench probe comm measures it\n";
      if (cause == LossCause::contention) text += "contention: not known apart from computing; ddlbench probe compute measures it\n";
      if (cause == LossCause::compute) text += "compute: what parts take longer than the whole is not known without a run of one worker (same model, dataset, batch; --against, or in the store)\n";
    }
  }
  if (run.straggler && run.loss->workers > 1) text += "\n" + straggler_line(*run.straggler);
  text += "\nPredicted by the machine profile, beside what was measured:\n" + (run.foreseen ? prediction_table(*run.foreseen, run.loss && run.loss->apart) : run.no_prediction + "\n");
  if (difference) text += fmt::format("\nAgainst run {}:\n", options.against) + difference_table(*difference);
  options.output.data(text);
  for (const auto& note : run.notes) options.output.say("note: " + note);
  if (difference)
    for (const auto& unlike : difference->unlike) options.output.say(fmt::format("note: the runs do not do the same work: {}", unlike));
}

Exit act(const ExplainOptions& options) {
  const auto record = record_of(options, options.run);
  std::optional<Json> against;
  std::optional<LedgerDifference> difference;
  if (!options.against.empty()) {
    against = record_of(options, options.against);
    difference = ledger_difference(record, *against);
  }
  const auto one = one_worker(options, record, against);
  const auto run = explain_run(record, one ? &*one : nullptr, options.machine);
  if (!options.output.json) {
    print(options, run, difference);
    return Exit::ok;
  }
  auto document = to_json(run);
  document["against"] = difference ? to_json(*difference) : Json(nullptr);
  if (difference) document["against"]["run"] = against->value("id", Json());
  options.output.document(document);
  return Exit::ok;
}

}  // namespace

Command add_explain(CLI::App& root) {
  auto options = std::make_shared<ExplainOptions>();
  auto* app = add_command(root, "explain", "Why a run is not faster: what its speed is lost to, what each cause costs, and what to try first.", options->output,
                          {"ddlbench explain", "ddlbench explain latest --json", "ddlbench explain latest --against 20261121"});
  app->add_option("run", options->run, "Run by id, a unique beginning of one, or 'latest'; or a file with its record.")->type_name("RUN")->capture_default_str();
  app->add_option("--against", options->against, "Another run: its ledger is compared term by term, and one of one worker is what the speed-up is over.")->type_name("RUN");
  app->add_option("--machine", options->machine, "Profile of the run's machine: a name (ddlbench list machines), or a file; none: this machine's own, if it was measured.");
  app->add_option("--store", options->store, "Results store.")->type_name("FILE")->capture_default_str();
  return {app, [options] { return act(*options); }};
}

}  // namespace ddl
