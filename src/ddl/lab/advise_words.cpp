#include "ddl/lab/advise_words.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ddl {
namespace {

std::string workers(int number) { return number == 1 ? "1 worker" : fmt::format("{} workers", number); }
std::string milliseconds(double seconds) { return fmt::format("{:.4g} ms", seconds * 1e3); }
std::string times(const AdvisedPoint& fast, const AdvisedPoint& slow) { return fmt::format("{:.3g} times as fast", slow.step.seconds / fast.step.seconds); }
/// " (1.7 to 2.1)": of times()
std::string range(const AdvisedPoint& fast, const AdvisedPoint& slow) {
  const auto [low, high] = times_as_fast(rated_of(fast), rated_of(slow));
  return fmt::format(" ({:.3g} to {:.3g})", low, high);
}
std::string called(const AdvisedPoint& point) { return fmt::format("{} with {}", in_words(point.strategy, point.keys), workers(point.workers)); }

}  // namespace

bool looked_at_several(const Advice& advice) {
  return std::any_of(advice.points.begin(), advice.points.end(), [](const AdvisedPoint& point) { return point.workers > 1; });
}

bool one_does_not_hold_it(const Advice& advice) {
  return std::any_of(advice.points.begin(), advice.points.end(), [](const AdvisedPoint& point) { return point.workers == 1 && !point.memory.fits; });
}

int plain_data(const Advice& advice) {
  int found = -1;
  for (std::size_t i = 0; i < advice.points.size(); ++i) {
    const auto& point = advice.points[i];
    if (is_plain(point, "data") && (found < 0 || point.workers > advice.points[static_cast<std::size_t>(found)].workers)) found = static_cast<int>(i);
  }
  return found;
}

std::string advice_words(const Advice& advice, std::int64_t batch) {
  const auto& verdict = advice.verdict;
  if (!verdict.pick) {
    const auto least = std::min_element(advice.points.begin(), advice.points.end(), [](const auto& a, const auto& b) { return a.step.most.total() < b.step.most.total(); });
    return fmt::format("Nothing that was looked at fits: the least a worker would hold is {}, of {} that there are ({}). A smaller batch or more workers hold less.",
                       to_string(Bytes{least->step.most.total()}), to_string(Bytes{static_cast<std::int64_t>(least->memory_bytes)}), called(*least));
  }
  const auto& pick = advice.points[*verdict.pick];
  const auto& best = advice.points[*verdict.best];
  std::string text;
  if (!looked_at_several(advice)) {
    const auto refused = std::find_if(advice.refused.begin(), advice.refused.end(), [](const auto& each) { return each.workers > 1; });
    const auto why = refused == advice.refused.end() ? std::string("no way of more than one was looked at (--workers says how many there are, --budget how long to look)")
                                                     : fmt::format("no way of more than one could be predicted: {}", refused->reason);
    text = fmt::format("Take {}: {} a step ({} to {}). Whether distributing is worth it is not known: {}.", called(pick), milliseconds(pick.step.seconds), milliseconds(pick.step.low), milliseconds(pick.step.high), why);
  } else if (!verdict.worth_it() && verdict.best_workers > 1)
    text = fmt::format("Distributing is not worth it: one worker takes {} a step ({} to {}), and the best of more, {}, takes {}: {}{}, which is no faster within what is known. Take {}.",
                       milliseconds(pick.step.seconds), milliseconds(pick.step.low), milliseconds(pick.step.high), called(best), milliseconds(best.step.seconds), times(best, pick), range(best, pick), in_words(pick.strategy, pick.keys));
  else if (!verdict.worth_it())
    text = fmt::format("Distributing is not worth it: nothing that was looked at is faster than one worker. Take {}: {} a step ({} to {}).", in_words(pick.strategy, pick.keys),
                       milliseconds(pick.step.seconds), milliseconds(pick.step.low), milliseconds(pick.step.high));
  else
    text = fmt::format("Take {}: {} a step ({} to {}), {:.4g} samples/s.", called(pick), milliseconds(pick.step.seconds), milliseconds(pick.step.low), milliseconds(pick.step.high),
                       static_cast<double>(batch) / pick.step.seconds);
  if (verdict.worth_it() && verdict.alone)
    text += fmt::format(" That is {} as one worker{}.", times(pick, advice.points[*verdict.alone]), range(pick, advice.points[*verdict.alone]));
  else if (verdict.worth_it())
    text += one_does_not_hold_it(advice) ? " One worker does not hold it." : " What one worker takes was not looked at.";
  if (!pick.memory.surely) text += fmt::format(" A worker is planned to hold {}; it may come to {}, more than the {} that there are for it.", to_string(Bytes{pick.step.most.total()}), to_string(Bytes{pick.memory.tight}), to_string(Bytes{pick.memory.room}));
  if (pick.differs == "lossy") text += " Its gradients are compressed: a step is shorter, training may take more of them.";
  else if (!pick.differs.empty()) text += " It trains something else than the gradient of the global batch: a step is shorter, training may take more of them.";
  if (verdict.worth_it() && verdict.best_workers > verdict.pick_workers)
    text += fmt::format(" More than {} are not worth it: {}, {}, is {}{}, which is no faster within what is known.", workers(pick.workers), called(best), milliseconds(best.step.seconds), times(best, pick), range(best, pick));
  if (const int plain = plain_data(advice); plain >= 0 && static_cast<std::size_t>(plain) != *verdict.pick) {
    const auto& other = advice.points[static_cast<std::size_t>(plain)];
    const double ratio = other.step.seconds / pick.step.seconds;
    text += !other.memory.fits ? fmt::format(" Plain {} does not fit: a worker would hold {}.", called(other), to_string(Bytes{other.step.most.total()}))
                        : fmt::format(" Plain {} takes {}, {}.", called(other), milliseconds(other.step.seconds),
                                      std::abs(ratio - 1) < 0.01 ? "as long" : ratio >= 1 ? fmt::format("{:.3g} times as long", ratio) : fmt::format("{:.0f} % of that", 100 * ratio));
  }
  if (const auto [loss, share] = largest_loss(pick.step.mean); share >= 0.005) text += fmt::format(" Its largest loss is {}, {:.0f} % of a worker's time.", loss, 100 * share);
  if (!verdict.ties.empty())
    text += fmt::format(" {} with as many workers {} as fast within what is known.", verdict.ties.size() == 1 ? "1 other way" : fmt::format("{} other ways", verdict.ties.size()), verdict.ties.size() == 1 ? "is" : "are");
  return text;
}

std::string verified_words(const Advice& advice, const std::vector<VerifiedPoint>& verified) {
  std::vector<std::pair<double, double>> measured;
  const VerifiedPoint* fastest = nullptr;
  double off = 0;
  std::size_t inside = 0;
  for (const auto& each : verified) {
    if (each.state != "ok") continue;
    measured.emplace_back(each.low, each.high);
    off += std::abs(each.error_pct);
    inside += each.inside;
    if (fastest == nullptr || each.median < fastest->median) fastest = &each;
  }
  const auto pick = std::find_if(verified.begin(), verified.end(), [&](const auto& each) { return advice.verdict.pick && each.number == *advice.verdict.pick; });
  const auto lost = pick == verified.end() || pick->state == "ok" ? std::string() : fmt::format("What is advised, {}, did not run to its end: {}. ", called(advice.points[pick->number]), pick->reason.empty() ? pick->state : pick->reason);
  if (fastest == nullptr) return verified.empty() ? "" : lost + "None of what was to be verified ran to its end.";
  const auto count = measured.size();
  auto text = lost + fmt::format("Measured: {} of {} in {} interval, off by {:.1f} % on the mean.", inside, count, count == 1 ? "its" : "their", off / static_cast<double>(count));
  if (count > 1) text += order_held(measured) ? " The order held." : " The order did not hold.";
  const auto& winner = advice.points[fastest->number];
  const auto first = std::find_if(verified.begin(), verified.end(), [](const auto& each) { return each.state == "ok"; });
  if (fastest->number != first->number && fastest->high < first->low)
    text += fmt::format(" Of these {} is the fastest: take that, {} a step ({} to {}).", called(winner), milliseconds(fastest->median), milliseconds(fastest->low), milliseconds(fastest->high));
  else if (count > 1)
    text += fmt::format(" {} is the fastest of these{}: {} a step.", called(winner), fastest->number == first->number ? "" : ", by less than their intervals tell apart", milliseconds(fastest->median));
  if (pick != verified.end() && lost.empty() && pick->number != fastest->number)
    text += fmt::format(" What is advised, {}, took {}, {:.3g} times as long.", called(advice.points[pick->number]), milliseconds(pick->median), pick->median / fastest->median);
  return text;
}

}  // namespace ddl
