#include "ddl/lab/store_schema.h"

#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "ddl/core/error.h"

namespace ddl {
namespace {

// Step i brings a file of schema i to schema i + 1. A step that was released is never changed.
constexpr std::array<const char*, kStoreSchema> kSteps{
    R"(CREATE TABLE runs (
         id TEXT PRIMARY KEY NOT NULL,
         identity TEXT NOT NULL,     -- equal = the same experiment
         study TEXT NOT NULL,
         name TEXT NOT NULL,         -- the record's `case`
         state TEXT NOT NULL,
         subject TEXT NOT NULL,
         model TEXT NOT NULL,
         workers INTEGER,
         started TEXT NOT NULL,      -- UTC, sorts as text
         throughput REAL,            -- samples/s, median
         coordinator TEXT,           -- of a run that is planned or running
         record TEXT NOT NULL        -- the whole of it, docs/record.md
       );
       CREATE INDEX runs_by_start ON runs (study, started);
       CREATE INDEX runs_by_identity ON runs (identity);)"};

/// An SQLite file that nothing was ever put into: new, or its first coordinator died before the first commit.
bool is_blank(Database& database) {
  return database.number("PRAGMA application_id") == 0 && database.number("PRAGMA user_version") == 0 &&
         database.number("SELECT count(*) FROM sqlite_schema") == 0;
}

void refuse_what_is_not_ours(Database& database) {
  const auto application = database.number("PRAGMA application_id");
  if (application != kStoreApplication)
    throw Error(Code::corrupt, fmt::format("[store] {} is not a ddlbench store: an SQLite file of another program; got "
                                           "application id {:#x}, expected {:#x}",
                                           database.path(), application, kStoreApplication));
  const auto schema = database.number("PRAGMA user_version");
  if (schema > kStoreSchema)
    throw Error(Code::unsupported,
                fmt::format("[store] {} was written by a newer ddlbench; got schema {}, expected {} or "
                            "older. The file was left as it is",
                            database.path(), schema, kStoreSchema));
}

void pick_journal(Database& database, bool network) {
  const std::string wanted = network ? "delete" : "wal";
  if (database.text("PRAGMA journal_mode") != wanted) database.execute_patiently("PRAGMA journal_mode=" + wanted);
  // With a rollback journal EXTRA also syncs the folder after the journal is unlinked, which FULL does not.
  const bool wal = database.text("PRAGMA journal_mode") == "wal";
  database.execute(wal ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=EXTRA");
}

}  // namespace

bool is_network_file_system(long type) {
  // linux/magic.h, and the file systems' own headers for those it lacks.
  constexpr std::array<unsigned long, 15> kNetwork{
      0x6969,      // NFS
      0x517B,      // SMB
      0xFF534D42,  // CIFS
      0xFE534D42,  // SMB2
      0x0BD00BD0,  // Lustre
      0x47504653,  // GPFS
      0x19830326,  // BeeGFS
      0xAAD7AAEA,  // PanFS
      0x00C36400,  // Ceph
      0x5346414F,  // AFS
      0x6B414653,  // kAFS
      0x01021997,  // 9p
      0x73757245,  // Coda
      0x7461636F,  // OCFS2
      0x65735546,  // FUSE: sshfs, s3fs and others, so the careful answer
  };
  // statfs's field is signed on some machines: CIFS must not turn negative.
  const auto magic = static_cast<unsigned long>(type) & 0xFFFFFFFFUL;
  return std::find(kNetwork.begin(), kNetwork.end(), magic) != kNetwork.end();
}

bool on_network_file_system(const std::string& path) {
  struct statfs found {};
  if (::statfs(path.c_str(), &found) == 0) return is_network_file_system(static_cast<long>(found.f_type));
  const auto folder = std::filesystem::path(path).parent_path();
  if (::statfs(folder.empty() ? "." : folder.c_str(), &found) != 0) return false;
  return is_network_file_system(static_cast<long>(found.f_type));
}

void prepare_schema(Database& database, bool network) {
  if (!is_blank(database)) refuse_what_is_not_ours(database);
  pick_journal(database, network);
  if (database.number("PRAGMA user_version") == kStoreSchema) return;

  Transaction transaction(database);
  // Another process may have migrated while this one waited for the lock.
  if (!is_blank(database)) refuse_what_is_not_ours(database);
  for (auto schema = database.number("PRAGMA user_version"); schema < kStoreSchema; ++schema)
    database.execute(kSteps[static_cast<std::size_t>(schema)]);
  database.execute(fmt::format("PRAGMA application_id={}", kStoreApplication));
  database.execute(fmt::format("PRAGMA user_version={}", kStoreSchema));
  transaction.commit();
}

}  // namespace ddl
