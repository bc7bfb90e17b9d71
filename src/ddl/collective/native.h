#pragma once

#include <optional>
#include <string_view>

#include "ddl/collective/execute.h"
#include "ddl/collective/operation.h"
#include "ddl/transport/transport.h"

namespace ddl {

/// A collective by the transport's own library in place of a schedule: the word "native", or "native[meet=off]".
struct NativeChoice {
  /// Whether all ranks meet first, which names who does not come or is at something else. Off, a call costs what it costs a
  /// program of that library, and a rank that does not come ends the job after the timeout.
  bool meets = true;
};

/// Whether libraries have a collective of this goal.
bool is_native_goal(Goal goal);
/// Nothing where `word` is another algorithm's; what it says of any transport that has collectives of its own.
/// Errors: unsupported for another goal; invalid_argument for an option.
std::optional<NativeChoice> parse_native(Goal goal, std::string_view word);

/// Nothing where `word` is another algorithm's.
/// Errors: unsupported where the transport has no collectives of its own, or none for this goal; invalid_argument for an option.
std::optional<NativeChoice> choose_native(Goal goal, std::string_view word, Transport& transport);

/// A weighted sum weights the buffer before, an average divides the sum after: two passes more than a schedule.
/// Not the same bits on every run, and not counted in Transport::traffic(): both are the library's.
/// Errors: those of NativeCollectives::run().
void run_native(const NativeChoice& choice, Transport& transport, const Collective& what, const Buffer& buffer,
                const Signature& signature, Seconds timeout);

}  // namespace ddl
