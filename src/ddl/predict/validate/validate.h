#pragma once

#include <optional>
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

/// What a row's fullest device held, or all of them where the table says more than one has room for; or whether it ran out.
struct JudgedMemory {
  int line = 0;
  std::string id;
  double measured = 0, predicted = 0;  ///< bytes; measured 0: the table says nothing of it
  std::optional<bool> oom = {};
  bool fits = true;
  std::vector<std::string> notes = {};  ///< Estimate::notes
  bool timed = false;                   ///< its time is judged, too
};

struct Validation {
  std::vector<ValidatedRow> rows;
  std::vector<UnreadRow> skipped;  ///< rows that could not be read, or not predicted, each with its line
  std::vector<std::string> unknown = {};  ///< columns that mean nothing here
  Accuracy summary, baseline;
  std::optional<Accuracy> without_shapes;  ///< where measured shapes are noted of some row's layers: all rows by formulae alone, which is what rows of other shapes have
  double constant = 0;             ///< of the baseline: FLOP/s of one device
  std::vector<JudgedMemory> memory;
  int memory_rows = 0, oom_rows = 0, oom_right = 0;
  double memory_mape = 0;          ///< %: of measured peaks, where the table has them
};

/// Predicts every row of a table and compares. The baseline is time = FLOPs / (devices x constant), with the constant that gives it the least MAPE on these very rows.
/// `device`: a profile that takes the place of each row's own, with its wires; empty: none. `shapes`: as estimate_row().
/// Errors: those of the table.
Validation validate(const MeasuredTable& table, const std::string& device = "", bool shapes = true);

/// `ddlbench.validate/1`.
Json to_json(const Validation& validation);

}  // namespace ddl
