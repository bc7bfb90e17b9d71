#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "ddl/lab/explain_run.h"

namespace ddl {
namespace {

/// What is lost by less than this is not named in the paragraph; tables have it.
constexpr double kWorthNaming = 0.01;

std::string listed(const std::vector<std::string>& parts) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) out += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return out;
}

std::string id_of(const RunExplanation& run) { return run.record.contains("id") && run.record["id"].is_string() ? run.record["id"].get<std::string>() : "of a file"; }

/// "forward 52 %, backward 31 %": where a worker's time goes, the largest first.
std::string where_it_goes(const Ledger& ledger) {
  std::vector<std::pair<double, std::string>> shares;
  for (std::size_t c = 0; c < kCauses; ++c)
    if (const double share = ledger.wall > 0 ? ledger.seconds[c] / ledger.wall : 0; share >= 0.02) shares.emplace_back(share, std::string(name(static_cast<Cause>(c))));
  std::sort(shares.rbegin(), shares.rend());
  std::vector<std::string> out;
  for (const auto& [share, cause] : shares) out.push_back(fmt::format("{} {:.0f} %", cause, 100 * share));
  return listed(out);
}

std::string of_one_worker(const RunExplanation& run) {
  return run.one_worker.empty() ? "as much of what its own steps say that one would take (no run of one worker was found to compare with)" : fmt::format("as run {} of one worker has it", run.one_worker);
}

/// A cause in words, with what cannot be told apart from it.
std::string called(const RunExplanation& run, LossCause cause) {
  const auto& not_known = run.loss->not_known;
  const bool lumped = cause == LossCause::compute && std::find(not_known.begin(), not_known.end(), LossCause::contention) != not_known.end();
  return std::string(words(cause)) + (lumped ? " (smaller parts, or cores and memory that workers share)" : "");
}

/// "9.1 to 9.4", of workers that step apart.
std::string steps_of(const LossReport& loss) {
  const auto [least, most] = std::minmax_element(loss.worker_steps.begin(), loss.worker_steps.end());
  const auto from = fmt::format("{:.4g}", *least * 1e3), to = fmt::format("{:.4g}", *most * 1e3);
  return from == to ? from : from + " to " + to;
}

std::string reached(const RunExplanation& run) {
  const auto& loss = *run.loss;
  const auto pace = loss.apart ? fmt::format("each steps by itself, in {} ms, so that a step's samples take {:.4g} ms", steps_of(loss), loss.measured * 1e3) : fmt::format("a step takes {:.4g} ms", loss.measured * 1e3);
  auto text = fmt::format("{} workers reach {:.2f}x: {}, and one worker's {:.4g} ms, {}.", loss.workers, loss.speedup, pace, loss.one.seconds() * 1e3, of_one_worker(run));
  std::vector<std::string> lost, won;
  for (const auto& part : loss.parts) {
    if (part.lost >= kWorthNaming) lost.push_back(fmt::format("{:.2f}x {}to {}", part.lost, lost.empty() ? "is lost " : "", called(run, part.cause)));
    if (part.lost <= -kWorthNaming) won.push_back(fmt::format("{:.2f}x on {}", -part.lost, called(run, part.cause)));
  }
  if (lost.empty()) text += " Nothing worth naming is lost.";
  else text += " " + listed(lost) + ".";
  if (!won.empty()) text += " Against that is won " + listed(won) + ".";
  const bool nothing = std::abs(loss.not_explained) < 0.005;
  text += fmt::format(" {:.2f}x is not explained.", nothing ? 0.0 : loss.not_explained);
  return text;
}

std::string straggler(const RunExplanation& run) {
  if (!run.straggler || run.loss->workers < 2) return "";
  const auto& found = *run.straggler;
  if (found.worker == kNone) return " No worker stands out as busy for longer than its peers.";
  return fmt::format(" The straggler is rank {}: it is busy {:.3g} ms (+- {:.2g}) a step longer than its peers, most of all in {} ({:.3g} ms).", found.worker, found.late * 1e3, found.error * 1e3, found.task, found.task_late * 1e3);
}

std::string first_thing(const RunExplanation& run) {
  const auto& loss = *run.loss;
  if (run.advice.empty()) return " Nothing that can be changed by an option would gain more than 2 %.";
  const auto gain = loss.workers > 1 ? fmt::format("{:.2f}x", run.advised.speedup_without) : fmt::format("{:.0f} % more speed", 100 * (run.advised.speedup_without / loss.speedup - 1));
  return fmt::format(" The first thing to try is {}: without {} the simulator has steps of {:.4g} ms in place of {:.4g}, {} at best.", run.advice, called(run, run.advised.cause), run.advised.step_without * 1e3, loss.simulated * 1e3, gain);
}

}  // namespace

std::string in_words(const RunExplanation& run) {
  const auto where = fmt::format("a step of run {} takes {:.4g} ms on the mean: {}.", id_of(run), run.ledger->wall * 1e3, where_it_goes(*run.ledger));
  if (!run.loss) return fmt::format("{} Why is not told: {}.", static_cast<char>(std::toupper(where.front())) + where.substr(1), run.no_loss);
  if (run.loss->workers == 1) return fmt::format("One worker loses nothing to others; {}{}", where, first_thing(run));
  return reached(run) + straggler(run) + first_thing(run);
}

}  // namespace ddl
