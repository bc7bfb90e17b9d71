#include <algorithm>
#include <cmath>

#include "ddl/core/error.h"
#include "ddl/core/random.h"
#include "ddl/nn/graph.h"

namespace ddl {
namespace {

void sinusoids(const ParameterSpec& spec, float* values) {
  const auto places = spec.shape.at(0), features = spec.shape.at(1);
  for (std::int64_t place = 0; place < places; ++place)
    for (std::int64_t feature = 0; feature < features; ++feature) {
      const double turn = static_cast<double>(place) * std::pow(10000.0, -static_cast<double>(feature / 2 * 2) / static_cast<double>(features));
      values[place * features + feature] = static_cast<float>(feature % 2 == 0 ? std::sin(turn) : std::cos(turn));
    }
}

}  // namespace

void initialise(const ParameterSpec& spec, std::uint64_t seed, std::uint64_t index, float* values) {
  const auto n = static_cast<std::size_t>(spec.elements());
  const float value = spec.initialiser.value;
  // Streams of data order and samples are small numbers; parameters draw from a range of their own.
  Random random(seed, (std::uint64_t{1} << 40) + index);
  switch (spec.initialiser.kind) {
    case Initialiser::Kind::constant: std::fill_n(values, n, value); return;
    case Initialiser::Kind::uniform: std::generate_n(values, n, [&] { return random.uniform(-value, value); }); return;
    case Initialiser::Kind::normal: std::generate_n(values, n, [&] { return value * random.normal(); }); return;
    case Initialiser::Kind::sinusoids: sinusoids(spec, values); return;
    case Initialiser::Kind::forget:
      std::fill_n(values, n, 0.0F);
      std::fill_n(values + n / 4, n / 4, value);
      return;
    case Initialiser::Kind::file: break;
  }
  throw Error(Code::unsupported, fmt::format("[initialise] unsupported: '{}' comes from a file", spec.name));
}

}  // namespace ddl
