#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <sqlite3.h>

namespace ddl {

/// One connection to an SQLite file. Every failure becomes an Error that names the file: corrupt for what is damaged or
/// no database, io for all else (full disk, no permission, a lock held for longer than the busy time).
class Database {
 public:
  /// Opens for reading and writing, and makes the file if there is none. Errors: io, corrupt.
  explicit Database(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const std::string& path() const { return path_; }
  sqlite3* handle() const { return handle_; }

  void execute(const std::string& sql);
  /// For the few statements on which SQLite does not wait for a lock by itself (a change of journal): tries again
  /// until the busy time is over.
  void execute_patiently(const std::string& sql);
  /// The first column of the first row.
  std::int64_t number(const std::string& sql);
  std::string text(const std::string& sql);
  /// Throws the Error for what SQLite just reported.
  [[noreturn]] void fail(int status, std::string_view doing) const;

 private:
  std::string path_;
  sqlite3* handle_ = nullptr;
};

/// A prepared statement, used again for each call. Text that is bound must outlive the use.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  /// Makes it ready again at the end of a scope, so that no read lock outlives a call.
  class Use {
   public:
    explicit Use(Statement& statement) : statement_(statement) {}
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    Use& bind(int place, std::string_view value);
    Use& bind(int place, std::int64_t value);
    Use& bind(int place, double value);
    /// An absent value is NULL.
    template <typename Value>
    Use& bind(int place, const std::optional<Value>& value) {
      return value ? bind(place, *value) : null(place);
    }
    Use& null(int place);

    /// True where there is a row.
    bool step();
    std::string text(int column) const;

   private:
    void check(int status);
    Statement& statement_;
  };
  Use use() { return Use(*this); }

 private:
  Database& database_;
  sqlite3_stmt* handle_ = nullptr;
};

/// A write transaction: rolled back unless committed.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace ddl
