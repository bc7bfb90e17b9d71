#include <cmath>

#include <fmt/format.h>

#include "ddl/core/error.h"
#include "ddl/report/export.h"
#include "ddl/report/run_view.h"

namespace ddl {
namespace {

/// Quoted as RFC 4180 asks, where it must be.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

/// The shortest form that reads back as the same number.
std::string cell(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? fmt::format("{}", *value) : "";
}

}  // namespace

std::string export_csv(const Json& record) {
  std::string out = "run,rank,step,warmup,step_ms\n";
  const std::string id = cell(text_at(record, {"id"}));
  const double warm_up = number_at(record, {"samples", "warmup_steps"}).value_or(0);
  bool any = false;
  const auto add = [&](int rank, const std::vector<double>& samples) {
    for (std::size_t step = 0; step < samples.size(); ++step) {
      out += fmt::format("{},{},{},{},{}\n", id, rank, step, static_cast<double>(step) < warm_up ? 1 : 0,
                         cell(samples[step]));
      any = true;
    }
  };
  if (const auto* ranks = find_at(record, {"ranks"}); ranks && ranks->is_array())
    for (std::size_t place = 0; place < ranks->size(); ++place) {
      const auto& rank = (*ranks)[place];
      add(static_cast<int>(number_at(rank, {"rank"}).value_or(static_cast<double>(place))),
          numbers_at(rank, {"step_ms", "samples"}));
    }
  if (!any) add(0, numbers_at(record, {"step_ms", "samples"}));
  if (!any) throw Error(Code::not_found, fmt::format("[export] run {} holds no step times, which csv is made of", id));
  return out;
}

std::string export_csv_summary(const Json& record) {
  const std::vector<Json> one{record};
  const auto views = view_runs(one);
  if (views.empty()) throw Error(Code::invalid_argument, "[export] a run record must be a JSON object");
  const RunView& run = views.front();
  std::vector<std::pair<std::string, std::string>> fields{
      {"id", cell(run.id)},
      {"study", cell(run.study)},
      {"case", cell(run.name)},
      {"subject", cell(run.subject)},
      {"state", cell(run.state)},
      {"reason", cell(run.reason)},
      {"model", cell(run.model)},
      {"dataset", cell(run.dataset)},
      {"batch", cell(run.batch)},
      {"workers", run.workers > 0 ? std::to_string(run.workers) : ""},
      {"strategy", cell(text_at(record, {"config", "strategy"}))},
      {"precision", cell(text_at(record, {"config", "precision"}))},
      {"transport", cell(run.transport)},
      {"started", cell(run.started)},
      {"samples_per_s", cell(number_at(record, {"throughput", "median"}))},
      {"samples_per_s_low", cell(number_at(record, {"throughput", "low"}))},
      {"samples_per_s_high", cell(number_at(record, {"throughput", "high"}))},
      {"step_ms", cell(run.step_ms)},
      {"step_ms_p95", cell(number_at(record, {"step_ms", "p95"}))},
      {"step_ms_p99", cell(number_at(record, {"step_ms", "p99"}))},
      {"loss_final", cell(number_at(record, {"loss", "final"}))},
      {"accuracy_top1", cell(number_at(record, {"accuracy", "top1"}))},
      {"accuracy_top5", cell(number_at(record, {"accuracy", "top5"}))},
      {"accuracy_tokens", cell(number_at(record, {"accuracy", "tokens"}))},
      {"bleu", cell(run.bleu)},
      {"peak_memory_bytes", cell(run.peak_memory())},
      {"exposed_communication_share", cell(run.exposed_share())}};
  const bool known = run.has_ledger();
  for (std::size_t i = 0; i < kCauses; ++i) {
    const auto cause = static_cast<Cause>(i);
    fields.emplace_back(fmt::format("{}_ms", name(cause)), known ? cell(run.mean_ms(cause)) : "");
  }
  fields.emplace_back("overlapped_communication_ms", known ? cell(run.mean_overlapped_ms()) : "");

  std::string head, line;
  for (const auto& [key, value] : fields) {
    head += (head.empty() ? "" : ",") + key;
    line += (&key == &fields.front().first ? "" : ",") + value;
  }
  return head + "\n" + line + "\n";
}

}  // namespace ddl
