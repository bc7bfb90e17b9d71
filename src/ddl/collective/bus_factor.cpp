#include "ddl/collective/bus_factor.h"

namespace ddl {

double bus_factor(Goal goal, int ranks) {
  const double share = ranks > 0 ? (ranks - 1.0) / ranks : 0;
  switch (goal) {
    case Goal::all_reduce: return 2 * share;
    case Goal::reduce_scatter:
    case Goal::all_gather:
    case Goal::all_to_all:
    case Goal::gather:
    case Goal::scatter: return share;
    case Goal::broadcast:
    case Goal::reduce:
    case Goal::point_to_point: return 1;
    case Goal::barrier: return 0;
  }
  return 0;
}

}  // namespace ddl
