#include "ddl/plan/holdings.h"

#include <fmt/format.h>

#include "ddl/core/units.h"

namespace ddl {

std::string to_string(const Holdings& holds) {
  const auto text = [](std::int64_t bytes) { return to_string(Bytes{bytes}); };
  return fmt::format("parameters {}, gradients {}, optimizer {}, buckets {}, activations {}", text(holds.parameters), text(holds.gradients),
                     text(holds.optimizer), text(holds.buckets), text(holds.activations));
}

}  // namespace ddl
