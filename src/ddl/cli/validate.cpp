#include <cmath>
#include <map>

#include "ddl/cli/command.h"
#include "ddl/core/text.h"
#include "ddl/core/units.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/validate/validate.h"

namespace ddl {
namespace {

struct ValidateOptions {
  Output output;
  std::string table, machine;
  int worst = 10;
  bool formulae = false;
};

std::string figure(double value, const char* format = "{:.1f}") { return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : "-"; }

std::vector<std::string> line(const std::string& name, const Accuracy& a) {
  return {name, std::to_string(a.rows), figure(a.mape) + " %", figure(a.max) + " %", figure(a.bias, "{:+.1f}") + " %", figure(a.tau, "{:.3f}"), figure(a.regret) + (std::isfinite(a.regret) ? " %" : ""),
          std::isfinite(a.coverage) ? fmt::format("{:.0f} %", 100 * a.coverage) : "-", std::isfinite(a.coverage) && std::isfinite(a.wide) ? fmt::format("{:.2f}", a.wide) : "-"};
}

std::string worst_rows(const Validation& found, int most) {
  std::vector<const ValidatedRow*> all;
  for (const auto& each : found.rows) all.push_back(&each);
  std::stable_sort(all.begin(), all.end(), [](const auto* a, const auto* b) { return std::abs(a->predicted.error_pct()) > std::abs(b->predicted.error_pct()); });
  std::vector<std::vector<std::string>> rows{{"line", "row", "measured", "predicted", "90 %", "error", "most of it"}};
  for (std::size_t i = 0; i < all.size() && static_cast<int>(i) < most; ++i) {
    const auto& [row, estimate, predicted, baseline] = *all[i];
    const double unit = predicted.rate ? 1 : 1e3;
    const auto largest = std::max_element(estimate.terms.begin(), estimate.terms.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    rows.push_back({std::to_string(row.line), row.id.empty() ? row.model : row.id, fmt::format("{:.5g} {}", predicted.measured * unit, predicted.rate ? "/s" : "ms"), fmt::format("{:.5g}", predicted.value * unit),
                    fmt::format("{:.5g} to {:.5g}", predicted.low * unit, predicted.high * unit), fmt::format("{:+.1f} %", predicted.error_pct()),
                    largest == estimate.terms.end() ? "-" : fmt::format("{} {:.0f} %", largest->first, 100 * largest->second / estimate.seconds)});
  }
  return columns(rows);
}

std::vector<std::string> ids_taken_for_too_large(const Validation& found) {
  std::vector<std::string> ids;
  for (const auto& each : found.rows)
    if (!each.estimate.fits) ids.push_back(each.row.id.empty() ? fmt::format("line {}", each.row.line) : each.row.id);
  return ids;
}

std::string first_few(std::vector<std::string> words) {
  constexpr std::size_t kMost = 5;
  const auto more = words.size() > kMost ? words.size() - kMost : 0;
  words.resize(words.size() - more);
  return join(words, ", ") + (more > 0 ? fmt::format(" and {} more", more) : "");
}

std::string memory_rows(const Validation& found) {
  std::vector<std::vector<std::string>> rows{{"line", "row", "memory measured", "predicted", "error", "out of memory", "predicted"}};
  for (const auto& each : found.memory)
    rows.push_back({std::to_string(each.line), each.id.empty() ? "-" : each.id, each.measured > 0 ? to_string(Bytes{static_cast<std::int64_t>(each.measured)}) : "-", to_string(Bytes{static_cast<std::int64_t>(each.predicted)}),
                    each.measured > 0 ? fmt::format("{:+.1f} %", 100 * (each.predicted / each.measured - 1)) : "-", each.oom ? (*each.oom ? "yes" : "no") : "-", each.fits ? "no" : "yes"});
  return columns(rows);
}

Exit act(const ValidateOptions& options) {
  const auto found = validate(read_table(find_table(options.table)), options.machine, !options.formulae);
  if (options.output.json) {
    options.output.document(to_json(found));
  } else {
    if (options.worst > 0 && !found.rows.empty()) {
      const auto all = found.rows.size();
      if (static_cast<std::size_t>(options.worst) < all) options.output.data(fmt::format("{} of {} rows, furthest off first (--worst {} shows all):\n", options.worst, all, all));
      options.output.data(worst_rows(found, options.worst) + "\n");
    }
    if (!found.rows.empty()) {  // rows of memory alone have no time
      std::vector<std::vector<std::string>> lines{{"", "rows", "MAPE", "max", "bias", "tau", "regret", "in interval", "interval factor"}, line("predicted", found.summary)};
      if (found.without_shapes) lines.push_back(line("by formulae alone", *found.without_shapes));
      lines.push_back(line("FLOPs / constant", found.baseline));
      options.output.data(columns(lines));
    }
    if (options.worst > 0 && !found.memory.empty()) options.output.data((found.rows.empty() ? "" : "\n") + memory_rows(found) + "\n");
    if (found.memory_rows > 0) options.output.data(fmt::format("memory: {} rows, MAPE {:.1f} %\n", found.memory_rows, found.memory_mape));
    if (found.oom_rows > 0) options.output.data(fmt::format("out of memory or not: {} of {} right\n", found.oom_right, found.oom_rows));
    // Whatever was timed had room.
    if (const auto too_large = ids_taken_for_too_large(found); !too_large.empty())
      options.output.data(fmt::format("{} of {} rows taken for larger than the memory of their devices, on which they ran: {}\n", too_large.size(), found.rows.size(), first_few(too_large)));
  }
  if (!found.unknown.empty()) {
    std::string meant;
    for (const auto& column : found.unknown) meant += did_you_mean(column, table_columns());
    print_error(fmt::format("{}: columns that mean nothing here and are left out: {}{}", options.table, join(found.unknown, ", "), meant));
  }
  // Not to be silenced: a row that is not there must not pass for one that is.
  for (const auto& [at, reason] : found.skipped) print_error(fmt::format("{}:{}: skipped: {}", options.table, at, reason));
  auto predicted = found.rows.size();
  std::map<std::string, std::size_t> notes;
  for (const auto& row : found.rows)
    for (const auto& note : row.estimate.notes) ++notes[note];
  for (const auto& row : found.memory) {
    if (row.timed) continue;
    ++predicted;
    for (const auto& note : row.notes) ++notes[note];
  }
  if (!found.skipped.empty() && !options.output.json) options.output.data(fmt::format("rows: {} predicted, {} skipped\n", predicted, found.skipped.size()));
  for (const auto& [note, rows] : notes) options.output.say(fmt::format("{} of {} rows: {}", rows, predicted, note));
  if (found.rows.empty() && found.memory.empty()) {
    print_error(fmt::format("[validate] {}: no row could be predicted; got {} that were skipped", options.table, found.skipped.size()));
    return Exit::failure;
  }
  return found.skipped.empty() ? Exit::ok : Exit::partial;
}

}  // namespace

Command add_validate(CLI::App& root) {
  auto options = std::make_shared<ValidateOptions>();
  auto* app = add_command(root, "validate", "Predicts each row of a table of measured runs and says how far off it is.", options->output,
                          {"ddlbench validate megatron-sc21", "ddlbench validate megatron-sc21 --machine a100-40gb --worst 3 --json"});
  app->add_option("table", options->table, "A CSV file, as docs/validation.md describes it, or the name of a table that ships with ddlbench: " + join(shipped_tables(), " "))->required();
  app->add_option("--machine", options->machine, "A profile in place of each row's own device: a name (ddlbench list machines), with its layout in brackets as predict takes it, or a file.");
  app->add_flag("--formulae-alone", options->formulae, "Leave out what a stack notes of layers of the very shapes that were measured, as for rows of other shapes.");
  app->add_option("--worst", options->worst, "Rows shown, those that are furthest off first.")->check(CLI::NonNegativeNumber)->capture_default_str();
  return {app, [options] { return act(*options); }};
}

}  // namespace ddl
