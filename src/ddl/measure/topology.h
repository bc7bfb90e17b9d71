#pragma once

#include <memory>
#include <string>
#include <vector>

namespace ddl {

/// The processing units (PUs: hardware threads, by the kernel's numbers) that threads may be bound to, and how they lie in cores, caches and packages, as hwloc knows it.
/// Threads: a value of one thread.
class Topology {
 public:
  /// This machine's, of the PUs that the calling thread may use.
  /// Errors: unsupported where hwloc cannot tell, or tells of another machine ($HWLOC_SYNTHETIC, $HWLOC_XMLFILE).
  Topology();
  /// One that is made up, as hwloc's synthetic descriptions have it ("pack:2 core:4 pu:2"); `usable`: those PUs alone, empty: all.
  /// Errors: invalid_argument.
  explicit Topology(const std::string& description, const std::vector<int>& usable = {});
  ~Topology();
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  /// In the order in which they lie.
  std::vector<int> usable() const;
  /// How many there are for this process's control group, whatever the calling thread is bound to.
  int all() const;

  /// PUs for workers of so many threads each, every PU for one thread: of a core of its own where there are as many cores, else all
  /// hardware threads of a core before the next. A worker's lie near each other, workers far from each other.
  /// Empty where there are fewer PUs than threads.
  std::vector<std::vector<int>> place(const std::vector<int>& threads) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddl
