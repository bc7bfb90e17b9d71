#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <span>

#include "ddl/measure/clock.h"
#include "ddl/transport/unique_fd.h"

namespace ddl {

/// From when this returns, and for as long as what it returns is open, the kernel writes down when packets come to this
/// machine. It takes a moment to begin, so that it must be asked before there is something to note.
/// Errors: io; timeout where it has not begun after 5 s.
UniqueFd begin_to_note_arrivals();

/// What it writes down is told with what is read from this TCP socket; also goes on as above. Errors: io.
void note_arrivals(int fd);

/// As readv(). Where it read something, `arrived` is when the last byte of that came to this machine's kernel, by
/// now()'s clock; the moment of reading where the kernel has not noted it.
ssize_t read_with_arrival(int fd, std::span<iovec> parts, Nanoseconds& arrived);

}  // namespace ddl
