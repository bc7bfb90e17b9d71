#include "ddl/lab/step_book.h"

#include <algorithm>

#include "ddl/plan/meetings.h"

namespace ddl {
namespace {

constexpr std::size_t kRecentSteps = 20;

/// A task's number means nothing to a span that another plan left: the first step's, before buckets were cut anew.
bool fits(const Task& task, Cause cause) {
  const bool waits = cause == Cause::communication || cause == Cause::bubble;
  return communicates(task) ? waits : cause_of(task.kind) == cause;
}

}  // namespace

Json span_json(const Plan& plan, const Span& span, Nanoseconds start) {
  const Task* task = nullptr;
  if (span.task >= 0 && span.worker >= 0 && span.worker < plan.workers()) {
    const auto& tasks = plan.role_of(span.worker).tasks;
    const auto number = static_cast<std::size_t>(span.task);
    if (number < tasks.size() && fits(tasks[number], span.cause)) task = &tasks[number];
  }
  Json entry{{"rank", span.worker},
             {"step", span.step},
             {"task", task != nullptr ? span.task : kNone},
             {"stream", name(span.stream)},
             {"cause", name(span.cause)},
             {"name", task != nullptr ? task->label : std::string(name(span.cause))},
             {"begin_us", static_cast<double>(span.begin - start) * 1e-3},
             {"end_us", static_cast<double>(span.end - start) * 1e-3}};
  if (span.meeting != 0) entry["meeting"] = span.meeting;
  return entry;
}

StepBook::StepBook(int ranks, TraceMode mode) : mode_(mode), ranks_(static_cast<std::size_t>(ranks)) {}

void StepBook::add(int rank, const std::vector<StepRecord>& steps, const std::vector<Span>& spans) {
  auto& own = ranks_[static_cast<std::size_t>(rank)];
  own.steps.insert(own.steps.end(), steps.begin(), steps.end());
  for (const auto& span : spans) open_[span.step].push_back(span);
  settle();
}

void StepBook::settle() {
  const auto told = [&](std::int64_t step) {
    return std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) { return static_cast<std::int64_t>(rank.steps.size()) > step; });
  };
  for (; told(complete_); ++complete_) {
    auto found = open_.find(complete_);
    auto spans = found == open_.end() ? std::vector<Span>{} : std::move(found->second);
    if (found != open_.end()) open_.erase(found);
    const Arrivals arrivals(spans);
    // Each rank's by itself: together they take time in proportion to the spans.
    std::vector<Trace> own(ranks_.size());
    for (const auto& span : spans)
      if (span.worker >= 0 && static_cast<std::size_t>(span.worker) < own.size()) own[static_cast<std::size_t>(span.worker)].push_back(span);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const auto& record = ranks_[r].steps[static_cast<std::size_t>(complete_)];
      const auto compute = flatten(own[r], static_cast<int>(r), record.begin, record.end, arrivals);
      ranks_[r].ledgers.push_back(fold(compute, record.begin, record.end));
      const auto moved = moving(own[r], static_cast<int>(r), record.begin, record.end, arrivals, compute);
      ranks_[r].activities.push_back(ddl::activity(compute, moved, record.begin, record.end));
    }
    if (mode_ == TraceMode::off) continue;
    kept_[complete_] = std::move(spans);
    if (mode_ == TraceMode::recent && kept_.size() > kRecentSteps) kept_.erase(kept_.begin());
  }
}

double StepBook::loss(std::int64_t step) const {
  double sum = 0;
  for (const auto& rank : ranks_) sum += rank.steps[static_cast<std::size_t>(step)].loss;
  return sum;
}

std::int64_t StepBook::samples(std::int64_t step) const {
  std::int64_t sum = 0;
  for (const auto& rank : ranks_) sum += rank.steps[static_cast<std::size_t>(step)].samples;
  return sum;
}

Ledger StepBook::ledger(int rank, std::int64_t first) const {
  const auto& ledgers = ranks_[static_cast<std::size_t>(rank)].ledgers;
  Ledger sum;
  for (auto step = static_cast<std::size_t>(first); step < ledgers.size(); ++step) sum += ledgers[step];
  return sum;
}

Activity StepBook::activity(int rank, std::int64_t first) const {
  const auto& all = ranks_[static_cast<std::size_t>(rank)].activities;
  Activity sum;
  for (auto step = static_cast<std::size_t>(first); step < all.size(); ++step) sum += all[step];
  return sum;
}

Nanoseconds StepBook::trace_start() const {
  if (kept_.empty()) return 0;
  const auto first = static_cast<std::size_t>(kept_.begin()->first);
  auto start = ranks_.front().steps[first].begin;
  for (const auto& rank : ranks_) start = std::min(start, rank.steps[first].begin);
  for (const auto& span : kept_.begin()->second) start = std::min(start, span.begin);
  return start;
}

Json StepBook::trace(const Plan& plan) const {
  Json list = Json::array();
  const auto start = trace_start();
  for (const auto& [step, spans] : kept_)
    for (const auto& span : spans) list.push_back(span_json(plan, span, start));
  return list;
}

Json StepBook::trace_steps() const {
  Json list = Json::array();
  const auto start = trace_start();
  for (const auto& [step, spans] : kept_)
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto& record = ranks_[rank].steps[static_cast<std::size_t>(step)];
      list.push_back({{"rank", rank},
                      {"step", step},
                      {"begin_us", static_cast<double>(record.begin - start) * 1e-3},
                      {"end_us", static_cast<double>(record.end - start) * 1e-3}});
    }
  return list;
}

}  // namespace ddl
