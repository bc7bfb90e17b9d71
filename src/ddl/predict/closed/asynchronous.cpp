#include <algorithm>

#include "ddl/predict/closed/terms.h"

namespace ddl {

PricedStep price_asynchronous(int micro_batches, const std::vector<WorkerTerms>& workers) {
  const double m = micro_batches;
  double seconds = 0, trip = 0;
  for (std::size_t s = workers.size(); s-- > 0;) {
    const auto& own = workers[s];
    // What a worker does of a batch; and the way from it to the last and back, on which as many micro-batches are as there are workers.
    trip += own.pass() + (s + 1 < workers.size() ? own.send_forward + own.send_backward : 0);
    const double busy = own.load + m * own.pass() + exposed(own) + own.update + own.harness;
    seconds = std::max({seconds, busy, m * trip / static_cast<double>(workers.size() - s)});
  }
  return price_with_bubbles(seconds, micro_batches, workers);
}

}  // namespace ddl
