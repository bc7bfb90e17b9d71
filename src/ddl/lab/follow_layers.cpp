#include "ddl/lab/follow_layers.h"

#include <algorithm>
#include <csignal>
#include <optional>
#include <string>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/lab/predict_job.h"
#include "ddl/lab/process_group.h"
#include "ddl/measure/clock.h"
#include "ddl/predict/machine.h"
#include "ddl/train/check_job.h"
#include "ddl/train/emulation/machine_costs.h"
#include "ddl/train/failure.h"
#include "ddl/train/job_passes.h"
#include "ddl/train/measure_layers.h"
#include "ddl/train/plan_job.h"

namespace ddl {
namespace {

/// For what should take a second or two.
constexpr Seconds kPatience{60};

int measure(const Job& job, const SampleShape& shape, Control& control) {
  try {
    const auto found = measure_job(job, shape);
    control.send(MessageType::result, Json{{"forward", found.forward}, {"backward", found.backward}, {"samples", found.samples}, {"sorts", found.sorts}, {"took", found.took}}.dump());
    return 0;
  } catch (const std::exception& error) {
    tell_failure(control, error, {});
    return 1;
  }
}

/// What the process found. Errors: io with what became of it.
Json measure_apart(const Job& job, const SampleShape& shape) {
  std::optional<Json> found;
  std::string failed;
  int signal = 0;
  {
    ProcessGroup group;
    group.start(0, [&](Control control) { return measure(job, shape, control); });
    const auto begin = now();
    while (group.running() > 0) {
      for (const auto& event : group.poll({0.1})) {
        if (event.kind == ProcessEvent::Kind::message && event.message.type == MessageType::result) found = parse_json(event.message.body, "what layers take");
        if (event.kind == ProcessEvent::Kind::message && event.message.type == MessageType::failed) failed = parse_json(event.message.body, "a failure").at("message");
        if (event.kind == ProcessEvent::Kind::exited && !found && failed.empty()) failed = describe_status(event.status);
        if (event.kind == ProcessEvent::Kind::signal) signal = event.status;
      }
      if (signal != 0 || seconds(now() - begin) > kPatience.value) {
        if (failed.empty()) failed = signal != 0 ? "interrupted" : fmt::format("not done after {}", to_string(kPatience));
        group.kill_all();
      }
    }
  }
  // For whoever runs the workers.
  if (signal != 0) ::raise(signal);
  if (!found) throw Error(Code::io, failed);
  return *found;
}

/// By the machine's own profile, as predictions have it: where layers of these sorts were measured here, with so many samples or fewer and more.
std::optional<Json> layers_of_profile(const Job& job, const ModelGraph& graph, const Json& environment) {
  const auto machine = measured_here(environment);
  const auto costs = job_costs(job_on(job, graph, machine), machine);
  const auto samples = largest_pass(job, plan_job(job, graph));
  // Layers that others of their family stand for are better measured.
  if (costs.measured == nullptr || costs.measured->beyond(0, graph, samples).sorts > 0) return std::nullopt;
  const auto layers = layer_seconds(*costs.source, 0, graph, samples);
  return Json{{"forward", layers.forward}, {"backward", layers.backward}, {"samples", samples}, {"sorts", 0}, {"took", 0.0}, {"from", default_machine_path()}};
}

/// As above; where the profile says nothing of it, or cannot be read, nothing.
std::optional<Json> found_in_profile(const Job& job, const ModelGraph& graph, Json& record) {
  try {
    return layers_of_profile(job, graph, record.at("environment").at("before"));
  } catch (const Error& error) {
    const auto message = fmt::format("machine profile not followed: {}", error.what());
    // Others that follow it may have told it.
    if (error.code() != Code::not_found && std::find(record["messages"].begin(), record["messages"].end(), message) == record["messages"].end()) record["messages"].push_back(message);
    return std::nullopt;
  }
}

Json layers_json(const ModelGraph& graph, const Json& found) {
  Json layers = Json::array();
  for (std::size_t layer = 0; layer < graph.layers.size(); ++layer)
    if (graph.layers[layer].kind != LayerKind::input)
      layers.push_back({{"name", graph.layers[layer].name},
                        {"forward_ms", found.at("forward")[layer].get<double>() * 1e3},
                        {"backward_ms", found.at("backward")[layer].get<double>() * 1e3}});
  return {{"samples", found.at("samples")}, {"sorts", found.at("sorts")}, {"took_s", found.at("took")}, {"from", found.at("from")}, {"layers", std::move(layers)}};
}

}  // namespace

void follow_profile(Job& job, const ModelGraph& graph) {
  auto found = profile_seconds(job, 0, graph, largest_pass(job, plan_job(job, graph)));
  job.forward_seconds = std::move(found.forward);
  job.backward_seconds = std::move(found.backward);
}

void follow_measured_layers(Experiment& experiment, const ModelGraph& graph, const SampleShape& shape, Json& record) {
  record["measured_layers"] = nullptr;
  auto& job = experiment.job;
  if (experiment.subject != "ddlbench" || !cuts_by_time(job)) return;
  if (job.workers.front().emulated()) {
    follow_profile(job, graph);
    check_plan(job, graph, plan_job(job, graph));
    record["measured_layers"] = layers_json(graph, Json{{"forward", job.forward_seconds}, {"backward", job.backward_seconds}, {"samples", largest_pass(job, plan_job(job, graph))}, {"sorts", 0}, {"took", 0.0}, {"from", job.workers.front().device}});
    return;
  }
  try {
    auto found = found_in_profile(job, graph, record);
    if (!found) {
      found = measure_apart(job, shape);
      (*found)["from"] = nullptr;
    }
    job.forward_seconds = found->at("forward").get<std::vector<double>>();
    job.backward_seconds = found->at("backward").get<std::vector<double>>();
    check_plan(job, graph, plan_job(job, graph));
    record["measured_layers"] = layers_json(graph, *found);
  } catch (const Error& error) {
    job.forward_seconds.clear();
    job.backward_seconds.clear();
    record["messages"].push_back(fmt::format("layers not measured, the network is cut by FLOPs: {}", error.what()));
  }
}

}  // namespace ddl
