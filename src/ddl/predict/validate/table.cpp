#include "ddl/predict/validate/table.h"

#include <charconv>
#include <cmath>
#include <functional>
#include <map>

#include "ddl/core/error.h"
#include "ddl/core/json.h"
#include "ddl/core/text.h"

namespace ddl {
namespace {

/// More than anybody has of devices, or of anything that they are divided into; of three of them the product is still a number.
constexpr std::int64_t kMostCounted = 1'000'000;

/// The fields of one line; `rest` moves past it. A field in quotes may have commas, line ends and doubled quotes.
std::vector<std::string> fields_of(std::string_view& rest, int& lines, std::string& wrong) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  std::size_t i = 0;
  lines = 1;
  for (; i < rest.size(); ++i) {
    const char c = rest[i];
    if (quoted) {
      if (c == '"' && i + 1 < rest.size() && rest[i + 1] == '"') fields.back() += rest[i++];
      else if (c == '"') quoted = false;
      else fields.back() += c;
      if (c == '\n') ++lines;
    } else if (c == '"' && fields.back().empty()) {
      quoted = true;
    } else if (c == ',') {
      fields.emplace_back();
    } else if (c == '\n') {
      break;
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  if (quoted) wrong = "a quote that does not end";
  rest.remove_prefix(std::min(rest.size(), i + 1));
  return fields;
}

[[noreturn]] void wrong_field(const std::string& column, const std::string& got, const std::string& expected) {
  throw Error(Code::corrupt, fmt::format("{}; got '{}', expected {}", column, got, expected));
}

double number(const std::string& column, const std::string& text) {
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) wrong_field(column, text, "a number");
  return value;
}

double positive(const std::string& column, const std::string& text) {
  const double value = number(column, text);
  if (value < 0) wrong_field(column, text, "a number that is not negative");
  return value;
}

std::int64_t whole(const std::string& column, const std::string& text, std::int64_t least) {
  const double value = number(column, text);
  if (value != std::floor(value) || value < static_cast<double>(least) || value > 1e12) wrong_field(column, text, fmt::format("a whole number from {} on", least));
  return static_cast<std::int64_t>(value);
}

/// Numbers between `by`: 3x224x224, 5/7/3.
std::vector<std::int64_t> list(const std::string& column, const std::string& text, char by) {
  std::vector<std::int64_t> out;
  std::size_t from = 0;
  while (from <= text.size()) {
    const auto to = std::min(text.find(by, from), text.size());
    out.push_back(whole(column, text.substr(from, to - from), 1));
    from = to + 1;
  }
  return out;
}

/// Both ways to print a time of a step, as they are rounded.
constexpr double kSameMeasurement = 0.02;

using Take = std::function<void(MeasuredRow&, const std::string& column, const std::string& text)>;

const std::map<std::string, Take>& columns_known() {
  const auto word = [](std::string MeasuredRow::*field) -> Take { return [field](MeasuredRow& row, const std::string&, const std::string& text) { row.*field = text; }; };
  const auto real = [](double MeasuredRow::*field) -> Take { return [field](MeasuredRow& row, const std::string& column, const std::string& text) { row.*field = positive(column, text); }; };
  const auto size = [](std::int64_t MeasuredRow::*field) -> Take { return [field](MeasuredRow& row, const std::string& column, const std::string& text) { row.*field = whole(column, text, 1); }; };
  const auto flag = [](bool MeasuredRow::*field) -> Take {
    return [field](MeasuredRow& row, const std::string& column, const std::string& text) {
      if (text != "0" && text != "1") wrong_field(column, text, "0 or 1");
      row.*field = text == "1";
    };
  };
  // What means the same is one word then.
  const auto among = [](std::string MeasuredRow::*field, std::map<std::string, std::string> words) -> Take {
    return [field, words = std::move(words)](MeasuredRow& row, const std::string& column, const std::string& text) {
      const auto found = words.find(text);
      if (found == words.end()) {
        std::vector<std::string> expected;
        for (const auto& each : words) expected.push_back(each.first);
        wrong_field(column, text, "one of " + join(expected, " "));
      }
      row.*field = found->second;
    };
  };
  const std::map<std::string, std::string> switched{{"0", ""}, {"no", ""}, {"off", ""}, {"none", ""}, {"false", ""}, {"1", "1"}, {"yes", "1"}, {"on", "1"}, {"true", "1"}};
  auto sharded = switched;
  for (const auto* optimizer : {"optimizer", "distributed", "zero1", "zero-1"}) sharded[optimizer] = "1";
  const auto few = [](const std::string& column, const std::string& text) {
    const auto value = whole(column, text, 1);
    if (value > kMostCounted) wrong_field(column, text, fmt::format("a whole number up to {}", kMostCounted));
    return static_cast<int>(value);
  };
  const auto count = [few](int MeasuredRow::*field) -> Take { return [field, few](MeasuredRow& row, const std::string& column, const std::string& text) { row.*field = few(column, text); }; };
  static const std::map<std::string, Take> known{
      {"id", word(&MeasuredRow::id)}, {"model", word(&MeasuredRow::model)}, {"params_b", real(&MeasuredRow::params_b)}, {"hidden", size(&MeasuredRow::hidden)},
      {"ffn", size(&MeasuredRow::ffn)}, {"layers", size(&MeasuredRow::layers)}, {"heads", size(&MeasuredRow::heads)}, {"kv_heads", size(&MeasuredRow::kv_heads)}, {"seq", size(&MeasuredRow::seq)}, {"vocab", size(&MeasuredRow::vocab)},
      {"image", [](MeasuredRow& row, const std::string& column, const std::string& text) {
         row.image = list(column, text, 'x');
         if (row.image.size() != 3) wrong_field(column, text, "channels x height x width");
       }},
      {"device", word(&MeasuredRow::device)}, {"devices", count(&MeasuredRow::devices)}, {"devices_per_node", count(&MeasuredRow::devices_per_node)},
      {"link_intra", word(&MeasuredRow::link_intra)}, {"link_inter", word(&MeasuredRow::link_inter)}, {"stack", word(&MeasuredRow::stack)}, {"precision", word(&MeasuredRow::precision)},
      {"data", among(&MeasuredRow::data, {{"synthetic", "synthetic"}, {"real", "real"}})}, {"strategy", word(&MeasuredRow::strategy)}, {"dp", count(&MeasuredRow::dp)}, {"tp", count(&MeasuredRow::tp)}, {"pp", count(&MeasuredRow::pp)},
      {"schedule", among(&MeasuredRow::schedule, {{"1f1b", "1f1b"}, {"1F1B", "1f1b"}, {"interleaved-1f1b", "interleaved-1f1b"}, {"interleaved", "interleaved-1f1b"}, {"gpipe", "gpipe"}, {"fill-drain", "gpipe"}})}, {"interleave", count(&MeasuredRow::interleave)},
      {"stages", [](MeasuredRow& row, const std::string& column, const std::string& text) {
         for (const auto each : list(column, text, '/')) {
           if (each > kMostCounted) wrong_field(column, text, fmt::format("whole numbers up to {}", kMostCounted));
           row.stages.push_back(static_cast<int>(each));
         }
       }},
      {"sharded", among(&MeasuredRow::sharded, sharded)}, {"sequence_parallel", among(&MeasuredRow::sequence_parallel, switched)},
      {"recompute", among(&MeasuredRow::recompute, {{"none", "none"}, {"never", "none"}, {"selective", "selective"}, {"full", "full"}, {"always", "full"}, {"except_last", "except_last"}})},
      {"overlap", flag(&MeasuredRow::overlap)}, {"untied", flag(&MeasuredRow::untied)}, {"memory_stage", count(&MeasuredRow::memory_stage)},
      {"memory_counts", [](MeasuredRow& row, const std::string& column, const std::string& text) {
         if (text != "device" && text != "tensors") wrong_field(column, text, "device or tensors");
         row.memory_counts = text;
       }},
      {"micro_batch", real(&MeasuredRow::micro_batch)}, {"global_batch", real(&MeasuredRow::global_batch)}, {"one_device_samples_per_s", real(&MeasuredRow::one_device_samples_per_s)},
      {"measured_ms", real(&MeasuredRow::measured_ms)}, {"measured_samples_per_s", real(&MeasuredRow::measured_samples_per_s)}, {"measured_memory_bytes", real(&MeasuredRow::measured_memory_bytes)},
      {"oom", [](MeasuredRow& row, const std::string& column, const std::string& text) {
         if (text != "0" && text != "1") wrong_field(column, text, "0 or 1");
         row.oom = text == "1";
       }}};
  return known;
}

}  // namespace

double MeasuredRow::measured_seconds() const {
  if (measured_ms > 0) return measured_ms * 1e-3;
  if (measured_samples_per_s <= 0) return 0;
  return (global_batch > 0 ? global_batch : 1) / measured_samples_per_s;
}

std::vector<std::string> table_columns() {
  std::vector<std::string> names;
  for (const auto& [name, take] : columns_known()) names.push_back(name);
  return names;
}

MeasuredTable parse_table(const std::string& text, const std::string& path) {
  MeasuredTable table;
  std::vector<std::string> header;
  std::string_view rest = text;
  // As spreadsheets begin what they save in UTF-8.
  if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);
  for (int line = 1; !rest.empty();) {
    const int here = line;
    if (rest.front() == '#') {
      rest.remove_prefix(std::min(rest.size(), rest.find('\n') == std::string_view::npos ? rest.size() : rest.find('\n') + 1));
      ++line;
      continue;
    }
    int lines = 1;
    std::string wrong;
    const auto from_here = rest;
    const auto fields = fields_of(rest, lines, wrong);
    if (!wrong.empty()) {
      // A quote that does not end would take all rows after it along.
      rest = from_here.substr(std::min(from_here.size(), from_here.find('\n') == std::string_view::npos ? from_here.size() : from_here.find('\n') + 1));
      lines = 1;
    }
    line += lines;
    if (fields.size() == 1 && fields[0].empty()) continue;
    if (header.empty()) {
      header = fields;
      for (const auto* needed : {"model", "device", "devices"})
        if (std::find(header.begin(), header.end(), needed) == header.end())
          throw Error(Code::corrupt, fmt::format("[validate] {}:{}: the header has no column '{}'; got {}, expected the columns of docs/validation.md", path, here, needed, join(header, ",")));
      if (!wrong.empty()) throw Error(Code::corrupt, fmt::format("[validate] {}:{}: the header has {}", path, here, wrong));
      for (const auto& column : header) {
        if (std::count(header.begin(), header.end(), column) > 1) throw Error(Code::corrupt, fmt::format("[validate] {}:{}: the header has column '{}' more than once; expected each once", path, here, column));
        if (!columns_known().contains(column)) table.unknown.push_back(column);
      }
      continue;
    }
    MeasuredRow row;
    row.line = here;
    try {
      if (!wrong.empty()) throw Error(Code::corrupt, wrong);
      if (fields.size() != header.size()) throw Error(Code::corrupt, fmt::format("got {} fields, expected {} as in the header", fields.size(), header.size()));
      for (std::size_t i = 0; i < fields.size(); ++i)
        if (const auto known = columns_known().find(header[i]); known != columns_known().end() && !fields[i].empty()) known->second(row, header[i], fields[i]);
      for (const auto* needed : {"model", "device", "devices"})
        if (fields[static_cast<std::size_t>(std::find(header.begin(), header.end(), needed) - header.begin())].empty()) throw Error(Code::corrupt, fmt::format("{} is empty; expected a value in every row", needed));
      if (row.measured_ms > 0 && row.measured_samples_per_s > 0 && row.global_batch > 0)
        if (const double other = 1e3 * row.global_batch / row.measured_samples_per_s; std::abs(row.measured_ms / other - 1) > kSameMeasurement)
          throw Error(Code::corrupt, fmt::format("measured_ms and measured_samples_per_s; got {} ms and {} samples/s, which are {:.4g} ms a step of {}; expected the same, or one of them", row.measured_ms, row.measured_samples_per_s, other, row.global_batch));
      table.rows.push_back(std::move(row));
    } catch (const Error& error) {
      table.unread.push_back({here, error.what()});
    }
  }
  if (header.empty()) throw Error(Code::corrupt, fmt::format("[validate] {} has no header; expected the columns of docs/validation.md", path));
  return table;
}

MeasuredTable read_table(const std::string& path) { return parse_table(read_file(path), path); }

}  // namespace ddl
