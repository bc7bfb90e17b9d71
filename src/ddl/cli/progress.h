#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "ddl/cli/output.h"
#include "ddl/lab/run.h"

namespace ddl {

/// Shows how far a run is, on standard error: one line rewritten in place on a terminal, otherwise a plain line every
/// few seconds. Takes its line away when it goes. Threads: any.
class ProgressLine {
 public:
  explicit ProgressLine(const Output& output);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Run `index` of `of`, counted from 1, and what it is called.
  void begin(std::string name, int index, int of);
  /// Valid as long as this object.
  RunEvents events();
  /// A line that stays, above the moving one.
  void message(std::string_view line);

 private:
  void show(const Progress& progress);
  void clear();

  using Clock = std::chrono::steady_clock;
  const Output& output_;
  const bool terminal_;
  std::mutex mutex_;
  std::string name_;
  int index_ = 1, of_ = 1;
  Clock::time_point next_;
  bool drawn_ = false;
};

/// `[2/6] lenet, 2 workers, shm: step 12/30, 8120 samples/s, loss 1.93, 14 s left`
std::string describe(const Progress& progress);

}  // namespace ddl
