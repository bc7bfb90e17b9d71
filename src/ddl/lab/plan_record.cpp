#include "ddl/lab/plan_record.h"

#include <algorithm>

#include "ddl/plan/meetings.h"
#include "ddl/train/memory_ledger.h"

namespace ddl {
namespace {

Json task_json(const Task& task) {
  Json json{{"name", task.label}, {"kind", name(task.kind)}};
  if (!task.after.empty()) json["after"] = task.after;
  if (task.kind == TaskKind::load) return json;
  json["stage"] = task.stage;
  const bool of_a_micro_batch = task.cargo == Cargo::activations || task.cargo == Cargo::activation_gradients || (!communicates(task) && task.kind != TaskKind::update);
  if (of_a_micro_batch) json["micro_batch"] = task.micro_batch;
  if (!communicates(task)) return json;
  json["cargo"] = name(task.cargo);
  json["bytes"] = task.bytes;
  if (is_transfer(task)) json["to_stage"] = task.to_stage;
  else json["goal"] = name(task.goal);
  return json;
}

std::string schedule_of(const Spec& strategy) {
  if (strategy.name == "model") return "gpipe";  // what model_parallel() orders its micro-batches by
  const auto told = strategy.options.find("schedule");
  return told == strategy.options.end() ? "1f1b" : told->second;
}

/// null of a strategy that has no pipeline, and of stages that several workers share.
Json bubble_json(const Spec& strategy, const Plan& plan, const PassSeconds& passes) {
  if ((strategy.name != "pipeline" && strategy.name != "model") || plan.mesh.size("pipeline") < 2) return nullptr;
  const auto word = schedule_of(strategy);
  const auto schedules = builtin_pipeline_schedules();
  PipelineShape shape{plan.mesh.size("pipeline")};
  shape.micro_batches = plan.micro_batches;
  shape.chunks = static_cast<int>(plan.stages.size()) / shape.workers;
  if (shape.chunks * shape.workers != static_cast<int>(plan.stages.size())) return nullptr;
  const auto bubble = schedules.at(word).make.bubble(shape, passes);
  return {{"schedule", word}, {"workers", shape.workers}, {"chunks", shape.chunks}, {"ideal", bubble.fraction}, {"exact", bubble.exact}};
}

}  // namespace

Json stages_json(const ModelGraph& graph, const Plan& plan) {
  // Those of split networks are of other layers, those of threads of one process the loss besides.
  if (plan.stages.size() < 2 || !plan.split.empty() || plan.in_process) return nullptr;
  Json stages = Json::array();
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    int layers = 0;
    for (int layer = plan.stages[stage].first; layer < plan.stages[stage].last; ++layer) layers += graph.layers[static_cast<std::size_t>(layer)].kind == LayerKind::input ? 0 : 1;
    Json ranks = Json::array();
    for (const auto& role : plan.roles)
      if (std::find(role.stages.begin(), role.stages.end(), static_cast<int>(stage)) != role.stages.end())
        for (int rank = role.first; rank < role.first + role.count; ++rank) ranks.push_back(rank);
    stages.push_back({{"layers", layers}, {"first", graph.layers[static_cast<std::size_t>(plan.stages[stage].first)].name}, {"ranks", std::move(ranks)}});
  }
  return stages;
}

PassSeconds mean_passes(const StepBook& book) {
  PassSeconds passes{0, 0, 0};
  for (int rank = 0; rank < book.ranks(); ++rank) {
    const auto ledger = book.ledger(rank, 0);
    passes.forward += ledger[Cause::forward];
    passes.backward_input += ledger[Cause::backward] / 2;
    passes.backward_weight += ledger[Cause::backward] / 2;
  }
  return passes.forward > 0 && passes.backward_input > 0 ? passes : PassSeconds{};
}

Json plan_json(const Spec& strategy, const Plan& plan, const PassSeconds& passes) {
  Json roles = Json::array();
  for (const auto& role : plan.roles) {
    Json tasks = Json::array();
    for (const auto& task : role.tasks) {
      tasks.push_back(task_json(task));
      if (task.kind == TaskKind::collective) tasks.back()["group"] = plan.groups[static_cast<std::size_t>(task.group)].name;
    }
    roles.push_back({{"name", role.name}, {"first", role.first}, {"count", role.count}, {"holds", to_json(role.holds)}, {"tasks", std::move(tasks)}});
  }
  return {{"strategy", strategy.name},
          {"stages", plan.stages.size()},
          {"micro_batches", plan.micro_batches},
          {"bubble", bubble_json(strategy, plan, passes)},
          {"roles", std::move(roles)}};
}

}  // namespace ddl
