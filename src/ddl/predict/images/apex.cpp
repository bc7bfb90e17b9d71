#include <cmath>

#include "ddl/core/error.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/images/steps.h"

namespace ddl {

/// PyTorch with Apex, reading through DALI: devices wait for the slowest; a loader that is nearly as slow as the devices is seen, by the fourth power mean of both. NVLink hides the all-reduce of
/// 51 to 102 MB; what it and the optimiser cost at fp16 is in the loader's rate, which the table cannot tell from them.
ImageSeconds price_apex(const ReplicaStep& step, const Json& stack, const Json& machine) {
  ImageSeconds out;
  out.terms = {{"compute", step.alone}};
  if (step.devices == 1) return out;
  const double uneven = term(stack, "images.uneven") * step.alone, computes = step.alone + uneven;
  out.terms.emplace_back("uneven devices", uneven);
  if (step.nodes() > 1) out.notes.emplace_back("more than one node: what exchanges between nodes expose is not in this model");
  if (!step.reads) return out;
  const double rate = term_or(machine, "device.loader_images_per_s", 0);
  if (rate <= 0) {
    out.notes.push_back(fmt::format("no loader_images_per_s of {}: taken for fast enough", step.device.gpu().name));
    return out;
  }
  const double power = term(stack, "images.loader_power"), loads = step.batch / rate;
  out.terms.emplace_back("input", std::pow(std::pow(computes, power) + std::pow(loads, power), 1 / power) - computes);
  return out;
}

}  // namespace ddl
