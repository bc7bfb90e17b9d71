#include "ddl/strategy/pipeline_tasks/messages.h"

#include <algorithm>
#include <utility>

#include <fmt/compile.h>
#include <fmt/format.h>

#include "ddl/core/at.h"
#include "ddl/strategy/tasks.h"

namespace ddl {

PipelineMessages::PipelineMessages(const PipelineLayout& layout)
    : layout_(layout), places_(2 * layout.crossings.size() * at(layout.pipeline.micro_batches)) {
  std::map<Way, std::uint32_t> numbers;
  std::pair<Way, std::uint32_t> last[2];  // in either direction: the next message mostly goes the same way
  for (auto& each : last) each.first = {-1, -1, false};
  for (const auto& actions : layout.pipeline.order.actions)
    for (const auto& action : actions)
      for (const auto& pass : layout.by_segment(action))
        for (const auto& message : made_by(pass)) {
          const Way way{sender(message), receiver(message), message.forward};
          auto& [known, number] = last[message.forward ? 1 : 0];
          if (known != way) {
            number = numbers.try_emplace(way, static_cast<std::uint32_t>(queues_.size())).first->second;
            known = way;
            queues_.resize(std::max(queues_.size(), std::size_t{number} + 1));
          }
          auto& queue = queues_[number];
          places_[index(message)] = {number, static_cast<std::uint32_t>(queue.size())};
          queue.push_back(message);
        }
}

std::size_t PipelineMessages::index(const StageMessage& message) const {
  return (2 * at(message.crossing) + (message.forward ? 1 : 0)) * at(layout_.pipeline.micro_batches) + at(message.micro_batch);
}

std::vector<StageMessage> PipelineMessages::needed_by(const Action& pass) const {
  return messages(pass, (is_forward(pass.pass) ? layout_.into : layout_.out_of)[at(pass.stage)]);
}

std::vector<StageMessage> PipelineMessages::made_by(const Action& pass) const {
  return messages(pass, (is_forward(pass.pass) ? layout_.out_of : layout_.into)[at(pass.stage)]);
}

std::vector<StageMessage> PipelineMessages::messages(const Action& pass, const std::vector<int>& crossings) const {
  const bool forward = is_forward(pass.pass);
  std::vector<StageMessage> all;
  if (!forward && !gives_input_gradient(pass.pass)) return all;
  for (const int number : crossings) {
    const auto& crossing = layout_.crossings[at(number)];
    if (crossing.is_message && (forward || crossing.returns)) all.push_back({number, pass.micro_batch, pass.ahead, forward});
  }
  return all;
}

const std::vector<StageMessage>& PipelineMessages::queue_of(const StageMessage& message) const { return queues_[places_[index(message)].queue]; }

std::size_t PipelineMessages::number_of(const StageMessage& message) const { return places_[index(message)].number; }

int PipelineMessages::holder(const StageMessage& message, bool beginning) const {
  const auto& crossing = layout_.crossings[at(message.crossing)];
  return layout_.place_of(beginning ? crossing.from : crossing.to, message.micro_batch);
}

Task PipelineMessages::task(TaskKind kind, const StageMessage& message) const {
  const auto& crossing = layout_.crossings[at(message.crossing)];
  const bool sends = kind == TaskKind::send;
  Task task;
  task.kind = kind;
  task.stream = Stream::communication;
  task.cargo = message.forward ? Cargo::activations : Cargo::activation_gradients;
  task.peer = sends ? receiver(message) : sender(message);
  task.stage = crossing.from;
  task.to_stage = crossing.to;
  task.micro_batch = message.micro_batch;
  task.ahead = message.ahead;
  task.bytes = message.forward ? crossing.bytes : crossing.gradient_bytes;
  task.label = fmt::format(FMT_COMPILE("{} {}{}>{} {}"), sends ? "send" : "receive", message.forward ? "" : "gradient ", message.forward ? crossing.from : crossing.to,
                           message.forward ? crossing.to : crossing.from, message.micro_batch);
  return task;
}

int Inbox::post(Role& role, const StageMessage& message, int after) const {
  auto task = messages_.task(TaskKind::receive, message);
  task.after = {after};
  return add(role, std::move(task));
}

int Inbox::receive(Role& role, const StageMessage& wanted, int after) {
  if (!in_order_) return post(role, wanted, after);
  auto& tasks = posted_[{messages_.sender(wanted), wanted.forward}];
  const auto& queue = messages_.queue_of(wanted);
  const auto number = messages_.number_of(wanted);
  while (tasks.size() <= number) tasks.push_back(post(role, queue[tasks.size()], after));
  return tasks[number];
}

}  // namespace ddl
