#include "ddl/predict/validate/estimate.h"

#include "ddl/predict/interval.h"

namespace ddl {

Estimate estimate_row(const MeasuredRow& row, bool shapes) { return row.model == "gpt" ? estimate_gpt(row, shapes) : estimate_images(row); }

std::pair<double, double> interval_of(const Estimate& estimate) { return interval_of(estimate.seconds, estimate.sigma); }

}  // namespace ddl
