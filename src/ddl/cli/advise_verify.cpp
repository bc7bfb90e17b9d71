#include "ddl/cli/advise_verify.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ddl/cli/experiment_flags.h"
#include "ddl/cli/runner.h"
#include "ddl/core/error.h"
#include "ddl/lab/predict_job.h"
#include "ddl/measure/environment.h"
#include "ddl/predict/machine.h"
#include "ddl/train/plan_job.h"

namespace ddl {
namespace {

constexpr double kSeconds = 2;  ///< of steps, each

Settings settings_of(const Advice& advice, const AdvisedPoint& point, const Settings& asked) {
  auto own = asked;
  const auto put = [&](const std::string& key, const std::string& value) { own[key] = {value, "--verify"}; };
  put("strategy", to_string(point.strategy));
  put("workers", to_string(chosen_workers(parse_workers(asked.contains("workers") ? asked.at("workers").value : "1"), advice.fastest, point.workers)));
  own.erase("accumulate");
  own.erase("recompute");
  // Threads of a way that was asked for were joined otherwise than processes are.
  put("transport", is_in_process(point.strategy) ? "inproc" : advice.transport);
  // Of what was priced the strategy says it.
  own.erase("bucket");
  for (const auto& [key, value] : point.keys) put(key, value);
  own.erase("epochs");
  put("steps", std::to_string(static_cast<std::int64_t>(std::clamp(kSeconds / point.step.seconds, 20.0, 1000.0))));
  put("evaluate", "false");
  put("repeat", "1");
  return own;
}

}  // namespace

std::set<std::size_t> to_verify(const Advice& advice, int count) {
  constexpr double kSame = 1e-3;
  std::set<std::size_t> out;
  std::map<std::pair<std::string, int>, double> last;
  for (std::size_t i = 0; i < advice.points.size() && advice.points[i].memory.fits && static_cast<int>(out.size()) < count; ++i) {
    const auto& point = advice.points[i];
    auto& seconds = last[{point.strategy.name, point.workers}];
    if (std::abs(point.step.seconds - seconds) <= kSame * seconds) continue;
    seconds = point.step.seconds;
    out.insert(i);
  }
  for (const auto& each : {advice.verdict.pick, advice.verdict.alone})
    if (each && advice.points[*each].memory.fits) out.insert(*each);
  return out;
}

void require_own_machine(const Json& machine) {
  if (!is_measured(machine))
    throw Error(Code::unsupported, fmt::format("--verify: unsupported: what is run here says nothing of another machine; got {}, a datasheet, expected this machine's own profile: no --machine, after ddlbench probe "
                                               "compute and probe comm", machine.value("name", std::string("a profile"))));
  const auto environment = capture_environment();
  if (!same_machine(machine, environment))
    throw Error(Code::unsupported, fmt::format("--verify: unsupported: what is run here says nothing of another machine; got a profile of {}, here is {}, expected this machine's own", machine["cpu"].dump(),
                                               new_machine(environment)["cpu"].dump()));
}

std::vector<VerifiedPoint> verify_advice(const Advice& advice, int count, const Settings& settings, const Output& output, bool& interrupted) {
  std::vector<VerifiedPoint> out, refused;
  std::vector<Pending> pending;
  for (const auto i : to_verify(advice, count)) {
    try {
      auto experiment = resolve(settings_of(advice, advice.points[i], settings));
      experiment.name = fmt::format("{}, {} workers", in_words(advice.points[i].strategy, advice.points[i].keys), advice.points[i].workers);
      check_names(experiment);
      auto record = planned_record(experiment, "", "", 0);
      record["case"] = experiment.name;
      pending.push_back({std::move(experiment), std::move(record)});
      out.push_back({i, "not run", ""});
    } catch (const Error& error) {
      // What cannot be run here is one of several: the others still say something.
      refused.push_back({i, "failed", error.what()});
    }
  }
  if (pending.empty()) return refused;
  Recorder recorder(pending.front().experiment.store, output);
  const auto outcome = run_all(pending, recorder, output, nullptr);
  interrupted = outcome.exit == Exit::interrupted || outcome.exit == Exit::terminated;
  for (std::size_t i = 0; i < outcome.records.size(); ++i) {
    const auto& record = outcome.records[i];
    auto& own = out[i];
    own.state = record.at("state").get<std::string>();
    if (record.contains("reason") && record["reason"].is_string()) own.reason = record["reason"].get<std::string>();
    if (own.state != "ok") continue;
    const auto& step = record.at("step_ms");
    const double median = step.at("median").get<double>();
    // Where some of a step is not done in every one, what is predicted is of a whole round.
    const auto usual = record.at("prediction").value("measured_ms", Json());
    own.median = (usual.is_number() ? usual.get<double>() : median) * 1e-3;
    own.low = step.at("low").get<double>() / median * own.median;
    own.high = step.at("high").get<double>() / median * own.median;
    const auto& predicted = advice.points[own.number].step;
    own.error_pct = 100 * (predicted.seconds / own.median - 1);
    own.inside = own.median >= predicted.low && own.median <= predicted.high;
  }
  out.insert(out.end(), refused.begin(), refused.end());
  std::sort(out.begin(), out.end(), [](const VerifiedPoint& a, const VerifiedPoint& b) { return a.number < b.number; });
  return out;
}

Json verified_json(const Advice& advice, const std::vector<VerifiedPoint>& verified) {
  Json all = Json::array();
  for (const auto& each : verified) {
    const auto& point = advice.points[each.number];
    Json one{{"rank", point.rank}, {"workers", point.workers}, {"strategy", to_string(point.strategy)}, {"keys", point.keys}, {"state", each.state}, {"reason", each.reason.empty() ? Json() : Json(each.reason)},
             {"predicted_ms", {{"value", point.step.seconds * 1e3}, {"low", point.step.low * 1e3}, {"high", point.step.high * 1e3}}}};
    const bool ran = each.state == "ok";
    one["measured_ms"] = ran ? Json{{"median", each.median * 1e3}, {"low", each.low * 1e3}, {"high", each.high * 1e3}} : Json();
    one["error_pct"] = ran ? Json(each.error_pct) : Json();
    one["inside"] = ran ? Json(each.inside) : Json();
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace ddl
