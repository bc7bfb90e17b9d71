#include "ddl/predict/step/server_turns.h"

#include <algorithm>

namespace ddl {

bool steps_apart(const Plan& plan) { return plan.serving.servers > 0 && !plan.serving.sums; }

bool ServerTurns::may(const Turn& turn) const {
  return turn.push || stale_ == kNone || *std::min_element(pushed_.begin(), pushed_.end()) >= turn.step + 1 - stale_;
}

void ServerTurns::ask(const Turn& turn) { waiting_.push_back(turn); }

std::optional<ServerTurns::Turn> ServerTurns::next() {
  if (busy_) return std::nullopt;
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const Turn& turn) { return may(turn); });
  if (found == waiting_.end()) return std::nullopt;
  const auto turn = *found;
  waiting_.erase(found);
  busy_ = true;
  return turn;
}

void ServerTurns::over(const Turn& turn) {
  busy_ = false;
  if (turn.push) pushed_[static_cast<std::size_t>(turn.actor)] = turn.step + 1;
}

}  // namespace ddl
