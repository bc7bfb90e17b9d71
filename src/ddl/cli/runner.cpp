#include "ddl/cli/runner.h"

#include <csignal>
#include <exception>

#include "ddl/core/error.h"
#include "ddl/lab/signals.h"
#include "ddl/measure/clock.h"
#include "ddl/report/disturbance.h"
#include "ddl/report/emulation.h"

namespace ddl {
namespace {

std::string text_of(const Json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string called(const Json& record) {
  const auto name = text_of(record, "case");
  return name.empty() ? text_of(record, "id") : name;
}

/// The run's own words win, except for what tells it apart from others of its sweep.
Json adopted(Json record, const Json& planned) {
  for (const auto* key : {"id", "repeat"}) record[key] = planned.at(key);
  for (const auto* key : {"study", "case", "identity", "dataset_digest"})
    if (!planned.at(key).is_null()) record[key] = planned.at(key);
  return record;
}

}  // namespace

Json run_one(const Pending& pending, Recorder& recorder, ProgressLine& progress, AgentHub* launched, Nanoseconds requested) {
  const SignalsHeld held;
  Json record = pending.record;
  record["state"] = "running";
  record["started"] = utc_now();
  recorder.keep(record);
  auto events = progress.events();
  events.requested = requested;
  try {
    record = adopted(run_experiment(pending.experiment, events, launched), pending.record);
  } catch (const std::exception& error) {
    record["state"] = "failed";
    record["reason"] = error.what();
    record["finished"] = utc_now();
    recorder.keep(record);
    throw;
  }
  recorder.keep(record);
  return record;
}

Outcome run_all(const std::vector<Pending>& pending, Recorder& recorder, const Output& output, AgentHub* launched) {
  Outcome outcome;
  // Between two runs nobody else listens.
  const SignalsHeld signals;
  ProgressLine progress(output);
  int number = 0;
  bool failed = false;
  for (const auto& one : pending) {
    if (const int noted = SignalsHeld::take(); noted != 0) outcome.exit = noted == SIGINT ? Exit::interrupted : Exit::terminated;
    // A store that takes no record would only make work to be done again.
    if (outcome.exit != Exit::ok || !recorder.sound()) break;
    progress.begin(called(one.record), ++number, static_cast<int>(pending.size()));
    try {
      outcome.records.push_back(run_one(one, recorder, progress, launched));
    } catch (const std::exception& error) {
      auto record = one.record;
      record["state"] = "failed";
      record["reason"] = error.what();
      outcome.records.push_back(std::move(record));
    }
    const auto& record = outcome.records.back();
    const auto code = exit_for_record(record);
    if (code == Exit::interrupted || code == Exit::terminated) outcome.exit = code;
    failed = failed || code != Exit::ok;
    const auto reason = text_of(record, "reason");
    progress.message(fmt::format("[{}/{}] {}: {}{}", number, pending.size(), called(record), text_of(record, "state"),
                                 reason.empty() ? "" : ": " + reason));
  }
  if (outcome.exit == Exit::ok && failed) outcome.exit = Exit::partial;
  if (outcome.exit == Exit::ok && !recorder.sound()) outcome.exit = Exit::failure;
  return outcome;
}

void say_results(const std::vector<Json>& records, const Output& output, Batches batches) {
  if (records.empty()) return;
  output.say("\n" + render_table(records, batches));
  output.say(render_where_time_went(records));
  for (const auto& record : records)
    for (const auto& sentence : {disturbance_sentence(record), emulation_sentence(record)})
      if (!sentence.empty()) output.say(sentence);
  if (const auto predictions = render_predictions(records); !predictions.empty()) output.say(predictions);
  if (const auto staleness = render_staleness(records); !staleness.empty()) output.say(staleness);
  if (const auto beside_fp32 = render_precisions(records); !beside_fp32.empty()) output.say(beside_fp32);
}

void say_failures(const std::vector<Json>& records, const Output& output) {
  for (const auto& record : records)
    if (text_of(record, "state") != "ok")
      output.say(fmt::format("{} {}: {}: {}", paint("not ok:", Colour::yellow, 2), called(record), text_of(record, "state"),
                             text_of(record, "reason")));
}

}  // namespace ddl
