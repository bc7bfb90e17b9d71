#pragma once

#include <string>
#include <vector>

#include "ddl/core/json.h"

namespace ddl {

// A machine that others share is not the same from one minute to the next. An entry of a profile that is measured again takes the earlier one's place, but remembers what that said under one key.

/// Of `entry`, which takes the place of `earlier` (null where there was none): "history", the last nine [{measured, build, KEY: value}], its own the last. Only those of the same `build` are kept:
/// another computes otherwise.
void remember(Json& entry, const Json& earlier, const char* key, const std::string& build);

/// Puts what `other`, the same measured elsewhere or at another time, remembers into what `entry` does: the last nine of both, of the entry's build alone. Where either remembers nothing, nothing.
void remember_all(Json& entry, const Json& other);

/// Keeps what strategies leave of layers (`parts` of a network) that `entry` did not measure and `earlier`, of the same build's code, did: as much longer or shorter as the whole network's passes are now.
void keep_parts(Json& entry, const Json& earlier);

/// The median over the history; the entry's own value where it has none.
double usual(const Json& entry, const char* key);

/// How far measurements of the same are apart, over many entries: the standard deviation of their logarithms.
class Drift {
 public:
  void add(const Json& entry, const char* key);
  void add(const std::vector<double>& measured);
  /// Whether anything was measured twice.
  bool known() const { return free_ > 0; }
  /// 0 where nothing was measured twice.
  double sigma() const;
  /// The same of the next one against the middle of those that there are.
  double ahead() const;

 private:
  std::size_t most_ = 0;  ///< measurements of an entry
  double squares_ = 0;
  int free_ = 0;  ///< degrees of freedom
};

}  // namespace ddl
