#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ddl/cli/output.h"
#include "ddl/core/json.h"
#include "ddl/lab/config.h"
#include "ddl/lab/store.h"

namespace ddl {

/// Keeps run records where the user wants them. A record that the store cannot take is written beside it, or to
/// $TMPDIR, or in the last resort to standard error: it is never lost.
class Recorder {
 public:
  /// `store`: a file, or "none". Settles what a coordinator that is gone left behind. Errors: those of Store.
  Recorder(const std::string& store, const Output& output);

  /// Returns whether the record is where it belongs. Never throws.
  bool keep(const Json& record);
  /// Whether every record so far is.
  bool sound() const { return sound_; }
  /// Null for "none".
  Store* store() { return store_.get(); }

 private:
  void rescue(const Json& record, const std::string& why);
  /// Puts back what an earlier call rescued of this store's runs.
  void take_back();

  std::string path_;
  const Output& output_;
  std::unique_ptr<Store> store_;
  bool sound_ = true;
};

/// The record of a run that has not begun: state `planned`, a fresh id, everything known before it starts.
Json planned_record(const Experiment& experiment, const std::string& identity, const std::string& dataset_digest, int repeat);

/// An existing store, for commands that only read. Errors: not_found; those of Store.
Store open_existing(const std::string& path);

}  // namespace ddl
