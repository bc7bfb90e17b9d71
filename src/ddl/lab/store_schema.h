#pragma once

#include <string>

#include "ddl/lab/store_sqlite.h"

namespace ddl {

/// "ddlb" in the file's header tells a store from any other SQLite file.
inline constexpr int kStoreApplication = 0x64646c62;
/// The schema this build writes; PRAGMA user_version of the file.
inline constexpr int kStoreSchema = 1;

/// True for file systems whose locks and shared mappings hold only within one host (NFS, Lustre, CIFS, FUSE, …):
/// SQLite's write-ahead log needs shared memory between its users, so these get a rollback journal. `type` is statfs's.
bool is_network_file_system(long type);
/// The file system that holds `path`, or its folder where the file is not there yet. False where statfs fails.
bool on_network_file_system(const std::string& path);

/// Checks that the file is a store of a schema that this build knows, picks the journal, and brings the schema up to
/// date in one transaction. Whatever it refuses stays as it was.
/// Errors: corrupt (another file, damaged), unsupported (newer schema), io.
void prepare_schema(Database& database, bool network);

}  // namespace ddl
