#include "ddl/plan/mesh.h"

#include <algorithm>

#include "ddl/core/error.h"
#include "ddl/core/numbers.h"

namespace ddl {

int Mesh::workers() const {
  int product = 1;
  for (const auto& axis : axes) product *= axis.size;
  return product;
}

std::vector<int> Mesh::coordinates(int worker) const {
  std::vector<int> places(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    places[i] = worker % axes[i].size;
    worker /= axes[i].size;
  }
  return places;
}

int Mesh::worker(const std::vector<int>& coordinates) const {
  invariant(coordinates.size() == axes.size(), "a place on every axis");
  int number = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) number = number * axes[i].size + coordinates[i];
  return number;
}

int Mesh::find(const std::string& name) const {
  const auto found = std::find_if(axes.begin(), axes.end(), [&](const Axis& axis) { return axis.name == name; });
  return found == axes.end() ? -1 : static_cast<int>(found - axes.begin());
}

int Mesh::size(const std::string& name) const {
  const int axis = find(name);
  return axis < 0 ? 1 : axes[static_cast<std::size_t>(axis)].size;
}

int Mesh::coordinate(const std::string& name, int worker) const {
  const int axis = find(name);
  return axis < 0 ? 0 : coordinates(worker)[static_cast<std::size_t>(axis)];
}

bool Group::has(const Mesh& mesh, int worker) const {
  const auto places = mesh.coordinates(worker);
  return std::all_of(along.begin(), along.end(), [&](const Along& each) {
    return each.only.empty() || std::find(each.only.begin(), each.only.end(), places[static_cast<std::size_t>(each.axis)]) != each.only.end();
  });
}

std::vector<int> members(const Mesh& mesh, const Group& group, int worker) {
  if (!group.has(mesh, worker)) return {};
  std::vector<std::vector<int>> found{mesh.coordinates(worker)};
  for (const auto& [number, only] : group.along) {
    const auto axis = static_cast<std::size_t>(number);
    const auto places = only.empty() ? first_numbers(mesh.axes[axis].size) : only;
    std::vector<std::vector<int>> more;
    for (const auto& coordinates : found)
      for (const int place : places) {
        more.push_back(coordinates);
        more.back()[axis] = place;
      }
    found = std::move(more);
  }
  std::vector<int> workers;
  for (const auto& coordinates : found) workers.push_back(mesh.worker(coordinates));
  return workers;
}

}  // namespace ddl
