#include "ddl/lab/store.h"

#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/core/random.h"
#include "ddl/lab/store_owner.h"
#include "ddl/lab/store_schema.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;

struct TemporaryFolder {
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "ddl-store-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string file(const std::string& name = "results.db") const { return (path / name).string(); }
  fs::path path;
};

Json record(const std::string& id, const std::string& state = "ok", std::size_t padding = 0) {
  return {{"schema", "ddlbench.run/1"}, {"id", id}, {"state", state}, {"identity", "abc"}, {"study", "first"},
          {"case", "lenet, 1 worker"}, {"started", "2026-11-21T10:15:" + id.substr(0, 2) + "Z"},
          {"config", {{"model", "lenet"}, {"workers", 1}}}, {"throughput", {{"median", 812.5}}},
          {"messages", Json::array({std::string(padding, 'x')})}};
}

Error caught(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no Error was thrown";
  return Error(Code::invalid_argument, "none");
}

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void pragma(const std::string& path, const std::string& sql) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &handle), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(handle);
  sqlite3_close(handle);
}

std::string integrity(const std::string& path) {
  Database database(path);
  return database.text("PRAGMA integrity_check");
}

TEST(Store, GivesBackWhatWasPut) {
  TemporaryFolder folder;
  Store store(folder.file());
  store.put(record("10-a", "running"));
  auto finished = record("10-a", "ok");
  finished["step_ms"]["samples"] = {8.1, 7.9, 0.1};
  store.put(finished);
  EXPECT_EQ(store.get("10-a"), finished);
  ASSERT_EQ(store.rows().size(), 1u);
  EXPECT_EQ(store.rows()[0].state, "ok");
  EXPECT_EQ(store.rows()[0].name, "lenet, 1 worker");
  EXPECT_EQ(Store(folder.file()).get("latest"), finished);
}

TEST(Store, ListsOldestFirstAndByStudy) {
  TemporaryFolder folder;
  Store store(folder.file());
  auto other = record("30-c");
  other["study"] = "second";
  store.put(other);
  store.put(record("20-b"));
  store.put(record("10-a"));
  const auto rows = store.rows();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].id, "10-a");
  EXPECT_EQ(rows[2].id, "30-c");
  EXPECT_EQ(store.rows("first").size(), 2u);
  EXPECT_EQ(store.rows("none").size(), 0u);
  EXPECT_EQ(store.get("latest")["id"], "30-c");
}

TEST(Store, FindsByUniquePrefixOnly) {
  TemporaryFolder folder;
  Store store(folder.file());
  EXPECT_EQ(caught([&] { store.get("latest"); }).code(), Code::not_found);
  store.put(record("10-ab"));
  store.put(record("10-ac"));
  store.put(record("10-a"));
  EXPECT_EQ(store.get("10-ab")["id"], "10-ab");
  EXPECT_EQ(store.get("10-a")["id"], "10-a") << "an exact id wins over longer ones";
  const auto ambiguous = caught([&] { store.get("10-"); });
  EXPECT_EQ(ambiguous.code(), Code::invalid_argument);
  EXPECT_NE(std::string(ambiguous.what()).find("10-ab"), std::string::npos);
  const auto missing = caught([&] { store.get("99"); });
  EXPECT_EQ(missing.code(), Code::not_found);
  EXPECT_NE(std::string(missing.what()).find("10-ac"), std::string::npos) << missing.what();
  EXPECT_EQ(caught([&] { store.get("%"); }).code(), Code::not_found) << "no wildcards";
}

TEST(Store, TakesARecordWithNothingButAnIdAndBytesThatAreNoText) {
  TemporaryFolder folder;
  Store store(folder.file());
  store.put({{"id", "x"}, {"config", nullptr}, {"messages", {"\xff\xfe"}}, {"throughput", {{"median", nullptr}}}});
  EXPECT_EQ(store.get("x")["id"], "x");
  EXPECT_EQ(caught([&] { store.put(Json::object()); }).code(), Code::invalid_argument);
}

TEST(Store, LeavesANewerSchemaUntouchedAndNamesBothNumbers) {
  TemporaryFolder folder;
  { Store(folder.file()).put(record("10-a")); }
  pragma(folder.file(), "PRAGMA user_version=7");
  const auto before = content(folder.file());
  const auto error = caught([&] { Store store(folder.file()); });
  EXPECT_EQ(error.code(), Code::unsupported);
  const std::string what = error.what();
  EXPECT_NE(what.find("schema 7"), std::string::npos) << what;
  EXPECT_NE(what.find("expected 1"), std::string::npos) << what;
  EXPECT_NE(what.find(folder.file()), std::string::npos) << what;
  EXPECT_EQ(content(folder.file()), before);
}

TEST(Store, RefusesWhatIsNoStoreAndLeavesIt) {
  TemporaryFolder folder;
  const std::string text = folder.file("notes.txt"), other = folder.file("other.db");
  std::ofstream(text) << "these are notes, and by no means a database of any kind\n";
  pragma(other, "CREATE TABLE songs (title)");
  for (const auto& path : {text, other}) {
    const auto before = content(path);
    const auto error = caught([&] { Store store(path); });
    EXPECT_EQ(error.code(), Code::corrupt) << error.what();
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos);
    EXPECT_EQ(content(path), before);
  }
}

TEST(Store, ReportsDamage) {
  TemporaryFolder folder;
  {
    Store store(folder.file());
    for (int i = 10; i < 40; ++i) store.put(record(std::to_string(i), "ok", 9000));
  }
  fs::resize_file(folder.file(), fs::file_size(folder.file()) / 2);
  EXPECT_EQ(caught([&] { Store(folder.file()).get("30"); }).code(), Code::corrupt);
  {
    std::fstream file(folder.file(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file << std::string(4000, '\x5a');
  }
  EXPECT_EQ(caught([&] { Store(folder.file()).rows(); }).code(), Code::corrupt);
}

TEST(Store, SaysWhyAPathCannotBeOpened) {
  TemporaryFolder folder;
  for (const auto& [path, code] : {std::pair{folder.file("no/such/folder.db"), Code::io}, {folder.path.string(), Code::invalid_argument},
                                   {std::string("/dev/null"), Code::invalid_argument}}) {
    const auto error = caught([&] { Store store(path); });
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
  }
}

/// Puts ever more into a store on a disk of limited size until it refuses; everything put before must be there.
void fill_until_refused(const std::string& path) {
  std::vector<std::string> kept;
  {
    Store store(path);
    store.put(record("00", "ok", 100));
    Error last(Code::invalid_argument, "nothing was refused");
    try {
      for (int i = 10; i < 99; ++i) {
        store.put(record(std::to_string(i), "ok", 20'000));
        kept.push_back(std::to_string(i));
      }
    } catch (const Error& error) {
      last = error;
    }
    EXPECT_EQ(last.code(), Code::io) << last.what();
    EXPECT_NE(std::string(last.what()).find(path), std::string::npos) << last.what();
    EXPECT_EQ(caught([&] { store.put(record("00", "failed", 2'000'000)); }).code(), Code::io);
    EXPECT_EQ(store.get("00")["state"], "ok") << "the record as it was before stays";
    for (const auto& id : kept) EXPECT_EQ(store.get(id)["id"], id);
  }
  EXPECT_FALSE(kept.empty());
  EXPECT_EQ(integrity(path), "ok");
  EXPECT_EQ(Store(path).rows().size(), kept.size() + 1);
}

/// In a process of its own: a file size limit, once lowered, must not bear on other tests.
int in_child(const std::function<void()>& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    action();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(Store, SurvivesALimitOnFileSize) {
  TemporaryFolder folder;
  EXPECT_EQ(in_child([&] {
              std::signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{400'000, 400'000};
              ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
              fill_until_refused(folder.file());
            }),
            0);
}

TEST(Store, SurvivesAFullDisk) {
  TemporaryFolder folder;
  // Where this process may not mount, the same error comes from SQLite's own limit on pages in a file.
  if (::mount("none", folder.path.c_str(), "tmpfs", 0, "size=400k") == 0) {
    fill_until_refused(folder.file());
    EXPECT_EQ(::umount2(folder.path.c_str(), MNT_DETACH), 0);
  } else {
    Database database(folder.file());
    prepare_schema(database, false);
    database.execute("PRAGMA max_page_count=20");
    const auto error = caught([&] {
      database.execute("INSERT INTO runs VALUES ('a','','','','','','',1,'',1,'',hex(zeroblob(1000000)))");
    });
    EXPECT_EQ(error.code(), Code::io);
    EXPECT_NE(std::string(error.what()).find("disk is full"), std::string::npos) << error.what();
    EXPECT_EQ(database.text("PRAGMA integrity_check"), "ok");
  }
}

TEST(Store, SettlesRunsOfCoordinatorsThatAreGone) {
  TemporaryFolder folder;
  EXPECT_EQ(in_child([&] {
              Store store(folder.file());
              store.put(record("10-gone", "running"));
              store.put(record("11-planned", "planned"));
              store.put(record("12-done", "ok"));
            }),
            0);
  Store store(folder.file());
  store.put(record("20-mine", "running"));
  EXPECT_EQ(store.settle(), 2);
  EXPECT_EQ(store.get("10-gone")["state"], "interrupted");
  EXPECT_NE(store.get("10-gone")["reason"].get<std::string>().find("coordinator"), std::string::npos);
  EXPECT_EQ(store.get("11-planned")["state"], "interrupted");
  EXPECT_EQ(store.get("12-done")["state"], "ok");
  EXPECT_EQ(store.get("20-mine")["state"], "running");
  EXPECT_EQ(store.settle(), 0);
}

TEST(StoreOwner, KnowsAProcessByNumberStartAndBoot) {
  const Owner self = this_process();
  EXPECT_EQ(owner_from_text(to_text(self)), self);
  EXPECT_FALSE(is_gone(self, false));
  Owner reused = self;
  reused.start += 1;
  EXPECT_TRUE(is_gone(reused, false));
  Owner elsewhere = self;
  elsewhere.boot = "another boot";
  elsewhere.host = "another host";
  EXPECT_TRUE(is_gone(elsewhere, false));
  EXPECT_FALSE(is_gone(elsewhere, true)) << "its processes cannot be seen from here";
  EXPECT_TRUE(is_gone(owner_from_text("not an owner"), false));
}

TEST(Store, PicksTheJournalByFileSystem) {
  EXPECT_TRUE(is_network_file_system(0x6969));
  EXPECT_TRUE(is_network_file_system(static_cast<int>(0xFF534D42))) << "CIFS where statfs's field is signed";
  EXPECT_FALSE(is_network_file_system(0xef53)) << "ext4";
  for (const bool network : {false, true}) {
    TemporaryFolder folder;
    Database database(folder.file());
    prepare_schema(database, network);
    EXPECT_EQ(database.text("PRAGMA journal_mode"), network ? "delete" : "wal");
    EXPECT_EQ(database.number("PRAGMA synchronous"), network ? 3 : 2);
  }
}

TEST(Store, IsReadByOtherProcessesWhileItIsWritten) {
  TemporaryFolder folder;
  Store store(folder.file());
  store.put(record("10-a"));
  std::vector<pid_t> readers;
  for (int r = 0; r < 3; ++r) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::size_t seen = 0;
      try {
        for (int i = 0; i < 60; ++i) {
          Store reader(folder.file());
          const auto now = reader.rows().size();
          if (now < seen || reader.get("latest")["state"] != "ok") ::_exit(2);
          seen = now;
        }
      } catch (const std::exception& error) {
        std::fprintf(stderr, "reader: %s\n", error.what());
        ::_exit(1);
      }
      ::_exit(0);
    }
    readers.push_back(child);
  }
  for (int i = 100; i < 300; ++i) store.put(record(std::to_string(i), "ok", 2000));
  for (const auto reader : readers) {
    int status = -1;
    ::waitpid(reader, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(store.rows().size(), 201u);
}

TEST(Store, CanBeMadeByManyAtOnce) {
  TemporaryFolder folder;
  std::vector<pid_t> makers;
  for (int i = 0; i < 6; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        Store(folder.file()).put(record(std::to_string(10 + i)));
      } catch (const std::exception& error) {
        std::fprintf(stderr, "maker: %s\n", error.what());
        ::_exit(1);
      }
      ::_exit(0);
    }
    makers.push_back(child);
  }
  for (const auto maker : makers) {
    int status = -1;
    ::waitpid(maker, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(Store(folder.file()).rows().size(), 6u);
}

TEST(Store, KeepsEveryCommittedRunWhenTheWriterIsKilled) {
  TemporaryFolder folder;
  Random random(7);
  std::set<std::string> committed;
  int torn = 0;
  for (int round = 10; round < 40; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t writer = ::fork();
    if (writer == 0) {
      Store store(folder.file());
      for (int i = 0;; ++i) {
        const std::string id = std::to_string(round) + "-" + std::to_string(100'000 + i);
        store.put(record(id, "running"));
        store.put(record(id, "ok", 3000));
        // The parent learns of an id only after put() returned.
        if (::write(ends[1], (id + "\n").data(), id.size() + 1) < 0) ::_exit(1);
      }
    }
    ::close(ends[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(60'000)));
    ::kill(writer, SIGKILL);
    ::waitpid(writer, nullptr, 0);
    std::string said;
    char buffer[4096];
    for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;) said.append(buffer, static_cast<std::size_t>(n));
    ::close(ends[0]);
    for (std::size_t at = 0, end; (end = said.find('\n', at)) != std::string::npos; at = end + 1)
      committed.insert(said.substr(at, end - at));

    EXPECT_EQ(integrity(folder.file()), "ok");
    Store store(folder.file());
    torn += store.settle();
    std::set<std::string> complete;
    for (const auto& row : store.rows())
      if (row.state == "ok") complete.insert(row.id);
    for (const auto& id : committed) ASSERT_TRUE(complete.contains(id)) << id << " was committed and is lost";
  }
  EXPECT_GT(committed.size(), 30u) << "the kills came before anything was written";
  EXPECT_EQ(Store(folder.file()).get(*committed.rbegin())["messages"][0].get<std::string>().size(), 3000u);
  RecordProperty("killed_between_the_two_puts", torn);
}

}  // namespace
}  // namespace ddl
