#include "ddl/report/words.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "ddl/core/text.h"
#include "ddl/report/format.h"
#include "ddl/report/traits.h"

namespace ddl {
namespace {

constexpr std::string_view kOurs = "ddlbench";
/// Causes below this share of a step are summed up in one clause.
constexpr double kWorthNaming = 0.01;
/// From this difference in waiting on, one worker is named as the one the others wait for.
constexpr double kWaitsForOne = 0.05;

/// Who trains, by which strategy where the group has several.
std::string who(const RunGroup& group, const RunView& run) {
  std::string words = capitalised(in_words(run.workers)) + (run.workers == 1 ? " worker" : " workers");
  if (group.several_strategies) words += " with strategy " + said(run, "strategy");
  return words + (run.workers > 1 && !run.transport.empty() ? " over " + run.transport : "");
}

/// What is trained, at which batch where there are several.
std::string what(const RunGroup& group, const RunView& run) {
  return run.model + (group.several_batches || group.other_batches ? " at batch " + run.batch : "");
}

std::string speed_clause(const RunGroup& group, const RunView& run) {
  const auto trains = fmt::format("{} train {}", who(group, run), what(group, run));
  const std::string ratio = in_times(*run.speedup);
  const auto one = run.baseline != nullptr && run.baseline->batch != run.batch ? "one at batch " + run.baseline->batch : "one";
  if (*run.speedup_low > 1) return fmt::format("{} {} as fast as {}", trains, ratio, one);
  if (*run.speedup_high < 1) return fmt::format("{} more slowly than {} ({} its speed)", trains, one, ratio);
  return fmt::format("{} no faster than {} ({}, within the noise)", trains, one, ratio);
}

std::string rate_clause(const RunGroup& group, const RunView& run) {
  return fmt::format("{} {} {} at {} samples/s", who(group, run), run.workers == 1 ? "trains" : "train", what(group, run), in_figures(run.throughput->median));
}

std::string_view in_a_step(Cause cause) {
  switch (cause) {
    case Cause::load: return "waiting for data";
    case Cause::copy: return "copying";
    case Cause::communication: return "exposed communication";
    case Cause::wait: return "waiting for the other workers";
    case Cause::bubble: return "the pipeline's bubble";
    case Cause::update: return "the update";
    case Cause::harness: return "ddlbench itself";
    default: return name(cause);
  }
}

std::string named(Cause cause, int workers) {
  return cause == Cause::wait && workers == 2 ? "waiting for the other worker" : std::string(in_a_step(cause));
}

std::string tenths(double share) { return fmt::format("{:.1f} %", 100 * share); }

/// Who the others wait for: the worker that itself waits least, where that stands out.
std::string late_worker(const RunView& run) {
  if (run.ranks.size() < 2) return "";
  const auto waits = [](const RankView& rank) {
    return rank.total_ms() > 0 ? rank[Cause::wait] / rank.total_ms() : 0.0;
  };
  const auto [least, most] = std::minmax_element(run.ranks.begin(), run.ranks.end(), [&](const auto& a, const auto& b) {
    return waits(a) < waits(b);
  });
  if (waits(*most) - waits(*least) < kWaitsForOne) return "";
  return fmt::format(" Rank {} waited for {} of its time and rank {} for {}: rank {} is the late one.", most->rank,
                     in_percent(waits(*most)), least->rank, in_percent(waits(*least)), least->rank);
}

std::string communication_sentence(const RunView& run) {
  if (run.workers < 2) return "";
  if (run.has_ledger() && !run.exposed_share()) return " Its communication is part of its backward and cannot be told apart.";
  const double exposed = run.mean_ms(Cause::communication), hidden = run.mean_overlapped_ms();
  if (exposed + hidden <= 0) return "";
  return fmt::format(" Communication was busy {} a step, {:.0f} % of it hidden behind compute.",
                     in_ms(exposed + hidden), 100 * hidden / (exposed + hidden));
}

}  // namespace

std::string finding(const RunGroup& group) {
  const RunView* best = group.best();
  if (!best || best->workers < 1) return "";
  std::string sentence = best->workers > 1 && best->speedup ? speed_clause(group, *best) : rate_clause(group, *best);
  if (best->workers > 1)
    if (const auto exposed = best->exposed_share())
      sentence += fmt::format("; {} of each step is exposed communication", in_percent(*exposed));
  if (best->subject != kOurs && !best->subject.empty()) sentence += " (" + best->subject + ")";
  return sentence + ".";
}

std::string failures(const std::vector<RunView>& views) {
  std::map<std::string, int> states;
  for (const auto& view : views)
    if (!view.ok()) ++states[view.state.empty() ? "of unknown state" : view.state];
  std::vector<std::string> parts;
  for (const auto& [state, count] : states) {
    const bool verb = state == "failed";
    parts.push_back(fmt::format("{} {}{}", in_words(count), verb ? "" : count == 1 ? "is " : "are ", state));
  }
  if (parts.empty()) return "";
  return fmt::format("Of {}, {}.", counted(static_cast<long long>(views.size()), "run"), enumerated(parts));
}

std::vector<StepShare> shares(const RunView& run) {
  const double wall = run.mean_wall_ms();
  std::vector<StepShare> all;
  if (!(wall > 0)) return all;
  // In thousandths: round all down, then give what is missing to those that lost most.
  std::vector<std::pair<double, std::size_t>> lost;
  double whole = 0, given = 0;
  for (std::size_t i = 0; i < kCauses; ++i) {
    const double exact = 1000 * run.mean_ms(static_cast<Cause>(i)) / wall;
    whole += exact;
    given += std::floor(exact);
    lost.emplace_back(exact - std::floor(exact), i);
    all.push_back({static_cast<Cause>(i), std::floor(exact)});
  }
  std::sort(lost.rbegin(), lost.rend());
  for (std::size_t k = 0; k < lost.size() && given + 0.5 < std::round(whole); ++k, ++given)
    all[lost[k].second].share += 1;
  for (auto& part : all) part.share /= 1000;
  std::stable_sort(all.begin(), all.end(), [](const StepShare& a, const StepShare& b) {
    if ((a.cause == Cause::residual) != (b.cause == Cause::residual)) return b.cause == Cause::residual;
    return a.share > b.share;
  });
  return all;
}

std::string where_time_went(const RunView& run) {
  if (!run.has_ledger()) {
    std::string why = "no ledger was recorded";
    if (!run.ok() && !run.state.empty()) why = run.state + (run.reason.empty() ? "" : ": " + run.reason);
    else if (!run.subject.empty() && run.subject != kOurs) why = run.subject + " does not record where its time goes";
    return fmt::format("{}: {}.", run.label, why);
  }
  std::vector<std::string> parts, small;
  double rest = 0, residual = 0;
  for (const auto& [cause, share] : shares(run)) {
    if (cause == Cause::residual) {
      residual = share;
    } else if (share >= kWorthNaming) {
      parts.push_back(fmt::format("{} {}{}", named(cause, run.workers), parts.empty() ? "took " : "", tenths(share)));
    } else if (share > 0) {
      rest += share;
      small.push_back(named(cause, run.workers));
    }
  }
  if (!small.empty())
    parts.push_back(fmt::format("{} {}{}", enumerated(small), tenths(rest), small.size() > 1 ? " together" : ""));
  return fmt::format("{}: of {} a step, {}; residual {}.{}{}", run.label, in_ms(run.mean_wall_ms()), join(parts, ", "),
                     tenths(residual), communication_sentence(run), late_worker(run));
}

std::string_view meaning(Cause cause) {
  switch (cause) {
    case Cause::load: return "blocked on the data loader";
    case Cause::copy: return "moving data: to the device, gradients into buckets";
    case Cause::forward: return "computing the loss";
    case Cause::backward: return "computing the gradients";
    case Cause::communication: return "compute stands still while bytes move";
    case Cause::wait: return "compute stands still because another worker is late";
    case Cause::bubble: return "the pipeline has no work for this stage";
    case Cause::update: return "the optimizer";
    case Cause::harness: return "ddlbench's own bookkeeping";
    case Cause::residual: return "what no measured span accounts for";
  }
  return "";
}

}  // namespace ddl
