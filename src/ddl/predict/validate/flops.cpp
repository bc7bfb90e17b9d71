#include "ddl/core/error.h"
#include "ddl/predict/images/networks.h"
#include "ddl/predict/validate/estimate.h"

namespace ddl {

double samples_of_step(const MeasuredRow& row) {
  if (row.global_batch > 0 || row.micro_batch <= 0) return row.global_batch;
  // Of a pipeline its devices have one batch together.
  return row.micro_batch * (row.is_pipeline() ? 1 : row.devices);
}

double flops_of(const MeasuredRow& row) {
  const double batch = samples_of_step(row) > 0 && (row.global_batch > 0 || !row.prints_rate()) ? samples_of_step(row) : 1;
  if (row.model == "gpt") {
    // Narayanan et al. 2021, equation 3, without recomputation: 72 B s l h^2 (1 + s/6h + V/12lh).
    const auto h = static_cast<double>(row.hidden), l = static_cast<double>(row.layers), s = static_cast<double>(row.seq), v = static_cast<double>(row.vocab > 0 ? row.vocab : 51'200);
    if (h <= 0 || l <= 0 || s <= 0) throw Error(Code::invalid_argument, fmt::format("hidden, layers and seq; got {}, {} and {}, expected numbers above 0", row.hidden, row.layers, row.seq));
    const double ffn = row.ffn > 0 ? static_cast<double>(row.ffn) / (4 * h) : 1;
    return 72 * batch * s * l * h * h * ((1 + 2 * ffn) / 3 + s / (6 * h) + v / (12 * l * h));
  }
  return 3 * batch * flops_of(image_network(row.model, row.image));
}

}  // namespace ddl
