#include "ddl/train/host_share.h"

#include <algorithm>

namespace ddl {

void HostShare::begin() {
  host_ = host_time();
  own_ = own_core_seconds();
  begun_ = now();
}

Json HostShare::json() const {
  // The kernel counts in hundredths of a second.
  constexpr double kShortest = 0.1;
  const Json unknown{{"own_share", nullptr}, {"busy_share", nullptr}, {"stolen_share", nullptr}};
  const auto after = host_time();
  if (!host_ || !after || seconds(now() - begun_) < kShortest) return unknown;
  const double all = after->all() - host_->all();
  if (all <= 0) return unknown;
  const auto share = [&](double time) { return std::clamp(time / all, 0.0, 1.0); };
  return {{"own_share", share(own_core_seconds() - own_)}, {"busy_share", share(after->busy - host_->busy)}, {"stolen_share", share(after->stolen - host_->stolen)}};
}

}  // namespace ddl
