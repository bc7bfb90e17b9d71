#include "ddl/lab/step_book.h"

#include <algorithm>

namespace ddl {
namespace {

constexpr std::size_t kRecentSteps = 20;

/// Of the communication stream's busy time, what does not coincide with the compute stream standing still for it.
double overlapped(const std::vector<Span>& spans, int worker) {
  double busy = 0, exposed = 0;
  for (const auto& span : spans) {
    if (span.worker != worker) continue;
    if (span.stream == Stream::communication) {
      busy += seconds(span.end - span.begin);
      for (const auto& other : spans)
        if (other.worker == worker && other.stream == Stream::compute && (other.cause == Cause::communication || other.cause == Cause::bubble))
          exposed += seconds(std::max<Nanoseconds>(0, std::min(span.end, other.end) - std::max(span.begin, other.begin)));
    }
  }
  return std::max(0.0, busy - exposed);
}

}  // namespace

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
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const auto& record = ranks_[r].steps[static_cast<std::size_t>(complete_)];
      ranks_[r].ledgers.push_back(fold(spans, static_cast<int>(r), record.begin, record.end));
      ranks_[r].overlapped.push_back(overlapped(spans, static_cast<int>(r)));
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

double StepBook::overlapped_communication(int rank, std::int64_t first) const {
  const auto& all = ranks_[static_cast<std::size_t>(rank)].overlapped;
  double sum = 0;
  for (auto step = static_cast<std::size_t>(first); step < all.size(); ++step) sum += all[step];
  return sum;
}

Json StepBook::trace(const std::vector<std::vector<std::string>>& names) const {
  Json list = Json::array();
  Nanoseconds start = 0;
  for (const auto& [step, spans] : kept_)
    for (const auto& span : spans) start = start == 0 ? span.begin : std::min(start, span.begin);
  for (const auto& [step, spans] : kept_)
    for (const auto& span : spans) {
      const auto rank = static_cast<std::size_t>(span.worker);
      const bool named = span.task >= 0 && rank < names.size() && static_cast<std::size_t>(span.task) < names[rank].size();
      list.push_back({{"rank", span.worker},
                      {"step", span.step},
                      {"task", span.task},
                      {"stream", name(span.stream)},
                      {"cause", name(span.cause)},
                      {"name", named ? names[rank][static_cast<std::size_t>(span.task)] : std::string(name(span.cause))},
                      {"begin_us", static_cast<double>(span.begin - start) * 1e-3},
                      {"end_us", static_cast<double>(span.end - start) * 1e-3}});
    }
  return list;
}

}  // namespace ddl
