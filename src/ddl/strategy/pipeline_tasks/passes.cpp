#include "ddl/strategy/pipeline_tasks/passes.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include "ddl/core/at.h"
#include "ddl/strategy/split_parts.h"
#include "ddl/strategy/stages.h"
#include "ddl/strategy/tasks.h"

namespace ddl {
namespace {

TaskKind kind_of(Pass pass) {
  switch (pass) {
    case Pass::forward: return TaskKind::forward;
    case Pass::backward: return TaskKind::backward;
    case Pass::backward_input: return TaskKind::backward_input;
    case Pass::backward_weight: break;
  }
  return TaskKind::backward_weight;
}

}  // namespace

PassWriter::PassWriter(const PipelineLayout& layout, const PipelineMessages& messages, const PipelineGroups& groups, Role& role)
    : layout_(layout), messages_(messages), groups_(groups), role_(role), inbox_(messages, !layout.pipeline.asynchronous()) {}

void PassWriter::write(const Action& action) {
  for (const auto& pass : layout_.by_segment(action)) write_segment(pass);
}

void PassWriter::write_segment(const Action& pass) {
  auto task = computation(pass);
  for (const auto& message : messages_.needed_by(pass)) task.after.push_back(inbox_.receive(role_, message, before_last_));
  if (is_forward(pass.pass)) {
    auto before = task.after;
    before.push_back(last_);
    if (const int given = exchange(pass, std::move(before)); given != kNone) task.after.push_back(given);
  } else {
    for (const int crossing : layout_.out_of[at(pass.stage)])
      if (const auto found = returned_.find({layout_.crossings[at(crossing)].to, pass.micro_batch}); found != returned_.end()) task.after.push_back(found->second);
  }
  task.after.push_back(last_);
  before_last_ = std::exchange(last_, add(role_, std::move(task)));
  if (pass.pass != Pass::backward_weight) last_for_others_ = last_;

  int made = last_;
  const bool gives_back = gives_input_gradient(pass.pass) && layout_.gives_back(pass.stage);
  if (const int given = gives_back ? exchange(pass, {last_}) : kNone; given != kNone) made = returned_[{pass.stage, pass.micro_batch}] = given;
  for (const auto& message : messages_.made_by(pass)) {
    auto send = messages_.task(TaskKind::send, message);
    send.after = {made};
    add(role_, std::move(send));
  }
}

Task PassWriter::computation(const Action& pass) const {
  Task task;
  task.kind = kind_of(pass.pass);
  task.label = fmt::format(FMT_COMPILE("{} {} {}"), name(task.kind), pass.stage, pass.micro_batch);
  task.stage = pass.stage;
  task.micro_batch = pass.micro_batch;
  task.ahead = pass.ahead;
  task.recompute = layout_.pipeline.recomputes(pass.micro_batch);
  task.flops = flops(pass);
  return task;
}

double PassWriter::flops(const Action& pass) const {
  // One product for the gradient of the input, one for that of the weights. Where nothing that the stage was given learns its backward is of weights
  // alone, however it is divided; what is run again is run in the first part that there is.
  const bool learns = layout_.gives_back(pass.stage);
  const bool forward = is_forward(pass.pass), divided = pass.pass == Pass::backward_input || pass.pass == Pass::backward_weight;
  const bool idle = pass.pass == Pass::backward_input && !learns;
  const bool again = layout_.pipeline.recomputes(pass.micro_batch) && !forward && !idle && (pass.pass != Pass::backward_weight || !learns);
  const int products = idle ? 0 : forward || (divided && learns) ? 1 : 2;
  const auto once = static_cast<double>(flops_of(layout_.input.graph, layout_.segments[at(pass.stage)])) * static_cast<double>(layout_.samples);
  return once * (products + (again ? 1 : 0));
}

int PassWriter::exchange(const Action& pass, std::vector<int> after) {
  const bool forward = is_forward(pass.pass);
  const int first = layout_.segments[at(pass.stage)].first;
  const auto& layer = layout_.input.graph.layers[at(first)];
  if (!communicates(layer)) return kNone;
  const auto& how = *layer.exchange;
  const auto move = forward ? how.forward : how.backward;
  if (!communicates(move)) return kNone;
  auto task = collective(goal_of(move), forward ? Cargo::activations : Cargo::activation_gradients, groups_.parts(how.axis),
                         fmt::format("exchange {}{} {}", forward ? "" : "gradient ", pass.stage, pass.micro_batch));
  task.stage = pass.stage;
  task.layer = first;
  task.micro_batch = pass.micro_batch;
  task.bytes = move_buffer(how, forward).elements() * (how.per_batch ? 1 : layout_.samples) * layout_.value_bytes[at(first)];
  task.after = std::move(after);
  return add(role_, std::move(task));
}

}  // namespace ddl
