#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

namespace ddl {

/// What of a shared resource (a link, the cores of a host, a memory bus) some work takes while nothing slows it: a share of the whole, above 0; above 1 where it could use more than there is.
struct Demand {
  int resource = 0;
  double share = 1;
};

/// Work under way at once that shares resources fairly: what is under way proceeds at the same rate as all else that its scarcest resource serves, and at most at
/// rate 1, at which it would proceed alone (max-min fairness; Bertsekas & Gallager, Data Networks, 2nd ed., 1992, section 6.5.2, with rates weighted by demand).
/// Cost: a change takes time in proportion to the work that shares resources with it, directly or through others.
class FairShare {
 public:
  explicit FairShare(std::size_t resources) : users_(resources) {}

  /// Begins something that takes `seconds` alone. Its number counts from 0, and is used again once it is over.
  std::size_t start(double seconds, const std::vector<Demand>& demands, double now);
  /// What is over next, and when; absent where nothing is under way.
  std::optional<std::pair<double, std::size_t>> next();
  /// Takes out what next() told of, at its time.
  void finish(std::size_t number, double now);

 private:
  struct Work {
    double left = 0;    ///< s at rate 1
    double rate = 1;
    double since = 0;   ///< when `left` was so
    std::vector<Demand> demands;
    std::uint32_t version = 0;  ///< of its end: an older one in the queue does not count
    bool under_way = false;
    bool marked = false;
  };
  struct End {
    double time;
    std::size_t number;
    std::uint32_t version;
    bool operator>(const End& other) const { return std::pair(time, number) > std::pair(other.time, other.number); }
  };

  /// Work that shares something with what uses these demands, directly or through others.
  std::vector<std::size_t> neighbours(const std::vector<Demand>& demands);
  void share_again(const std::vector<std::size_t>& of, double now);
  void push_end(std::size_t number);

  std::vector<Work> work_;
  std::vector<std::size_t> free_;
  std::vector<std::vector<std::size_t>> users_;  ///< by resource
  std::vector<double> room_, wanted_;            ///< by resource, of share_again() alone
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

}  // namespace ddl
