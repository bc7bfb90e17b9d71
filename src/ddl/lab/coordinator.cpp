#include "ddl/lab/coordinator.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <map>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/lab/process_group.h"
#include "ddl/lab/signals.h"
#include "ddl/measure/memory.h"

namespace ddl {
namespace {

constexpr std::size_t kKeptLines = 20;
constexpr std::size_t kLinesInReason = 3;
/// How long the others may take to say what happened to them before the cause is picked among all.
constexpr Seconds kAftermath{0.3};
/// How long workers may take to end the step under way once asked.
constexpr Seconds kStopPatience{30};

/// One worker's bad end. Those that only lost a peer, or were interrupted, follow from another's.
struct Failure {
  int rank = 0;
  int weight = 0;  ///< 3: killed by a signal; 2: failed by itself; 1: lost a peer
  std::string text;
};

class Supervisor {
 public:
  Supervisor(Launch& launch, const Experiment& experiment, const RunEvents& events, Observed& observed)
      : launch_(launch), experiment_(experiment), events_(events), observed_(observed), ranks_(static_cast<int>(observed.done.size())) {}

  void run(const std::function<void()>& started);

 private:
  void handle(const ProcessEvent& event);
  void handle_message(const ProcessEvent& event);
  void handle_exit(const ProcessEvent& event);
  void stop(const std::string& state, const std::string& reason);
  void check_clock();
  void conclude();
  void fail_soon();

  Launch& launch_;
  const Experiment& experiment_;
  const RunEvents& events_;
  Observed& observed_;
  int ranks_;
  std::unique_ptr<Processes> processes_;
  std::map<int, std::deque<std::string>> lines_;
  std::map<int, std::string> said_;  ///< a rank's own word of its failure, and its code
  std::vector<Failure> failures_;
  Nanoseconds began_ = now();
  std::int64_t killed_before_ = processes_killed_for_memory();
  Nanoseconds kill_at_ = 0;  ///< once something went wrong
  bool stopping_ = false;
};

void Supervisor::run(const std::function<void()>& started) {
  processes_ = launch_.start();
  if (started) started();
  while (processes_->running() > 0) {
    for (const auto& event : processes_->poll({0.1})) handle(event);
    check_clock();
  }
  conclude();
}

void Supervisor::handle(const ProcessEvent& event) {
  switch (event.kind) {
    case ProcessEvent::Kind::signal:
      if (stopping_) {
        observed_.state = "interrupted";
        observed_.reason = fmt::format("killed by a second {} before the step under way was over", signal_name(event.status));
        processes_->kill_all();
      } else {
        stop("interrupted", fmt::format("interrupted by {}", signal_name(event.status)));
      }
      break;
    case ProcessEvent::Kind::exited: handle_exit(event); break;
    case ProcessEvent::Kind::line: {
      auto& kept = lines_[event.rank];
      if (event.is_error_line) {
        kept.push_back(event.line);
        if (kept.size() > kKeptLines) kept.pop_front();
        break;
      }
      [[fallthrough]];
    }
    case ProcessEvent::Kind::message: handle_message(event); break;
  }
}

void Supervisor::handle_message(const ProcessEvent& event) {
  if (event.kind == ProcessEvent::Kind::message && event.message.type == MessageType::failed) {
    const auto failure = Json::parse(event.message.body, nullptr, false);
    const auto code = failure.is_object() ? failure.value("code", std::string("corrupt")) : "corrupt";
    const auto message = failure.is_object() ? failure.value("message", std::string("no message")) : event.message.body;
    if (failure.is_object() && failure.contains("memory_bytes")) observed_.memory[static_cast<std::size_t>(event.rank)] = failure.at("memory_bytes");
    const bool follows = code == "peer_lost" || code == "interrupted" || code == "timeout";
    failures_.push_back({event.rank, follows ? 1 : 2, fmt::format("rank {}: {}", event.rank, message)});
    said_[event.rank] = code;
    fail_soon();
    return;
  }
  try {
    launch_.take(event, *processes_);
  } catch (const Error& error) {
    const bool its_own_word = error.code() == Code::peer_lost;
    failures_.push_back({event.rank, 2, fmt::format("rank {}{}: {}", event.rank, its_own_word ? "" : " said what cannot be understood", error.what())});
    said_[event.rank] = name(error.code());
    fail_soon();
  } catch (const nlohmann::json::exception& error) {
    failures_.push_back({event.rank, 2, fmt::format("rank {} said what cannot be understood: {}", event.rank, error.what())});
    said_[event.rank] = "corrupt";
    fail_soon();
  }
}

void Supervisor::handle_exit(const ProcessEvent& event) {
  const bool good = WIFEXITED(event.status) && WEXITSTATUS(event.status) == 0;
  const bool finished = !observed_.done[static_cast<std::size_t>(event.rank)].is_null();
  if (good && finished) return;
  if (said_.contains(event.rank)) {
    // It said why itself.
  } else if (kill_at_ != 0 && now() >= kill_at_ && WIFSIGNALED(event.status)) {
    return;  // we did that
  } else {
    if (WIFSIGNALED(event.status) && WTERMSIG(event.status) == SIGKILL && processes_killed_for_memory() > killed_before_) observed_.killed_for_memory = true;
    std::vector<std::string> last(lines_[event.rank].begin(), lines_[event.rank].end());
    if (last.size() > kLinesInReason) last.erase(last.begin(), last.end() - static_cast<std::ptrdiff_t>(kLinesInReason));
    failures_.push_back({event.rank, WIFSIGNALED(event.status) ? 3 : 2,
                         fmt::format("rank {} (process {}) ended by {} at step {}; its last lines: {}", event.rank,
                                     processes_->pid(event.rank), describe_status(event.status),
                                     observed_.book.steps(event.rank).size(),
                                     last.empty() ? "none" : join(last, " | "))});
  }
  fail_soon();
}

/// From the first sign of a failure the others have a moment to say what they saw; then they are killed.
void Supervisor::fail_soon() {
  if (kill_at_ == 0) kill_at_ = now() + static_cast<Nanoseconds>(kAftermath.value * 1e9);
}

void Supervisor::stop(const std::string& state, const std::string& reason) {
  stopping_ = true;
  observed_.state = state;
  observed_.reason = reason;
  if (launch_.ask_to_stop(*processes_)) {
    kill_at_ = now() + static_cast<Nanoseconds>(kStopPatience.value * 1e9);
  } else {
    kill_at_ = now();
  }
}

void Supervisor::check_clock() {
  const auto& limit = experiment_.job.timeout;
  if (!stopping_ && kill_at_ == 0 && limit.value > 0 && seconds(now() - began_) > limit.value)
    stop("timeout", fmt::format("the time limit of {} was reached", to_string(limit)));
  if (kill_at_ != 0 && now() >= kill_at_) processes_->kill_all();
}

void Supervisor::conclude() {
  for (int rank = 0; rank < ranks_; ++rank) observed_.pids[static_cast<std::size_t>(rank)] = processes_->pid(rank);
  for (const auto& [rank, lines] : lines_)
    for (const auto& line : lines) observed_.messages.push_back(fmt::format("rank {}: {}", rank, line));
  if (observed_.state != "ok" || failures_.empty()) return;
  const auto cause = std::max_element(failures_.begin(), failures_.end(), [](const Failure& a, const Failure& b) { return a.weight < b.weight; });
  observed_.state = "failed";
  observed_.reason = cause->text;
}

}  // namespace

void supervise(Launch& launch, const Experiment& experiment, const RunEvents& events, Observed& observed, const std::function<void()>& started) {
  Supervisor(launch, experiment, events, observed).run(started);
}

}  // namespace ddl
