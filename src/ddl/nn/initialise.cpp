#include <algorithm>
#include <cmath>

#include "ddl/core/random.h"
#include "ddl/nn/graph.h"

namespace ddl {

void initialise(const ParameterSpec& spec, std::uint64_t seed, std::uint64_t index, float* values) {
  const auto n = static_cast<std::size_t>(spec.elements());
  // Streams of data order and samples are small numbers; parameters draw from a range of their own.
  Random random(seed, (std::uint64_t{1} << 40) + index);
  switch (spec.initialiser) {
    case Initialiser::zeros:
      std::fill_n(values, n, 0.0F);
      break;
    case Initialiser::ones:
      std::fill_n(values, n, 1.0F);
      break;
    case Initialiser::uniform_fan_in: {
      const float bound = 1.0F / std::sqrt(static_cast<float>(spec.fan));
      std::generate_n(values, n, [&] { return random.uniform(-bound, bound); });
      break;
    }
    case Initialiser::normal_fan_out: {
      const float deviation = std::sqrt(2.0F / static_cast<float>(spec.fan));
      std::generate_n(values, n, [&] { return deviation * random.normal(); });
      break;
    }
  }
}

}  // namespace ddl
