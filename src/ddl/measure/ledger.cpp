#include "ddl/measure/ledger.h"

namespace ddl {

Ledger& Ledger::operator+=(const Ledger& other) {
  wall += other.wall;
  for (std::size_t i = 0; i < kCauses; ++i) seconds[i] += other.seconds[i];
  return *this;
}

Ledger fold(const Trace& compute, Nanoseconds begin, Nanoseconds end) {
  Ledger ledger;
  ledger.wall = seconds(end - begin);
  for (const auto& piece : compute) ledger[piece.cause] += seconds(piece.end - piece.begin);
  double accounted = 0;
  for (const double part : ledger.seconds) accounted += part;
  ledger[Cause::residual] = ledger.wall - accounted;
  return ledger;
}

Ledger fold(std::span<const Span> spans, int worker, Nanoseconds begin, Nanoseconds end) {
  return fold(flatten(spans, worker, begin, end, Arrivals(spans)), begin, end);
}

}  // namespace ddl
