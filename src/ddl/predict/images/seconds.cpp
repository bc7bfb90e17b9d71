#include "ddl/predict/images/steps.h"

namespace ddl {

double ImageSeconds::total() const {
  double sum = 0;
  for (const auto& [name, seconds] : terms) sum += seconds;
  return sum;
}

}  // namespace ddl
