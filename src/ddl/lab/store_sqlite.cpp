#include "ddl/lab/store_sqlite.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "ddl/core/error.h"

namespace ddl {
namespace {

// Readers and a second coordinator hold their locks for milliseconds; a checkpoint of a large log for seconds.
constexpr int kBusyMilliseconds = 20'000;

}  // namespace

Database::Database(const std::string& path) : path_(path) {
  const int status = sqlite3_open_v2(path.c_str(), &handle_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  if (status != SQLITE_OK) {
    // The destructor does not run for a constructor that throws.
    sqlite3* handle = std::exchange(handle_, nullptr);
    int system = handle ? sqlite3_system_errno(handle) : 0;
    // SQLite looks for the file once more when it may not make it, and reports that it is not there.
    const auto folder = std::filesystem::path(path).parent_path();
    if (system == ENOENT && ::access(folder.empty() ? "." : folder.c_str(), W_OK) != 0) system = errno;
    const std::string why = system ? std::string(system_error("", system).what()).substr(2) : sqlite3_errstr(status);
    sqlite3_close(handle);
    throw Error(Code::io, fmt::format("[store] cannot open {}: {}", path, why));
  }
  sqlite3_extended_result_codes(handle_, 1);
  sqlite3_busy_timeout(handle_, kBusyMilliseconds);
}

Database::~Database() { sqlite3_close(handle_); }

void Database::fail(int status, std::string_view doing) const {
  const int system = sqlite3_system_errno(handle_);
  switch (status & 0xff) {
    case SQLITE_NOTADB:
      throw Error(Code::corrupt, fmt::format("[store] {} is not a ddlbench store: not an SQLite file", path_));
    case SQLITE_CORRUPT:
      throw Error(Code::corrupt,
                  fmt::format("[store] {} is damaged; {} met: {}", path_, doing, sqlite3_errmsg(handle_)));
    case SQLITE_FULL:
      throw Error(Code::io,
                  fmt::format("[store] cannot {} {}: the disk is full; what it held before is kept", doing, path_));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw Error(Code::io, fmt::format("[store] cannot {} {}: another process has kept it locked for {} s", doing,
                                        path_, kBusyMilliseconds / 1000));
    default:
      throw Error(Code::io, fmt::format("[store] cannot {} {}: {}{}", doing, path_, sqlite3_errmsg(handle_),
                                        system ? system_error("", system).what() : ""));
  }
}

void Database::execute(const std::string& sql) {
  const int status = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (status != SQLITE_OK) fail(status, "write");
}

void Database::execute_patiently(const std::string& sql) {
  constexpr std::chrono::milliseconds kPause{5};
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kBusyMilliseconds);
  int status = SQLITE_OK;
  do {
    status = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
    if ((status & 0xff) != SQLITE_BUSY) break;
    std::this_thread::sleep_for(kPause);
  } while (std::chrono::steady_clock::now() < until);
  if (status != SQLITE_OK) fail(status, "write");
}

std::int64_t Database::number(const std::string& sql) {
  const std::string value = text(sql);
  return value.empty() ? 0 : std::stoll(value);
}

std::string Database::text(const std::string& sql) {
  Statement statement(*this, sql);
  auto use = statement.use();
  return use.step() ? use.text(0) : "";
}

Statement::Statement(Database& database, std::string_view sql) : database_(database) {
  const int status = sqlite3_prepare_v3(database.handle(), sql.data(), static_cast<int>(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT, &handle_, nullptr);
  if (status != SQLITE_OK) database.fail(status, "read");
}

Statement::~Statement() { sqlite3_finalize(handle_); }

Statement::Use::~Use() {
  sqlite3_reset(statement_.handle_);
  sqlite3_clear_bindings(statement_.handle_);
}

Statement::Use& Statement::Use::bind(int place, std::string_view value) {
  check(sqlite3_bind_text64(statement_.handle_, place, value.data(), value.size(), SQLITE_STATIC, SQLITE_UTF8));
  return *this;
}
Statement::Use& Statement::Use::bind(int place, std::int64_t value) {
  check(sqlite3_bind_int64(statement_.handle_, place, value));
  return *this;
}
Statement::Use& Statement::Use::bind(int place, double value) {
  check(sqlite3_bind_double(statement_.handle_, place, value));
  return *this;
}
Statement::Use& Statement::Use::null(int place) {
  check(sqlite3_bind_null(statement_.handle_, place));
  return *this;
}

bool Statement::Use::step() {
  const int status = sqlite3_step(statement_.handle_);
  if (status == SQLITE_ROW) return true;
  if (status != SQLITE_DONE)
    statement_.database_.fail(status, sqlite3_stmt_readonly(statement_.handle_) ? "read" : "write");
  return false;
}

std::string Statement::Use::text(int column) const {
  const auto* bytes = sqlite3_column_text(statement_.handle_, column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_.handle_, column));
  return bytes ? std::string(reinterpret_cast<const char*>(bytes), size) : std::string();
}

void Statement::Use::check(int status) {
  if (status != SQLITE_OK) statement_.database_.fail(status, "bind a value for");
}

Transaction::Transaction(Database& database) : database_(database) { database_.execute("BEGIN IMMEDIATE"); }

Transaction::~Transaction() {
  // A full disk rolls back by itself; rolling back again would only report that nothing is open.
  if (open_ && !sqlite3_get_autocommit(database_.handle()))
    sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  database_.execute("COMMIT");
  open_ = false;
}

}  // namespace ddl
