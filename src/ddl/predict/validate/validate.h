#pragma once

#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/predict/validate/accuracy.h"
#include "ddl/predict/validate/estimate.h"

namespace ddl {

/// A row, and what was predicted of it.
struct ValidatedRow {
  MeasuredRow row;
  Estimate estimate;
  Predicted predicted;       ///< in the table's unit
  double baseline = 0;       ///< in the same unit; NaN where the network's operations are not known
};

struct Validation {
  std::vector<ValidatedRow> rows;
  std::vector<UnreadRow> skipped;  ///< rows that could not be read, or not predicted, each with its line
  Accuracy summary, baseline;
  double constant = 0;             ///< of the baseline: FLOP/s of one device
  int memory_rows = 0, oom_rows = 0, oom_right = 0;
  double memory_mape = 0;          ///< %: of measured peaks, where the table has them
};

/// Predicts every row of a table and compares. The baseline is time = FLOPs / (devices x constant), with the constant that gives it the least MAPE on these very rows.
/// `device`: a profile that takes the place of each row's own; empty: none.
/// Errors: those of the table.
Validation validate(const MeasuredTable& table, const std::string& device = "");

/// `ddlbench.validate/1`.
Json to_json(const Validation& validation);

}  // namespace ddl
