#include "ddl/predict/validate/validate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "ddl/core/error.h"
#include "ddl/core/spec.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/datasheet/machine_layout.h"
#include "ddl/predict/interval.h"

namespace ddl {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// In the unit of the row: seconds, or samples/s.
double in_unit(const MeasuredRow& row, double seconds) { return row.prints_rate() ? (row.global_batch > 0 ? row.global_batch : 1) / seconds : seconds; }

/// What somebody would choose a way for: the same network on the same devices, at the same batch.
std::string problem_of(const MeasuredRow& row) {
  std::string image;
  for (const auto size : row.image) image += fmt::format("{}x", size);
  return fmt::format("{} {} {} {} {}/{} {} {} {} {} on {} {}, {} a node by {} and {}, {} {}, batch {}", row.model, row.hidden, row.ffn, row.layers, row.heads, row.kv_heads, row.seq, row.vocab, row.untied, image, row.devices, row.device,
                     row.devices_per_node, row.link_intra, row.link_inter, row.precision, row.data, samples_of_step(row));
}

/// Whether a machine is laid out with so many devices a node.
bool tells_node(const std::string& device) {
  std::error_code ignored;
  return device.find('[') != std::string::npos && !std::filesystem::is_regular_file(device, ignored) && parse_spec(device).options.contains("devices_per_node");
}

Predicted predicted(const MeasuredRow& row, const Estimate& estimate, const std::string& problem) {
  const auto [low, high] = interval_of(estimate);
  Predicted out{in_unit(row, row.measured_seconds()), in_unit(row, estimate.seconds), in_unit(row, low), in_unit(row, high), row.prints_rate(), problem, row.global_batch > 0 ? row.global_batch : row.prints_rate() || samples_of_step(row) <= 0 ? 1.0 : samples_of_step(row)};
  if (row.prints_rate()) std::swap(out.low, out.high);
  return out;
}

/// Of values x_i for a constant of 1 and measured m_i, the factor with the least mean |k x_i - m_i| / m_i: a weighted median of m_i / x_i.
double least_error_factor(std::vector<std::pair<double, double>> times) {
  std::sort(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second / a.first < b.second / b.first; });
  double all = 0, until = 0;
  for (const auto& [one, measured] : times) all += one / measured;
  for (const auto& [one, measured] : times) {
    until += one / measured;
    if (until >= all / 2) return measured / one;
  }
  return 1;
}

void judge_baseline(Validation& out) {
  std::vector<std::pair<double, double>> times;
  std::vector<ValidatedRow*> known;
  for (auto& each : out.rows) {
    each.baseline = kUnknown;
    try {
      times.emplace_back(flops_of(each.row) / each.row.devices, each.row.measured_seconds());
      known.push_back(&each);
    } catch (const Error&) {
      // Its operations are not known: the baseline has one row less, which its count tells.
    }
  }
  if (times.empty()) {
    out.baseline = accuracy({});
    return;
  }
  // In the unit in which errors are told: of rates where the table has nothing else.
  const bool rates = std::all_of(known.begin(), known.end(), [](const ValidatedRow* each) { return each->row.prints_rate(); });
  auto values = times;
  if (rates)
    for (auto& [one, measured] : values) {
      one = 1 / one;
      measured = 1 / measured;
    }
  const double best = least_error_factor(values), factor = rates ? 1 / best : best;
  out.constant = 1 / factor;
  // How far off it may be is told by the other rows: of its own a row would be within by construction.
  double squares = 0;
  const auto error_of = [&](std::size_t i) { return std::log(times[i].second / (factor * times[i].first)); };
  for (std::size_t i = 0; i < times.size(); ++i) squares += error_of(i) * error_of(i);
  const auto sigma_of = [&](double sum, std::size_t rows) { return std::sqrt(std::max(0.0, sum) / static_cast<double>(rows)); };
  std::vector<Predicted> all;
  for (std::size_t i = 0; i < known.size(); ++i) {
    auto predicted = known[i]->predicted;
    const double seconds = factor * times[i].first;
    // One row alone has no others: no interval.
    const auto [low, high] = interval_of(seconds, times.size() > 1 ? sigma_of(squares - error_of(i) * error_of(i), times.size() - 1) : 0);
    predicted.value = known[i]->baseline = in_unit(known[i]->row, seconds);
    predicted.low = in_unit(known[i]->row, predicted.rate ? high : low);
    predicted.high = in_unit(known[i]->row, predicted.rate ? low : high);
    all.push_back(predicted);
  }
  out.baseline = accuracy(all);
  // As all rows have it; each row's own is by the others, of which one row alone has none.
  out.baseline.wide = interval_of(1, sigma_of(squares, times.size())).second;
  if (times.size() < 2) out.baseline.coverage = out.baseline.wide = kUnknown;
}

/// torchgpipe's benchmarks print what all devices together had (benchmarks/*-memory/main.py); and a peak that no one device of its kind has room for is of all of them, too.
double memory_as_measured(const Estimate& estimate, const MeasuredRow& row) {
  const bool tensors = row.memory_counts == "tensors";
  if (tensors || row.memory_stage > 0) {
    const auto& stages = tensors ? estimate.tensors_of_stages : estimate.memory_of_stages;
    if (stages.empty()) throw Error(Code::unsupported, fmt::format("{}; of {} memory is predicted as a whole alone", tensors ? "memory_counts is tensors" : "memory_stage is given", row.model));
    if (row.memory_stage > static_cast<int>(stages.size())) throw Error(Code::invalid_argument, fmt::format("memory_stage; got {}, expected at most pp, {}", row.memory_stage, stages.size()));
    return row.memory_stage > 0 ? stages[static_cast<std::size_t>(row.memory_stage - 1)] : *std::max_element(stages.begin(), stages.end());
  }
  const double room = term_or(machine_laid_out(row.device), "device.memory_bytes", 0);
  const bool of_all = row.stack.starts_with("torchgpipe") || (room > 0 && row.measured_memory_bytes > room);
  return of_all && estimate.memory_of_all_bytes > 0 ? estimate.memory_of_all_bytes : estimate.memory_bytes;
}

/// Whether a row's word for its device means the profile that is asked for, however that is laid out. A word that means none does not.
bool is_of(const std::string& word, const std::string& asked) {
  // A layout has a name of its own.
  const auto name = [](const std::string& called) { return machine_laid_out(called.substr(0, called.find('['))).value("name", ""); };
  try {
    return name(word) == name(asked);
  } catch (const Error&) {
    return false;
  }
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json to_json(const Accuracy& accuracy) {
  return {{"rows", accuracy.rows}, {"mape", number(accuracy.mape)}, {"max", number(accuracy.max)}, {"bias", number(accuracy.bias)}, {"tau", number(accuracy.tau)}, {"regret", number(accuracy.regret)},
          {"coverage", number(accuracy.coverage)}, {"interval_factor", number(accuracy.wide)}};
}

}  // namespace

Validation validate(const MeasuredTable& table, const std::string& device, bool shapes) {
  Validation out;
  out.skipped = table.unread;
  out.unknown = table.unknown;
  std::vector<Predicted> all, plain;
  bool noted = false;
  std::map<std::string, int> lines;  // by id
  for (auto row : table.rows) {
    bool of_another = false;
    // As it was measured, whatever it is predicted for.
    const auto problem = problem_of(row);
    if (!device.empty()) {
      // What one device of another kind did says nothing of this one.
      of_another = row.one_device_samples_per_s > 0 && !is_of(row.device, device);
      if (of_another) row.one_device_samples_per_s = 0;
      row.device = device;
      // Its own wires, too.
      row.link_intra.clear();
      row.link_inter.clear();
      if (tells_node(device)) row.devices_per_node = 0;
    }
    try {
      ValidatedRow one;
      one.estimate = estimate_row(row, shapes);
      if (of_another) one.estimate.notes.emplace_back("one_device_samples_per_s is of the row's own device, and left out");
      if (const auto [first, is_new] = lines.try_emplace(row.id, row.line); !is_new && !row.id.empty()) one.estimate.notes.push_back(fmt::format("id '{}' is that of line {}, too", row.id, first->second));
      // Of a row that is judged by memory alone nothing else says what was assumed of it.
      const bool timed = row.measured_seconds() > 0;
      if (row.measured_memory_bytes > 0 || row.oom)
        out.memory.push_back({row.line, row.id, row.measured_memory_bytes, memory_as_measured(one.estimate, row), row.oom, one.estimate.fits, one.estimate.notes, timed});
      if (row.oom) {
        ++out.oom_rows;
        out.oom_right += *row.oom == !one.estimate.fits;
      }
      if (row.measured_memory_bytes > 0 && one.estimate.memory_bytes > 0) {
        ++out.memory_rows;
        out.memory_mape += 100 * std::abs(out.memory.back().predicted / row.measured_memory_bytes - 1);
      }
      // What ran out of memory has no time, and whether it does may be all that a row says.
      if (!timed && (row.oom || row.measured_memory_bytes > 0)) continue;
      if (!timed) throw Error(Code::invalid_argument, "neither measured_ms nor measured_samples_per_s is given");
      one.predicted = predicted(row, one.estimate, problem);
      plain.push_back(one.estimate.noted_shape ? predicted(row, estimate_row(row, false), problem) : one.predicted);
      noted = noted || one.estimate.noted_shape;
      one.row = std::move(row);
      all.push_back(one.predicted);
      out.rows.push_back(std::move(one));
    } catch (const Error& error) {
      out.skipped.push_back({row.line, error.what()});
    }
  }
  if (out.memory_rows > 0) out.memory_mape /= out.memory_rows;
  std::sort(out.skipped.begin(), out.skipped.end(), [](const UnreadRow& a, const UnreadRow& b) { return a.line < b.line; });
  out.summary = accuracy(all);
  if (noted) out.without_shapes = accuracy(plain);
  judge_baseline(out);
  return out;
}

Json to_json(const Validation& validation) {
  Json rows = Json::array(), skipped = Json::array();
  for (const auto& [row, estimate, predicted, baseline] : validation.rows) {
    Json terms = Json::object();
    for (const auto& [name, seconds] : estimate.terms) terms[name] = seconds * 1e3;
    // Milliseconds, or samples/s.
    const double unit = predicted.rate ? 1 : 1e3;
    rows.push_back({{"line", row.line}, {"id", row.id}, {"unit", predicted.rate ? "samples/s" : "ms"}, {"measured", predicted.measured * unit}, {"predicted", predicted.value * unit}, {"low", predicted.low * unit},
                    {"high", predicted.high * unit}, {"error_pct", predicted.error_pct()}, {"baseline", number(baseline * unit)}, {"terms_ms", terms},
                    {"memory_bytes", estimate.memory_bytes > 0 ? Json(estimate.memory_bytes) : Json()}, {"fits", estimate.fits}, {"notes", estimate.notes}});
  }
  for (const auto& [line, reason] : validation.skipped) skipped.push_back({{"line", line}, {"reason", reason}});
  Json memory = Json::array();
  for (const auto& each : validation.memory)
    memory.push_back({{"line", each.line}, {"id", each.id}, {"measured_bytes", each.measured > 0 ? Json(each.measured) : Json()}, {"predicted_bytes", each.predicted}, {"oom", each.oom ? Json(*each.oom) : Json()}, {"fits", each.fits}, {"notes", each.notes}});
  auto summary = to_json(validation.summary), baseline = to_json(validation.baseline);
  summary["memory"] = {{"rows", validation.memory_rows}, {"mape", validation.memory_rows > 0 ? Json(validation.memory_mape) : Json()}, {"oom_rows", validation.oom_rows}, {"oom_right", validation.oom_right}};
  summary["without_shapes"] = validation.without_shapes ? to_json(*validation.without_shapes) : Json();
  baseline["flops_per_device"] = number(validation.constant);
  return {{"schema", "ddlbench.validate/1"}, {"rows", rows}, {"memory", memory}, {"skipped", skipped}, {"skipped_rows", skipped.size()}, {"unknown_columns", validation.unknown}, {"summary", summary}, {"baseline", baseline}};
}

}  // namespace ddl
