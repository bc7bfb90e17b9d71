#include "ddl/cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "ddl/core/error.h"

namespace ddl {
namespace {

std::string duration(double seconds) {
  const auto whole = static_cast<long>(std::lround(seconds));
  if (whole < 120) return fmt::format("{} s", whole);
  if (whole < 7200) return fmt::format("{} min", (whole + 30) / 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

/// Cut to the terminal's width between code points: a line that wraps cannot be rewritten.
std::string fitted(std::string text) {
  winsize size{};
  const std::size_t width = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1U : 79U;
  std::size_t shown = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80 && shown++ == width) return text.substr(0, i);
  return text;
}

void write_error(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

std::string describe(const Progress& progress) {
  std::string text = progress.of > 1 ? fmt::format("[{}/{}] ", progress.index, progress.of) : "";
  if (!progress.name.empty()) text += progress.name + ": ";
  if (progress.step == 0 && !progress.phase.empty()) return text + progress.phase;
  text += progress.phase.empty() || progress.phase == "training" ? "step" : progress.phase + ", step";
  text += progress.steps > 0 ? fmt::format(" {}/{}", progress.step, progress.steps) : fmt::format(" {}", progress.step);
  if (progress.samples_per_s > 0) text += fmt::format(", {:.{}f} samples/s", progress.samples_per_s, progress.samples_per_s < 100 ? 1 : 0);
  if (progress.step > 0 && std::isfinite(progress.loss)) text += fmt::format(", loss {:.3f}", progress.loss);
  if (progress.seconds_left > 0 && std::isfinite(progress.seconds_left)) text += fmt::format(", {} left", duration(progress.seconds_left));
  return text;
}

ProgressLine::ProgressLine(const Output& output)
    : output_(output), terminal_(::isatty(STDERR_FILENO) == 1), next_(Clock::now()) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::begin(std::string name, int index, int of) {
  const std::lock_guard lock(mutex_);
  name_ = std::move(name);
  index_ = index;
  of_ = of;
  // A terminal shows the first sign of life at once; a log is spared what a short run says anyway at its end.
  next_ = Clock::now() + std::chrono::seconds(terminal_ ? 0 : 2);
}

RunEvents ProgressLine::events() {
  RunEvents events;
  events.progress = [this](const Progress& progress) { show(progress); };
  events.message = [this](std::string_view line) { message(line); };
  return events;
}

void ProgressLine::message(std::string_view line) {
  const std::lock_guard lock(mutex_);
  clear();
  output_.say(line);
}

void ProgressLine::show(const Progress& progress) {
  const std::lock_guard lock(mutex_);
  if (output_.quiet || Clock::now() < next_) return;
  next_ = Clock::now() + (terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(5000));
  auto placed = progress;
  placed.index = index_;
  placed.of = of_;
  if (!name_.empty()) placed.name = name_;
  const auto text = describe(placed);
  write_error(terminal_ ? "\r\x1b[K" + fitted(text) : text + "\n");
  drawn_ = terminal_;
}

void ProgressLine::clear() {
  if (drawn_) write_error("\r\x1b[K");
  drawn_ = false;
}

}  // namespace ddl
