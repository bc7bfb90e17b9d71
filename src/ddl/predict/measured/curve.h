#pragma once

#include <vector>

namespace ddl {

/// A measured value at one size.
struct CurvePoint {
  double size = 0;
  double value = 0;
};

struct CurveValue {
  double value = 0;
  /// How far beyond what was measured: log2 of the size over the nearest measured one, without sign; 0 within.
  double beyond = 0;
};

/// Between measured sizes along the straight line between the neighbours. Beyond them along the line through the nearest two, but below no less than in proportion to the size, and
/// above no less than the largest: of noise no negative time comes. With one point in proportion. `points` ascending by size, one at least.
CurveValue along(const std::vector<CurvePoint>& points, double size);

}  // namespace ddl
