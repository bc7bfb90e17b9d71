#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <span>

#include "ddl/measure/clock.h"

namespace ddl {

/// Lets the kernel write down when bytes come to a connected TCP socket, whoever reads them when. Errors: io.
void note_arrivals(int fd);

/// As readv(). Where it read something, `arrived` is when the last byte of that came to this machine's kernel, by now()'s
/// clock; while the kernel has just begun to write it down, the moment of reading.
ssize_t read_with_arrival(int fd, std::span<iovec> parts, Nanoseconds& arrived);

}  // namespace ddl
