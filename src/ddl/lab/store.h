#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ddl/core/json.h"

namespace ddl {

/// The results store: one SQLite file, written by the coordinator only. Workers never open it.
///
/// Every call is one transaction: a process killed at any instant leaves each run as it was after its last complete
/// call. WAL with synchronous=FULL on local file systems; on network ones (found by statfs) a rollback journal.
class Store {
 public:
  /// Opens or makes the file, and migrates an older schema forward in one transaction.
  /// Errors: corrupt (not a store, or damaged), unsupported (schema newer than this build; says both numbers),
  /// io (cannot be opened or written; says why).
  explicit Store(const std::string& path);
  ~Store();
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;

  const std::string& path() const;

  /// Puts a run record (docs/record.md), replacing the one of the same `id`. Errors: io; a full disk says so, and the
  /// record as it was before stays.
  void put(const Json& record);

  /// The record of a run. `id` may be a unique prefix, or "latest". Errors: not_found (with what is there),
  /// invalid_argument (ambiguous).
  Json get(const std::string& id) const;

  struct Row {
    std::string id, identity, study, name, state, started;
  };
  /// All runs, oldest first; of one study only, if named.
  std::vector<Row> rows(const std::string& study = "") const;

  /// Runs left `planned` or `running` by a coordinator that is gone become `interrupted`; says how many. A coordinator
  /// is known by process number, its start time and the machine's boot id, which put() keeps with such records.
  int settle();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddl
