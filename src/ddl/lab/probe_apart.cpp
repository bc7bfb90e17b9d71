#include "ddl/lab/probe_apart.h"

#include <exception>
#include <map>
#include <optional>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/lab/process_group.h"
#include "ddl/lab/signals.h"
#include "ddl/measure/clock.h"
#include "ddl/train/failure.h"

namespace ddl {
namespace {

int answer(Control& control, int rank, const std::function<Json(Control&, int)>& body) {
  try {
    control.send(MessageType::result, body(control, rank).dump());
    return 0;
  } catch (const std::exception& error) {
    tell_failure(control, error, {});
    return 1;
  }
}

class Collecting {
 public:
  Collecting(int ranks, FoundApart& found) : found_(found), answers_(static_cast<std::size_t>(ranks)) {}

  void take(const ProcessEvent& event, Processes& processes) {
    switch (event.kind) {
      case ProcessEvent::Kind::signal: found_.interrupted = true; break;
      case ProcessEvent::Kind::exited:
        if (!answers_[static_cast<std::size_t>(event.rank)]) fail(describe_status(event.status));
        break;
      case ProcessEvent::Kind::line: break;
      case ProcessEvent::Kind::message: message(event, processes); break;
    }
  }

  void fail(std::string why) {
    if (found_.failed.empty()) found_.failed = std::move(why);
  }
  bool is_over() const { return found_.interrupted || !found_.failed.empty(); }

  void give() {
    for (auto& each : answers_)
      if (each) found_.answers.push_back(std::move(*each));
  }

 private:
  void message(const ProcessEvent& event, Processes& processes) {
    const auto& [type, body] = event.message;
    if (type == MessageType::result) answers_[static_cast<std::size_t>(event.rank)] = parse_json(body, "what a probe found");
    if (type == MessageType::failed) fail(parse_json(body, "a failure").value("message", std::string("no reason")));
    if (type != MessageType::rendezvous) return;
    texts_[event.rank] = body;
    if (texts_.size() < answers_.size()) return;
    Json all = Json::array();
    for (const auto& [rank, text] : texts_) all.push_back(text);
    texts_.clear();
    for (int rank = 0; rank < static_cast<int>(answers_.size()); ++rank) processes.send(rank, MessageType::rendezvous, all.dump());
  }

  FoundApart& found_;
  std::vector<std::optional<Json>> answers_;
  std::map<int, std::string> texts_;
};

}  // namespace

FoundApart find_apart(int ranks, const std::function<Json(Control&, int rank)>& body, Seconds patience) {
  FoundApart found;
  if (SignalsHeld::noted() != 0) {
    found.interrupted = true;
    return found;
  }
  Collecting collecting(ranks, found);
  ProcessGroup group;
  for (int rank = 0; rank < ranks; ++rank) group.start(rank, [&, rank](Control control) { return answer(control, rank, body); });
  const auto begin = now();
  while (group.running() > 0) {
    for (const auto& event : group.poll({0.1})) collecting.take(event, group);
    if (seconds(now() - begin) > patience.value) collecting.fail(fmt::format("not done after {}", to_string(patience)));
    if (collecting.is_over()) group.kill_all();
  }
  collecting.give();
  return found;
}

}  // namespace ddl
