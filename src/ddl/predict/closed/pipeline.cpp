#include <algorithm>

#include "ddl/predict/closed/terms.h"

namespace ddl {
namespace {

/// The longest way of one micro-batch: down through all workers and back.
double round_trip(const std::vector<WorkerTerms>& workers, std::size_t from) {
  double sum = 0;
  for (std::size_t s = from; s < workers.size(); ++s) sum += workers[s].pass() + (s > from ? workers[s - 1].send_forward + workers[s - 1].send_backward : 0);
  return sum;
}

/// Flow shop of m equal jobs: all machines once, and the slowest m - 1 times more (exact). The ways between workers are machines, too.
struct Flow {
  double sum = 0, most = 0;

  void pass(double seconds) {
    sum += seconds;
    most = std::max(most, seconds);
  }
  double seconds(double m) const { return sum + (m - 1) * most; }
};

/// All forwards, then all backwards: two flow shops, the second from the last worker to the first.
double gpipe_seconds(const std::vector<WorkerTerms>& workers, double m) {
  Flow there, back;
  for (std::size_t s = 0; s < workers.size(); ++s) {
    there.pass(workers[s].forward + workers[s].exchange_forward);
    back.pass(workers[s].backward + workers[s].exchange_backward);
    if (s + 1 == workers.size()) break;
    there.pass(workers[s].send_forward);
    back.pass(workers[s].send_backward);
  }
  return there.seconds(m) + back.seconds(m);
}

/// The longest of what each worker is bound by: the way to it and back, its own m passes, and its two waits for those behind it, k micro-batches being under way there: before its first
/// backward, while which it does k forwards more, and before its last, with k backwards in hand. Nor is it faster than a way there and back for every k + 1 micro-batches.
double one_f_one_b_seconds(const std::vector<WorkerTerms>& workers, double m) {
  double most = 0, before = 0;
  for (std::size_t s = 0; s < workers.size(); ++s) {
    const auto& own = workers[s];
    const double k = std::min(m - 1, static_cast<double>(workers.size() - 1 - s)), trip = round_trip(workers, s);
    const double behind = trip - own.pass();
    const double waits = std::max(0.0, behind - k * (own.forward + own.exchange_forward)) + std::max(0.0, behind - k * (own.backward + own.exchange_backward));
    most = std::max({most, before + m * own.pass() + waits, before + trip + (m - 1) * trip / (k + 1)});
    before += own.pass() + own.send_forward + own.send_backward;
  }
  return most;
}

}  // namespace

PricedStep price_gpipe(int micro_batches, const std::vector<WorkerTerms>& workers) { return price_after_passes(gpipe_seconds(workers, micro_batches), micro_batches, workers); }

PricedStep price_one_f_one_b(int micro_batches, const std::vector<WorkerTerms>& workers) { return price_after_passes(one_f_one_b_seconds(workers, micro_batches), micro_batches, workers); }

}  // namespace ddl
