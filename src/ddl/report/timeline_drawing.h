#pragma once

#include <array>
#include <set>
#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/report/trace_view.h"

namespace ddl {

/// More rows of one run than this are not read one by one.
inline constexpr std::size_t kTimelineRows = 16;
/// Rectangles of one run: a page of many runs stays one that opens.
inline constexpr std::size_t kRectangles = 4000;
// Of a worker's row, which is 1 high: compute, and below it, thin, communication.
inline constexpr double kComputeHeight = 0.66, kCommunicationTop = 0.7, kCommunicationHeight = 0.14;

/// What rectangles are coloured by, in the order of the legend.
struct Shade {
  const char* word;
  const char* colour;
};
inline constexpr std::array kShades{Shade{"load", "var(--cause-load)"},           Shade{"copy", "var(--cause-copy)"},
                             Shade{"forward", "var(--cause-forward)"},     Shade{"backward", "var(--cause-backward)"},
                             Shade{"weight gradient", "var(--cause-weight)"}, Shade{"update", "var(--cause-update)"},
                             Shade{"communication", "var(--cause-communication)"}, Shade{"wait", "var(--cause-wait)"},
                             Shade{"bubble", "var(--cause-bubble)"},       Shade{"harness", "var(--cause-harness)"}};

/// What of a trace is shown.
struct Window {
  Nanoseconds begin = 0, end = 0;
  int rank = -1;  ///< whose step it is, where it is one worker's alone
};

/// That step over all workers, or one worker's time of it where they were at it at different times.
Window window_of(const TraceView& view, int step);

/// The trace of all steps that touch the window, so that what others did meanwhile is shown, and nothing is blank that was not idle.
TraceView within(const TraceView& view, const Window& window);

struct Drawing {
  Nanoseconds begin = 0, end = 0;  ///< of the window
  Json rectangles = Json::array();
  Json numbers = Json::array();
  Json borders = Json::array();    ///< where a worker's step begins
  std::set<std::string> shades;

  double ms(Nanoseconds time) const { return static_cast<double>(time - begin) * 1e-6; }

  void add(const Period& when, double top, double height, const std::string& shade, const std::string& task, const std::string& worker, int step, double opacity);
};

/// Workers from above, each with the server below it that lives with it.
struct Row {
  int rank = 0;
  bool serves = false;

  std::string label() const;
};

/// All of the trace, or of more than kTimelineRows every `stride`-th worker with its server.
struct Rows {
  std::vector<Row> shown;
  std::size_t stride = 1;
};
Rows rows_of(const TraceView& view);

/// What the rows did over the window. Micro-batches are numbered where `numbered`.
Drawing draw(const TraceView& view, const Window& window, const std::vector<Row>& rows, bool numbered);

}  // namespace ddl
