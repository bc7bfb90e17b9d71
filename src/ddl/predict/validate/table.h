#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddl {

/// One measured configuration: a row of a table as docs/validation.md describes it. Numbers that a row leaves empty are 0, words are empty.
struct MeasuredRow {
  int line = 0;  ///< of the file, from 1
  std::string id;
  std::string model;
  double params_b = 0;           ///< thousands of millions of parameters, as printed
  std::int64_t hidden = 0, ffn = 0, layers = 0, heads = 0, kv_heads = 0, seq = 0, vocab = 0;  ///< of a gpt
  bool untied = false;           ///< its output layer has weights of its own
  std::vector<std::int64_t> image = {};  ///< channels, height, width
  std::string device;
  int devices = 1, devices_per_node = 0;
  std::string link_intra, link_inter, stack, precision, data, strategy;
  int dp = 0, tp = 1, pp = 1;  ///< dp 0: not printed
  std::string schedule;
  int interleave = 0;
  std::vector<int> stages = {};  ///< layers of each, of the package's own form of the network
  std::string sharded, sequence_parallel, recompute;
  bool overlap = true;
  double micro_batch = 0;        ///< samples of a device; of a micro-batch in a pipeline; 0: not printed
  double global_batch = 0;       ///< samples of a step; 0: not printed
  double one_device_samples_per_s = 0;
  double measured_ms = 0, measured_samples_per_s = 0, measured_memory_bytes = 0;
  std::string memory_counts;     ///< what was measured: `device`, all that the driver says is used (also where empty), or `tensors`, what the framework had allocated
  int memory_stage = 0;          ///< the stage of a pipeline whose device it was, from 1; 0: the fullest
  std::optional<bool> oom = {};

  /// Whether its devices are stages of one pipeline.
  bool is_pipeline() const { return pp > 1 || !stages.empty() || strategy == "pipeline"; }
  int nodes() const { return devices_per_node > 0 ? (devices + devices_per_node - 1) / devices_per_node : 1; }
  /// Seconds that a step took; where only a rate is printed and no batch, the time of one sample.
  double measured_seconds() const;
  /// Whether the table prints a rate; errors are then of rates.
  bool prints_rate() const { return measured_ms <= 0; }
};

struct UnreadRow {
  int line = 0;
  std::string reason;
};

struct MeasuredTable {
  std::vector<MeasuredRow> rows;
  std::vector<UnreadRow> unread;  ///< each with what was got and what expected
  std::vector<std::string> unknown = {};  ///< columns that mean nothing here
};

/// Reads a CSV file (RFC 4180; lines that begin with # are remarks) with the header of docs/validation.md; columns may be in any order, and those that it does not name are left out, and told in `unknown`.
/// A row that cannot be read is told in `unread`, none is dropped silently.
/// Errors: not_found, io; corrupt where the header lacks a column that every row needs, naming it.
/// The columns that mean something.
std::vector<std::string> table_columns();
MeasuredTable read_table(const std::string& path);
MeasuredTable parse_table(const std::string& text, const std::string& path);

}  // namespace ddl
