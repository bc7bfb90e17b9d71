#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddl {

/// One dimension of the grid that workers stand in.
struct Axis {
  std::string name;  ///< "pipeline", "data", "tensor"
  int size = 1;
};

/// Workers as a grid: worker = ((a * size_1) + b) * size_2 + c for coordinates (a, b, c), the last axis changing fastest.
/// Without axes it is one worker.
struct Mesh {
  std::vector<Axis> axes;

  int workers() const;
  std::vector<int> coordinates(int worker) const;
  int worker(const std::vector<int>& coordinates) const;
  /// Number of the axis of that name, or -1.
  int find(const std::string& name) const;
  /// Its size, or 1 where there is none of that name.
  int size(const std::string& name) const;
  /// The worker's place on it, or 0 where there is none of that name.
  int coordinate(const std::string& name, int worker) const;
};

/// Workers that do collectives together: those that differ only along some axes. One pattern stands for as many groups as the other axes
/// have places.
struct Group {
  /// An axis along which members differ; `only`: at these places of it alone, in this order; empty: at all.
  struct Along {
    int axis = 0;
    std::vector<int> only = {};
  };
  std::string name;          ///< unique within the plan; what a lane of the trace is called
  std::vector<Along> along;

  bool has(const Mesh& mesh, int worker) const;
};

/// The members of the worker's own group, in the order of their ranks in it. Empty where it is in none.
std::vector<int> members(const Mesh& mesh, const Group& group, int worker);

}  // namespace ddl
