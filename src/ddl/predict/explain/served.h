#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "ddl/measure/timeline.h"
#include "ddl/predict/explain/step_draws.h"

namespace ddl {

/// What servers that answer each worker by itself did, by the spans of all steps: they do one thing at a time, and what one worker asks for may have to wait for what others did, in steps of another number.
class Served {
 public:
  Served(const Plan& plan, const std::vector<TracedStep>& steps);

  /// When what that message is of was applied, or sent; absent where the trace does not say.
  std::optional<Period> of(int server, std::int64_t step, std::uint32_t meeting) const;
  /// How much of [begin, end) a server was at work.
  Nanoseconds busy(int server, Nanoseconds begin, Nanoseconds end) const;
  /// Whether it was at work until then, or as good as that: what begins then has waited for its turn.
  bool is_busy_until(int server, Nanoseconds time) const;
  /// When the last of what all pushed in that step was applied; absent where the trace has none of it.
  std::optional<Nanoseconds> applied(int server, std::int64_t step) const;

 private:
  std::map<std::tuple<int, std::int64_t, std::uint32_t>, Period> periods_;
  std::vector<std::vector<Period>> busy_;  ///< by server, in order
  std::map<std::pair<int, std::int64_t>, Nanoseconds> applied_;
};

/// What a worker's messages with servers took by themselves in a step, its turn apart that they waited for. Seconds.
struct ServerCosts {
  std::vector<double> tasks;                        ///< by task; NaN of what is no such message, or was not done, or of which the trace does not say
  std::vector<bool> waited;                         ///< by task: it had to wait for its turn, and how long before that it was there is not known: it took this or more
  std::vector<std::pair<int, double>> applications;  ///< server, and what it took to apply what was pushed
};
/// `spans`: of that worker in that step.
ServerCosts server_costs(const Plan& plan, const Served& served, int worker, std::int64_t step, const Trace& spans);

}  // namespace ddl
