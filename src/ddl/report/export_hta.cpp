// For Holistic Trace Analysis (github.com/facebookresearch/HolisticTraceAnalysis, 0.5), which reads what PyTorch's profiler leaves of GPUs: a file
// per rank, kernels on streams. It knows kinds of kernels by their names alone (hta/utils/utils.py): communication is what matches `nccl.*Kernel`,
// memory `Memcpy`, `Memset` and `dma`, and all else computation. docs/traces.md says which of our causes becomes what.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "ddl/core/error.h"
#include "ddl/report/escape.h"
#include "ddl/report/export.h"
#include "ddl/report/run_view.h"
#include "ddl/report/trace_view.h"

namespace ddl {
namespace {

enum : int { kComputeStream = 7, kCommunicationStream = 20 };  // as CUDA numbers its default stream, and PyTorch NCCL's

double microseconds(Nanoseconds time) { return static_cast<double>(time) * 1e-3; }

/// One event a line: a person can read it, and HTA looks for the rank line by line.
class File {
 public:
  File(const Json& record, int rank, int ranks)
      : text_(fmt::format("{{\"schemaVersion\": 1,\n\"distributedInfo\": {{\"backend\": \"ddlbench\", \"rank\": {}, \"world_size\": {}}},\n\"run\": {},\n\"traceEvents\": [", rank,
                          ranks, json_text(text_at(record, {"id"})))) {}

  void kernel(const std::string& name, const char* category, int stream, Period period, int step) {
    const Json event{{"ph", "X"}, {"cat", category}, {"name", name}, {"pid", 0}, {"tid", stream}, {"ts", microseconds(period.begin)},
                     {"dur", microseconds(period.end) - microseconds(period.begin)}, {"args", {{"stream", stream}, {"step", step}}}};
    text_ += fmt::format("{}\n{}", any_ ? "," : "", json_text(event));
    any_ = true;
  }

  std::string take() { return std::move(text_) + "\n]}\n"; }

 private:
  std::string text_;
  bool any_ = false;
};

/// Kernels of a stream do not nest: the compute stream is flattened, and cut at arrivals, exactly as the ledger does it.
void add_step(File& file, const std::vector<const TracedSpan*>& own, const Arrivals& arrivals, int rank, int step, const Period& period) {
  Trace spans;
  std::map<int, std::string> names;
  for (const auto* each : own) {
    spans.push_back(each->span);
    if (each->span.task >= 0) names[each->span.task] = each->name;
  }
  const auto called = [&](const Span& span) {
    const auto found = names.find(span.task);
    return found == names.end() ? std::string(name(span.cause)) : found->second;
  };
  for (const auto& piece : flatten(spans, rank, period.begin, period.end, arrivals)) {
    const Period when{piece.begin, piece.end};
    if (computes(piece.cause)) file.kernel(called(piece), "kernel", kComputeStream, when, step);
    if (piece.cause == Cause::copy) file.kernel("Memcpy " + called(piece), "gpu_memcpy", kComputeStream, when, step);
    if (piece.cause == Cause::communication) file.kernel("ncclKernel wait for " + called(piece), "kernel", kComputeStream, when, step);
  }
  for (const auto& span : spans) {
    if (span.stream != Stream::communication) continue;
    const Period when{std::max({span.begin, period.begin, arrivals.of(span).value_or(period.begin)}), std::min(span.end, period.end)};
    if (when.begin < when.end) file.kernel("ncclKernel " + called(span), "kernel", kCommunicationStream, when, step);
  }
}

}  // namespace

std::vector<ExportedFile> export_hta(const Json& record) {
  const auto view = view_trace(record);
  if (view.empty()) throw no_trace(record, "hta");
  const auto ranks = view.ranks();
  // What the ledger leaves out as warm-up is left out, unless there is nothing else.
  const double warm_up = number_at(record, {"samples", "warmup_steps"}).value_or(0);
  const bool measured = std::any_of(view.steps.begin(), view.steps.end(), [&](const auto& step) { return step.first.first >= warm_up; });
  std::map<int, Trace> by_step;
  std::map<std::pair<int, int>, std::vector<const TracedSpan*>> own;
  for (const auto& each : view.spans) {
    by_step[each.span.step].push_back(each.span);
    own[{each.span.step, each.span.worker}].push_back(&each);
  }
  std::map<int, Arrivals> arrivals;
  for (const auto& [step, spans] : by_step) arrivals.emplace(step, Arrivals(spans));

  std::vector<ExportedFile> files;
  for (const int rank : ranks) {
    File file(record, rank, static_cast<int>(ranks.size()));
    std::optional<Period> window;
    int last = 0;
    for (const auto& [key, period] : view.steps) {
      const auto [step, whose] = key;
      if (whose != rank || (measured && step < warm_up) || !by_step.contains(step)) continue;
      // HTA's time is that from its first kernel to its last: a memset of no length at either end makes it that of whole steps.
      if (!window) file.kernel("Memset of no length: steps begin", "gpu_memset", kComputeStream, {period.begin, period.begin}, step);
      window = window ? Period{window->begin, std::max(window->end, period.end)} : period;
      last = step;
      add_step(file, own[key], arrivals.at(step), rank, step, period);
    }
    if (window) file.kernel("Memset of no length: steps end", "gpu_memset", kComputeStream, {window->end, window->end}, last);
    files.push_back({fmt::format("rank{}.json", rank), file.take()});
  }
  return files;
}

}  // namespace ddl
