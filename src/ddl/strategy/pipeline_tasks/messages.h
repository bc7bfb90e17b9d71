#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "ddl/plan/plan.h"
#include "ddl/strategy/pipeline_tasks/layout.h"

namespace ddl {

/// What goes from one place to another: what a crossing has of one micro-batch, forward or, its gradient, back.
struct StageMessage {
  int crossing = 0;  ///< of PipelineLayout::crossings
  int micro_batch = 0;
  int ahead = 0;     ///< Action's
  bool forward = true;
};

/// The messages of a pipeline, and the order in which each place sends them to each other one.
class PipelineMessages {
 public:
  /// The layout outlives it.
  explicit PipelineMessages(const PipelineLayout& layout);

  /// What a pass of a segment needs of other places, and what it makes for them, by crossing.
  std::vector<StageMessage> needed_by(const Action& pass) const;
  std::vector<StageMessage> made_by(const Action& pass) const;

  /// All that goes the same way as a message and is of the same cargo, as it is sent.
  const std::vector<StageMessage>& queue_of(const StageMessage& message) const;
  /// A message's place in it.
  std::size_t number_of(const StageMessage& message) const;

  int sender(const StageMessage& message) const { return holder(message, message.forward); }
  int receiver(const StageMessage& message) const { return holder(message, !message.forward); }
  /// A send or a receive, after nothing yet.
  Task task(TaskKind kind, const StageMessage& message) const;

 private:
  using Way = std::tuple<int, int, bool>;  ///< from, to, forward
  struct Place {
    std::uint32_t queue = 0, number = 0;
  };

  /// Who has the message's micro-batch at the beginning of the crossing, or at its end.
  int holder(const StageMessage& message, bool beginning) const;
  std::vector<StageMessage> messages(const Action& pass, const std::vector<int>& crossings) const;
  std::size_t index(const StageMessage& message) const;

  const PipelineLayout& layout_;
  std::vector<std::vector<StageMessage>> queues_;
  std::vector<Place> places_;  ///< by index()
};

/// What one place receives: posted in the order in which it is sent, up to what is wanted.
class Inbox {
 public:
  /// Both outlive it. `in_order` is false for asynchronous orders, of which sender and receiver are at different places of one order in each step: then what is
  /// wanted is posted alone.
  Inbox(const PipelineMessages& messages, bool in_order) : messages_(messages), in_order_(in_order) {}

  /// Appends what is to be posted up to a message, after task `after`. Returns the message's own task.
  int receive(Role& role, const StageMessage& wanted, int after);

 private:
  int post(Role& role, const StageMessage& message, int after) const;

  const PipelineMessages& messages_;
  bool in_order_;
  std::map<std::pair<int, bool>, std::vector<int>> posted_;  ///< tasks, by sender and direction
};

}  // namespace ddl
