#include "ddl/predict/measured/curve.h"

#include <algorithm>
#include <cmath>

#include "ddl/core/error.h"

namespace ddl {

CurveValue along(const std::vector<CurvePoint>& points, double size) {
  invariant(!points.empty(), "a curve has points");
  const auto& first = points.front();
  const auto& last = points.back();
  const auto proportional = [&](const CurvePoint& point) { return point.size > 0 ? point.value * size / point.size : point.value; };
  const auto line = [&](const CurvePoint& a, const CurvePoint& b) { return a.value + (b.value - a.value) * (size - a.size) / (b.size - a.size); };
  if (size < first.size) {
    const double beyond = std::log2(first.size / std::max(size, 1e-9));
    return {points.size() == 1 ? proportional(first) : std::max(proportional(first), line(points[0], points[1])), beyond};
  }
  if (size > last.size) {
    const double beyond = std::log2(size / std::max(last.size, 1e-9));
    return {points.size() == 1 ? proportional(last) : std::max(last.value, line(points[points.size() - 2], last)), beyond};
  }
  const auto above = std::lower_bound(points.begin(), points.end(), size, [](const CurvePoint& point, double wanted) { return point.size < wanted; });
  if (above->size == size) return {above->value, 0};
  return {line(*std::prev(above), *above), 0};
}

}  // namespace ddl
