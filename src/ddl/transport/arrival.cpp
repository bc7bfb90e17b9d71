#include "ddl/transport/arrival.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ddl/core/error.h"

namespace ddl {

UniqueFd begin_to_note_arrivals() {
  UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) throw system_error("[tcp] cannot make a socket", errno);
  note_arrivals(fd.get());
  sockaddr_in self{};
  self.sin_family = AF_INET;
  self.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof self;
  // Where there is no loopback we cannot look whether it has begun: the first messages may be late for longer.
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&self), length) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&self), &length) != 0)
    return fd;
  constexpr Nanoseconds kApart = 200'000;
  for (const Nanoseconds begin = now(); now() - begin < 5'000'000'000;) {
    char letter = 0;
    if (::sendto(fd.get(), &letter, 1, 0, reinterpret_cast<const sockaddr*>(&self), length) != 1) return fd;
    const Nanoseconds sent = now();
    const timespec pause{0, kApart};
    ::nanosleep(&pause, nullptr);
    Nanoseconds arrived = 0;
    iovec part{&letter, 1};
    // What was not noted when it came is noted when it is read.
    if (read_with_arrival(fd.get(), {&part, 1}, arrived) == 1 && arrived < sent + kApart / 2) return fd;
  }
  throw Error(Code::timeout, "[tcp] the kernel does not note arrivals; got none within 5 s, expected to");
}

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
  for (const cmsghdr* note = CMSG_FIRSTHDR(&message); note != nullptr;
       note = CMSG_NXTHDR(&message, const_cast<cmsghdr*>(note))) {
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
