#include "ddl/train/failure.h"

#include <c10/util/Exception.h>

#include "ddl/core/error.h"
#include "ddl/core/units.h"

namespace ddl {
namespace {

/// In one line: what was asked for, what was held, and by whom.
std::string out_of_memory(const std::exception& error, const Shortage& shortage) {
  std::string why;
  if (const auto* const gpu = dynamic_cast<const c10::OutOfMemoryError*>(&error)) {
    // What follows its first two sentences is advice about PyTorch.
    const std::string said = gpu->what_without_backtrace();
    why = ": " + said.substr(0, said.find(". ", said.find(". ") + 1));
  }
  return fmt::format("[worker] out of memory{}{}; the most held by tensors was {}, {}{}",
                     shortage.use.refused > 0 ? fmt::format(": no {} more", to_string(Bytes{shortage.use.refused})) : "", why, to_string(Bytes{shortage.use.peak}),
                     to_string(shortage.holds), shortage.planned ? ", planned for a step; there was too little before the first one" : "");
}

Json failure_json(const std::exception& error, const std::optional<Shortage>& shortage) {
  const auto said = [&](std::string_view code, const std::string& message) {
    return Json{{"code", code}, {"message", message}, {"memory_bytes", shortage ? shortage->memory : Json(nullptr)}};
  };
  if (shortage) return said("memory", out_of_memory(error, *shortage));
  if (const auto* const ours = dynamic_cast<const Error*>(&error)) return said(name(ours->code()), ours->what());
  if (const auto* const torch = dynamic_cast<const c10::Error*>(&error)) return said("torch", torch->what_without_backtrace());
  return said("unknown", error.what());
}

}  // namespace

void tell_failure(Control& control, const std::exception& error, const std::optional<Shortage>& shortage) {
  const auto failure = failure_json(error, shortage).dump();
  try {
    control.send(MessageType::failed, failure);
  } catch (const Error&) {
    // The coordinator is gone: nobody is left to tell.
  }
}

}  // namespace ddl
