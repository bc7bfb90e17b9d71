#include "ddl/transport/tcp_connect.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "ddl/core/error.h"
#include "ddl/transport/check.h"
#include "ddl/transport/deadline.h"
#include "ddl/transport/wire.h"

namespace ddl {
namespace {

using wire::Hello;

/// Of a peer, by channel.
using Channels = std::vector<UniqueFd>;

/// Strangers in the waiting room; the one that waited longest makes place for the next.
constexpr std::size_t kMostWaiting = 64;
/// Larger ones than the kernel allows are cut to what it allows.
constexpr int kSocketBuffer = 4 << 20;

std::string name_of(const sockaddr_in& address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
  return fmt::format("{}:{}", text.data(), ntohs(address.sin_port));
}

sockaddr_in address_of(const std::string& host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (::inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1)
    throw Error(Code::invalid_argument, fmt::format("[tcp] not an IPv4 address; got '{}'", host));
  return address;
}

UniqueFd make_socket() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) throw system_error("[tcp] cannot make a socket", errno);
  return fd;
}

void tune(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kSocketBuffer, sizeof kSocketBuffer);
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kSocketBuffer, sizeof kSocketBuffer);
}

/// Milliseconds for poll(), rounded up so that it does not spin through the last one.
int poll_span(Nanoseconds deadline) {
  return static_cast<int>(std::min(left_until(deadline).value * 1e3 + 1, 1e6));
}

[[noreturn]] void nobody(int rank, std::vector<int> missing, const TransportOptions& options) {
  throw Error(Code::timeout, fmt::format("[tcp] rank {} waited {} for connections; rank {} did not come", rank,
                                         to_string(options.connect_timeout), list_of_ranks(std::move(missing))));
}

/// Where a rank listens, and who has knocked but not yet said who they are.
class Door {
 public:
  explicit Door(const TransportOptions& options) : listener_(make_socket()) {
    auto address = address_of(options.host, 0);
    tune(listener_.get());  // accepted sockets inherit it; the window's scale is fixed when they connect
    socklen_t length = sizeof address;
    if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        ::listen(listener_.get(), SOMAXCONN) != 0 ||
        ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
      throw system_error(fmt::format("[tcp] cannot listen on {}", options.host), errno);
    port_ = ntohs(address.sin_port);
  }

  std::uint16_t port() const { return port_; }

  /// Accepts the ranks above `ours.rank` until `sockets` has all their channels.
  void admit(const Hello& ours, std::vector<Channels>& sockets, Nanoseconds deadline, const TransportOptions& options) {
    for (;;) {
      std::vector<int> missing;
      for (std::size_t rank = static_cast<std::size_t>(ours.rank) + 1; rank < sockets.size(); ++rank)
        if (std::any_of(sockets[rank].begin(), sockets[rank].end(), [](const auto& fd) { return !fd.valid(); }))
          missing.push_back(static_cast<int>(rank));
      if (missing.empty()) break;
      if (left_until(deadline).value == 0) nobody(ours.rank, missing, options);
      std::vector<pollfd> ready{{listener_.get(), POLLIN, 0}};
      for (const auto& guest : waiting_) ready.push_back({guest.fd.get(), POLLIN, 0});
      ::poll(ready.data(), ready.size(), poll_span(deadline));
      for (std::size_t i = ready.size() - 1; i >= 1; --i)
        if (ready[i].revents != 0 && !hear(waiting_[i - 1], ours, sockets))
          waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i - 1));
      if (ready[0].revents != 0) accept_one();
    }
    for (const auto& guest : waiting_) refuse(guest, "it said nothing");
  }

 private:
  struct Guest {
    UniqueFd fd;
    sockaddr_in address{};
    Hello hello;
    std::size_t heard = 0;
  };

  static void refuse(const Guest& guest, const std::string& why) {
    std::fprintf(stderr, "ddlbench: refused a connection from %s: %s\n", name_of(guest.address).c_str(), why.c_str());
  }

  void accept_one() {
    Guest guest;
    socklen_t length = sizeof guest.address;
    guest.fd.reset(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&guest.address), &length,
                             SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!guest.fd.valid()) return;  // it went away again
    if (waiting_.size() >= kMostWaiting) {
      refuse(waiting_.front(), "it said nothing while others came");
      waiting_.erase(waiting_.begin());
    }
    waiting_.push_back(std::move(guest));
  }

  /// Reads what a guest says; false when it is done with, as a rank or as a stranger.
  static bool hear(Guest& guest, const Hello& ours, std::vector<Channels>& sockets) {
    auto* into = reinterpret_cast<char*>(&guest.hello);
    const auto got = ::recv(guest.fd.get(), into + guest.heard, sizeof(Hello) - guest.heard, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got <= 0) {
      refuse(guest, "it left without a word");
      return false;
    }
    guest.heard += static_cast<std::size_t>(got);
    if (guest.heard >= sizeof guest.hello.magic && guest.hello.magic != wire::kMagic) {
      refuse(guest, wire::complaint(guest.hello, ours));
      return false;
    }
    if (guest.heard < sizeof(Hello)) return true;
    auto why = wire::complaint(guest.hello, ours);
    const auto [rank, channel] = std::pair(guest.hello.rank, guest.hello.channel);
    UniqueFd* place = nullptr;
    if (rank > ours.rank && rank < static_cast<int>(sockets.size()) && channel >= 0 && channel < ours.channels)
      place = &sockets[static_cast<std::size_t>(rank)][static_cast<std::size_t>(channel)];
    if (why.empty() && (place == nullptr || place->valid())) why = fmt::format("not waiting for channel {} of a rank {}", channel, rank);
    // A fresh socket's buffer holds a hello, so this does not have to be tried twice.
    if (why.empty() && ::send(guest.fd.get(), &ours, sizeof ours, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof ours))
      why = "it does not listen";
    if (!why.empty())
      refuse(guest, why);
    else
      *place = std::move(guest.fd);
    return false;
  }

  UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::vector<Guest> waiting_;
};

/// Waits until `fd` is ready. Errors: timeout naming `peer`.
void wait_for(int fd, short what, int rank, int peer, Nanoseconds deadline, const TransportOptions& options) {
  pollfd ready{fd, what, 0};
  while (::poll(&ready, 1, poll_span(deadline)) <= 0)
    if (left_until(deadline).value == 0) nobody(rank, {peer}, options);
}

UniqueFd knock(const Hello& ours, int peer, const std::string& place, Nanoseconds deadline,
               const TransportOptions& options) {
  const auto [host, port] = wire::parse_place(peer, place);
  const auto address = address_of(host, port);
  UniqueFd fd = make_socket();
  tune(fd.get());
  int failed = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
  if (failed == EINPROGRESS || failed == EINTR) {
    wait_for(fd.get(), POLLOUT, ours.rank, peer, deadline, options);
    socklen_t length = sizeof failed;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failed, &length);
  }
  const auto lost = [&](int number) {
    return Error(Code::peer_lost, fmt::format("[tcp] rank {} cannot reach rank {} at {}: {}", ours.rank, peer, place,
                                              number == 0 ? "it hung up" : std::strerror(number)));
  };
  if (failed != 0) throw lost(failed);
  if (::send(fd.get(), &ours, sizeof ours, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof ours)) throw lost(errno);
  Hello theirs;
  for (std::size_t heard = 0; heard < sizeof theirs;) {
    wait_for(fd.get(), POLLIN, ours.rank, peer, deadline, options);
    const auto got = ::recv(fd.get(), reinterpret_cast<char*>(&theirs) + heard, sizeof theirs - heard, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) throw lost(got == 0 ? 0 : errno);
    heard += static_cast<std::size_t>(got);
  }
  auto why = wire::complaint(theirs, ours);
  if (why.empty() && theirs.rank != peer) why = fmt::format("it is rank {}", theirs.rank);
  if (!why.empty()) throw Error(Code::io, fmt::format("[tcp] whoever listens at {} is not rank {}: {}", place, peer, why));
  return fd;
}

}  // namespace

std::vector<Channels> connect_all(Rendezvous& rendezvous, const TransportOptions& options, int channels) {
  const Nanoseconds deadline = deadline_after(options.connect_timeout);
  Hello ours = wire::make_hello(rendezvous.rank(), 0, channels, options.secret);
  Door door(options);
  const auto places = rendezvous.exchange(wire::to_string({options.host, door.port()}), options.connect_timeout);
  std::vector<Channels> sockets(places.size());
  for (auto& peer : sockets) peer.resize(static_cast<std::size_t>(channels));
  // Rank 0 only admits, so it answers rank 1, which then admits …: waiting in this order ends.
  for (int peer = 0; peer < rendezvous.rank(); ++peer)
    for (ours.channel = 0; ours.channel < channels; ++ours.channel) {
      const auto at = static_cast<std::size_t>(peer);
      sockets[at][static_cast<std::size_t>(ours.channel)] = knock(ours, peer, places[at], deadline, options);
    }
  door.admit(ours, sockets, deadline, options);
  return sockets;
}

}  // namespace ddl
