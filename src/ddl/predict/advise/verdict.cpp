#include "ddl/predict/advise/verdict.h"

#include <algorithm>
#include <cmath>

#include "ddl/predict/interval.h"

namespace ddl {

std::pair<double, double> times_as_fast(const Rated& fast, const Rated& slow) { return interval_of(slow.seconds / fast.seconds, std::hypot(fast.apart, slow.apart)); }

bool Verdict::worth_it() const { return pick_workers > 1; }

Verdict judge(const std::vector<Rated>& all) {
  Verdict out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].fits) continue;
    if (!out.best || all[i].seconds < all[*out.best].seconds) out.best = i;
    if (all[i].workers == 1 && (!out.alone || all[i].seconds < all[*out.alone].seconds)) out.alone = i;
  }
  if (!out.best) return out;
  const auto as_fast = [&](const Rated& one) { return one.fits && (&one == &all[*out.best] || times_as_fast(all[*out.best], one).first <= 1); };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!as_fast(all[i])) continue;
    const auto better = [&](const Rated& a, const Rated& b) { return a.workers != b.workers ? a.workers < b.workers : a.seconds < b.seconds; };
    if (!out.pick || better(all[i], all[*out.pick])) out.pick = i;
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].plain && all[i].workers == all[*out.pick].workers && as_fast(all[i]) && all[i].seconds <= kAlike * all[*out.pick].seconds) {
      out.pick = i;
      break;
    }
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i != *out.pick && as_fast(all[i]) && all[i].workers == all[*out.pick].workers) out.ties.push_back(i);
  std::sort(out.ties.begin(), out.ties.end(), [&](std::size_t a, std::size_t b) { return all[a].seconds < all[b].seconds; });
  out.pick_workers = all[*out.pick].workers;
  out.best_workers = all[*out.best].workers;
  return out;
}

bool order_held(const std::vector<std::pair<double, double>>& measured) {
  for (std::size_t i = 0; i < measured.size(); ++i)
    for (std::size_t j = i + 1; j < measured.size(); ++j)
      if (measured[j].second < measured[i].first) return false;
  return true;
}

}  // namespace ddl
