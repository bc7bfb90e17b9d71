#include "ddl/report/run_view.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>

#include "ddl/core/spec.h"
#include "ddl/report/escape.h"
#include "ddl/report/format.h"
#include "ddl/report/traits.h"

namespace ddl {
namespace {

/// `4`, `cpu:2`, `cpu[threads=1]:2,cuda:1`: the last number of each part, else 1.
int workers_of(const Json& config) {
  if (const auto number = number_at(config, {"workers"})) return static_cast<int>(*number);
  const std::string written = text_at(config, {"workers"});
  if (written.empty()) return 0;
  int total = 0;
  for (const auto& part : split_outside_brackets(written)) {
    const auto colon = part.rfind(':');
    const auto digits =
        part.find(']', colon == std::string::npos ? 0 : colon) == std::string::npos && colon != std::string::npos
            ? part.substr(colon + 1)
            : part;
    int count = 1;
    std::from_chars(digits.data(), digits.data() + digits.size(), count);
    total += count;
  }
  return total;
}

RankView rank_view(const Json& rank, int place) {
  RankView view;
  view.rank = static_cast<int>(number_at(rank, {"rank"}).value_or(place));
  view.device = text_at(rank, {"device"});
  view.peak_memory = number_at(rank, {"peak_memory_bytes"});
  view.wall_ms = number_at(rank, {"wall_ms"});
  view.overlapped_ms = number_at(rank, {"overlapped_communication_ms"});
  for (std::size_t i = 0; i < kCauses; ++i)
    view.ledger[i] = number_at(rank, {"ledger_ms", name(static_cast<Cause>(i))});
  return view;
}

std::optional<Interval> interval_at(const Json& record, std::string_view key) {
  const auto median = number_at(record, {key, "median"});
  if (!median) return std::nullopt;
  return Interval{*median, number_at(record, {key, "low"}).value_or(*median),
                  number_at(record, {key, "high"}).value_or(*median)};
}

std::string composed_name(const RunView& view) {
  std::string made = view.model.empty() ? "(no model)" : view.model;
  if (view.workers > 0) made += ", " + counted(view.workers, "worker");
  if (view.workers > 1 && !view.transport.empty()) made += ", " + view.transport;
  return made;
}

RunView view_run(const Json& record) {
  RunView view;
  view.record = &record;
  view.id = text_at(record, {"id"});
  view.state = text_at(record, {"state"});
  view.reason = text_at(record, {"reason"});
  view.subject = text_at(record, {"subject"});
  view.study = text_at(record, {"study"});
  view.started = text_at(record, {"started"});
  view.model = text_at(record, {"config", "model"});
  view.dataset = text_at(record, {"config", "dataset"});
  if (const auto* batch = find_at(record, {"config", "batch"})) view.batch = as_text(*batch);
  for (const auto* key : {"precision", "kernels", "synthetic", "train_samples", "loader"})
    if (const auto* value = find_at(record, {"config", key})) view.likeness += fmt::format("{}={} ", key, value->dump());
  // As it was, whatever was asked for: not every plan or device has them.
  if (const auto* ranks = find_at(record, {"ranks"}); ranks != nullptr && ranks->is_array() && std::any_of(ranks->begin(), ranks->end(), [](const Json& rank) { return number_at(rank, {"graphs", "steps"}).value_or(0) > 0; }))
    view.likeness += "graphs ";
  // Workers of other threads are other workers, however many there are.
  if (const auto* workers = find_at(record, {"config", "workers"}); workers != nullptr && workers->is_string()) {
    const auto& text = workers->get_ref<const std::string&>();
    const auto open = text.find('[');
    if (open != std::string::npos) view.likeness += text.substr(open, text.find(']', open) - open + 1);
  }
  // A peer moves its bytes over a wire of its own.
  if (view.subject.empty() || view.subject == "ddlbench") view.transport = text_at(record, {"config", "transport"});
  if (const auto* ranks = find_at(record, {"ranks"}); ranks && ranks->is_array())
    for (const auto& rank : *ranks) view.ranks.push_back(rank_view(rank, static_cast<int>(view.ranks.size())));
  view.workers = std::max(static_cast<int>(view.ranks.size()), workers_of(record.value("config", Json::object())));
  if (const auto samples = number_at(record, {"config", "batch"}); samples && view.workers > 0) view.batch_per_worker = *samples / view.workers;
  view.throughput = interval_at(record, "throughput");
  view.accuracy = number_at(record, {"accuracy", "top1"});
  if (!view.accuracy) view.accuracy = number_at(record, {"accuracy", "tokens"});
  view.bleu = number_at(record, {"accuracy", "bleu"});
  view.step_ms = number_at(record, {"step_ms", "median"});

  view.name = text_at(record, {"case"});
  if (view.name.empty()) view.name = composed_name(view);
  view.traits = traits_of(record, view.workers);
  return view;
}

}  // namespace

const Json* find_at(const Json& record, std::initializer_list<std::string_view> path) {
  const Json* at = &record;
  for (const auto key : path) {
    if (!at->is_object()) return nullptr;
    const auto found = at->find(key);
    if (found == at->end() || found->is_null()) return nullptr;
    at = &*found;
  }
  return at;
}

std::string text_at(const Json& record, std::initializer_list<std::string_view> path) {
  const Json* found = find_at(record, path);
  return found && found->is_string() ? found->get<std::string>() : "";
}

std::optional<double> number_at(const Json& record, std::initializer_list<std::string_view> path) {
  const Json* found = find_at(record, path);
  if (!found || !found->is_number()) return std::nullopt;
  const auto value = found->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::vector<double> numbers_at(const Json& record, std::initializer_list<std::string_view> path) {
  std::vector<double> numbers;
  const Json* found = find_at(record, path);
  if (!found || !found->is_array()) return numbers;
  for (const auto& value : *found)
    numbers.push_back(value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN());
  return numbers;
}

std::string as_text(const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

double RankView::total_ms() const {
  if (wall_ms) return *wall_ms;
  double sum = 0;
  for (const auto& part : ledger) sum += part.value_or(0);
  return sum;
}

bool RunView::has_ledger() const {
  return std::any_of(ranks.begin(), ranks.end(), [](const auto& rank) {
    return rank.total_ms() > 0 &&
           std::any_of(rank.ledger.begin(), rank.ledger.end(), [](auto& part) { return part.has_value(); });
  });
}

std::optional<double> RunView::exposed_share() const {
  if (!has_ledger()) return std::nullopt;
  // Other packages do not say what of their backward is communication.
  for (const auto& rank : ranks)
    if (!rank.ledger[static_cast<std::size_t>(Cause::communication)]) return std::nullopt;
  return (mean_ms(Cause::communication) + mean_ms(Cause::wait)) / mean_wall_ms();
}

std::optional<double> RunView::peak_memory() const {
  std::optional<double> most;
  for (const auto& rank : ranks)
    if (rank.peak_memory) most = std::max(most.value_or(0), *rank.peak_memory);
  return most;
}

double RunView::mean_ms(Cause cause) const {
  double sum = 0;
  for (const auto& rank : ranks) sum += rank[cause];
  return ranks.empty() ? 0 : sum / static_cast<double>(ranks.size());
}

double RunView::mean_wall_ms() const {
  double sum = 0;
  for (const auto& rank : ranks) sum += rank.total_ms();
  return ranks.empty() ? 0 : sum / static_cast<double>(ranks.size());
}

double RunView::mean_overlapped_ms() const {
  double sum = 0;
  for (const auto& rank : ranks) sum += rank.overlapped_ms.value_or(0);
  return ranks.empty() ? 0 : sum / static_cast<double>(ranks.size());
}

std::vector<RunView> view_runs(const std::vector<Json>& records) {
  std::vector<RunView> views;
  std::map<std::string, std::string> newest;
  for (const auto& record : records) {
    if (!record.is_object()) continue;
    views.push_back(view_run(record));
    auto& start = newest[views.back().study];
    start = std::max(start, views.back().started);
  }
  std::stable_sort(views.begin(), views.end(), [&](const RunView& a, const RunView& b) {
    if (a.study != b.study) return std::pair(newest[b.study], b.study) < std::pair(newest[a.study], a.study);
    return a.started < b.started;
  });
  label_runs(views);
  return views;
}

}  // namespace ddl
