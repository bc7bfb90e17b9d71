#include "ddl/measure/topology.h"

#include <hwloc.h>

#include <cerrno>
#include <climits>
#include <cstddef>
#include <functional>
#include <numeric>

#include "ddl/core/error.h"
#include "ddl/measure/affinity.h"

namespace ddl {
namespace {

struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Handle = std::unique_ptr<hwloc_topology, DestroyTopology>;

Bitmap bitmap_of(const std::vector<int>& units) {
  Bitmap bitmap(hwloc_bitmap_alloc());
  for (const int unit : units) hwloc_bitmap_set(bitmap.get(), static_cast<unsigned>(unit));
  return bitmap;
}

Bitmap copy_of(hwloc_const_bitmap_t bitmap) { return Bitmap(hwloc_bitmap_dup(bitmap)); }

Handle load(const std::function<void(hwloc_topology_t)>& describe) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) throw system_error("[topology] hwloc cannot start", errno);
  Handle handle(made);
  describe(made);
  if (hwloc_topology_load(made) != 0) throw Error(Code::unsupported, "[topology] hwloc cannot tell how this machine's cores lie");
  return handle;
}

Handle within(hwloc_topology_t whole, hwloc_const_bitmap_t units) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_dup(&made, whole) != 0) throw system_error("[topology] hwloc cannot copy", errno);
  Handle handle(made);
  if (hwloc_topology_restrict(made, units, HWLOC_RESTRICT_FLAG_REMOVE_CPULESS) != 0) throw system_error("[topology] no core of this machine may be used", errno);
  return handle;
}

/// In the order in which they lie.
std::vector<int> units_within(hwloc_topology_t topology, hwloc_const_bitmap_t set) {
  std::vector<int> units;
  for (hwloc_obj_t unit = nullptr; (unit = hwloc_get_next_obj_inside_cpuset_by_type(topology, set, HWLOC_OBJ_PU, unit)) != nullptr;) units.push_back(static_cast<int>(unit->os_index));
  return units;
}

std::vector<int> units_of(hwloc_topology_t topology) { return units_within(topology, hwloc_topology_get_topology_cpuset(topology)); }

/// Each worker the first PUs of its share of the machine; empty where some share is too small.
std::vector<std::vector<int>> shares(hwloc_topology_t topology, const std::vector<int>& threads) {
  std::vector<hwloc_bitmap_t> sets(threads.size(), nullptr);
  auto root = hwloc_get_root_obj(topology);
  hwloc_distrib(topology, &root, 1, sets.data(), static_cast<unsigned>(threads.size()), INT_MAX, 0);
  std::vector<std::vector<int>> all;
  bool fits = true;
  for (std::size_t worker = 0; worker < threads.size(); ++worker) {
    const Bitmap share(sets[worker]);
    auto units = units_within(topology, share.get());
    const auto wanted = static_cast<std::size_t>(threads[worker]);
    fits = fits && units.size() >= wanted;
    if (fits) units.resize(wanted);
    all.push_back(std::move(units));
  }
  return fits ? all : std::vector<std::vector<int>>{};
}

/// One worker beside the other.
std::vector<std::vector<int>> in_a_row(hwloc_topology_t topology, const std::vector<int>& threads) {
  const auto units = units_of(topology);
  std::vector<std::vector<int>> all;
  auto next = units.begin();
  for (const int count : threads) {
    all.emplace_back(next, next + count);
    next += count;
  }
  return all;
}

}  // namespace

struct Topology::Impl {
  Handle handle;  ///< of what may be used
  int all = 0;
};

Topology::Topology() : impl_(std::make_unique<Impl>()) {
  const auto whole = load([](hwloc_topology_t) {});
  if (hwloc_topology_is_thissystem(whole.get()) == 0) throw Error(Code::unsupported, "[topology] hwloc was told of another machine than this one, by a variable HWLOC_…");
  impl_->all = hwloc_bitmap_weight(hwloc_topology_get_topology_cpuset(whole.get()));
  impl_->handle = within(whole.get(), bitmap_of(affinity()).get());
}

Topology::Topology(const std::string& description, const std::vector<int>& usable) : impl_(std::make_unique<Impl>()) {
  auto whole = load([&](hwloc_topology_t made) {
    if (hwloc_topology_set_synthetic(made, description.c_str()) != 0)
      throw Error(Code::invalid_argument, fmt::format("[topology] not a description; got '{}', expected one as 'pack:2 core:4 pu:2'", description));
  });
  impl_->all = hwloc_bitmap_weight(hwloc_topology_get_topology_cpuset(whole.get()));
  impl_->handle = usable.empty() ? std::move(whole) : within(whole.get(), bitmap_of(usable).get());
}

Topology::~Topology() = default;

std::vector<int> Topology::usable() const { return units_of(impl_->handle.get()); }
int Topology::all() const { return impl_->all; }

std::vector<std::vector<int>> Topology::place(const std::vector<int>& threads) const {
  auto* const topology = impl_->handle.get();
  const int wanted = std::accumulate(threads.begin(), threads.end(), 0);
  const auto units = copy_of(hwloc_topology_get_topology_cpuset(topology));
  if (wanted == 0 || wanted > hwloc_bitmap_weight(units.get())) return {};
  const auto cores = copy_of(units.get());
  hwloc_bitmap_singlify_per_core(topology, cores.get(), 0);
  // Where each thread has a core to itself, a core counts once however many hardware threads it has: hwloc shares by their number.
  const auto candidates = within(topology, wanted <= hwloc_bitmap_weight(cores.get()) ? cores.get() : units.get());
  const auto spread = shares(candidates.get(), threads);
  return spread.empty() ? in_a_row(candidates.get(), threads) : spread;
}

}  // namespace ddl
