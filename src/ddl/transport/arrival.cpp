#include "ddl/transport/arrival.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ddl/core/error.h"

namespace ddl {

void note_arrivals(int fd) {
  const int on = 1;
  if (::setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) != 0)
    throw system_error("[tcp] the kernel does not note arrivals", errno);
}

ssize_t read_with_arrival(int fd, std::span<iovec> parts, Nanoseconds& arrived) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(timespec))];
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const auto moved = ::recvmsg(fd, &message, MSG_DONTWAIT);
  if (moved <= 0) return moved;
  arrived = now();
  for (const cmsghdr* note = CMSG_FIRSTHDR(&message); note != nullptr; note = CMSG_NXTHDR(&message, const_cast<cmsghdr*>(note))) {
    if (note->cmsg_level != SOL_SOCKET || note->cmsg_type != SCM_TIMESTAMPNS) continue;
    // The kernel writes the time of day. Only the age is taken over, so that a clock that was set changes one message.
    timespec came{}, today{};
    std::memcpy(&came, CMSG_DATA(note), sizeof came);
    ::clock_gettime(CLOCK_REALTIME, &today);
    const Nanoseconds age = (today.tv_sec - came.tv_sec) * 1'000'000'000 + (today.tv_nsec - came.tv_nsec);
    arrived -= std::max<Nanoseconds>(age, 0);
  }
  return moved;
}

}  // namespace ddl
