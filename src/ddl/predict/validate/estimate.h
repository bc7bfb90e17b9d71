#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ddl/predict/validate/table.h"

namespace ddl {

/// A step, predicted. Seconds.
struct Estimate {
  double seconds = 0;
  /// Standard deviation of the logarithm of measured over predicted: how far such predictions were off where they could be compared, more outside of what was fitted.
  double sigma = 0;
  std::vector<std::pair<std::string, double>> terms = {};  ///< of `seconds`, what each part takes; they add up
  double memory_bytes = 0;                                 ///< of the fullest device; 0: not predicted
  double memory_of_all_bytes = 0;                          ///< of all devices together, where they differ
  std::vector<double> memory_of_stages = {};               ///< of a device of each stage of a pipeline, as memory_bytes; empty where stages are not told apart
  std::vector<double> tensors_of_stages = {};              ///< of those, tensors: neither the allocator's cache nor the driver, kernels and communicators
  bool fits = true;
  std::vector<std::string> notes = {};                     ///< what was assumed or left
  bool noted_shape = false;                                ///< what its stack notes of measured layers of this very shape is in it
};

/// What a row of a table takes, from the columns that describe it, the shipped profiles of its device and stack, and what one device does where the table says. Batches that a table
/// does not print are taken to be 1 sample: the time is then that of one sample.
/// Errors: not_found for a device or stack that has no profile; unsupported for networks and strategies that no model is of; invalid_argument, naming the column, for a row that lacks what
/// its model needs or contradicts itself.
/// `shapes`: whether what a stack notes of measured shapes counts; else formulae alone, as for any other shape.
Estimate estimate_row(const MeasuredRow& row, bool shapes = true);

/// estimate_row() of each kind of row.
Estimate estimate_gpt(const MeasuredRow& row, bool shapes = true);
Estimate estimate_images(const MeasuredRow& row);

/// interval_of() its time (predict/interval.h).
std::pair<double, double> interval_of(const Estimate& estimate);

/// Floating-point operations of a step, forward and backward: what `time = FLOPs / (devices x constant)` is of. Errors: as estimate_row().
double flops_of(const MeasuredRow& row);

/// Samples of a step that a row tells, or that its devices have together; 0: it tells neither.
double samples_of_step(const MeasuredRow& row);

}  // namespace ddl
