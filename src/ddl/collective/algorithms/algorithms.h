#pragma once

#include "ddl/plan/schedule.h"

namespace ddl {

// One file each. P ranks, n elements; a *slice* is part_of(n, P, i). The contracts stand beside the code.

Schedule ring_all_reduce(int rank, const CollectiveShape& shape);
Schedule direct_all_reduce(int rank, const CollectiveShape& shape);
Schedule binomial_broadcast(int rank, const CollectiveShape& shape);
Schedule dissemination_barrier(int rank, const CollectiveShape& shape);

}  // namespace ddl
