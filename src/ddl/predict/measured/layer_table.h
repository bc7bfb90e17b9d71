#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/predict/step/cost_source.h"
#include "ddl/strategy/partition/layer_sort.h"

namespace ddl {

/// What a layer takes, and how far that may be off.
struct LayerEstimate {
  LayerCost cost;
  double uncertainty = 0;     ///< relative: by so much it is off on the mean
  bool extrapolated = false;  ///< for fewer or more samples than were measured
  double between = 0;         ///< how far from the nearest number of samples that was measured, doublings, where it lies between two
  bool fitted = false;        ///< its sort was not measured: from others of its family
};

/// What sorts of layers took, for one kind of worker: entries of "compute" of a machine profile.
class LayerTable {
 public:
  /// All its times `factor` times as long. `own`: of the network that is asked for; else layers whose time is within others' (`within_others`) are left out. Errors: corrupt, naming the field.
  void add(const Json& entry, double factor = 1, bool own = true);
  bool empty() const { return sorts_.empty(); }

  /// A sort that was measured. Of one that occurs in several places, the mean. Of numbers of samples that are computed another way than so many (`alike` says which are not) it tells nothing, unless all are.
  std::optional<LayerEstimate> of_sort(const std::string& sort, double samples, const std::function<bool(std::int64_t)>& alike = {}) const;
  /// Any of a family, by a rate: seconds = a + samples (b flops + c elements) + d parameters, for each part by non-negative least squares of relative errors over what was measured of the
  /// family, where what works about as much counts most; times what those that are nearest took over what that rate says of them. Its uncertainty: how far, on the mean, sorts of the family are off when they are
  /// held out of that, the less the nearer something lies to one that was measured.
  std::optional<LayerEstimate> of_family(const std::string& family, const LayerWork& work, double samples) const;

 private:
  struct Point {
    double samples = 0;
    double places = 0;   ///< in which it was timed: sums below are over these
    double forward = 0, backward_input = 0, backward_weight = 0;
    double squares = 0;  ///< of relative deviations
  };
  struct Sort {
    std::string family;
    LayerWork work;
    std::map<std::int64_t, Point> points;  ///< by samples
  };
  struct Fitted {
    LayerCost cost;
    bool any = false;
    double nearest = 0;  ///< how far what was measured is away, in factors of e of work
  };
  /// How far sorts of a family are off when they are held out, on the mean, of the logarithm, and how far away the nearest was. Without others to judge by: half, a factor of e^2 away.
  struct Judged {
    double off = 0.5, distance = 2;
  };

  Fitted fitted(const std::string& family, const LayerWork& work, double samples, const std::string& without) const;
  Judged held_out(const std::string& family) const;

  std::map<std::string, Sort> sorts_;
  mutable std::map<std::string, Judged> held_out_;  ///< by family
};

}  // namespace ddl
