#include "ddl/transport/tcp.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "ddl/core/error.h"
#include "ddl/transport/check.h"
#include "ddl/transport/deadline.h"
#include "ddl/transport/heap_blocks.h"
#include "ddl/transport/tcp_connect.h"

namespace ddl {
namespace {

/// Before every payload.
struct Header {
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;
};

/// Stays in a second-level cache between the kernel's copy and the sink.
constexpr std::size_t kStaging = std::size_t{256} << 10;

/// What a sink may rely on: no piece but the last ends inside an element.
constexpr std::size_t kWhole = 8;

struct Sending {
  Outgoing message;
  Header header;
  std::size_t moved = 0;  // of header and payload together
  bool done() const { return moved == sizeof(Header) + message.data.size(); }
};

struct Receiving {
  Incoming message;
  Header header;
  std::size_t moved = 0;
  bool done() const { return moved == sizeof(Header) + message.bytes; }
};

/// The socket to one rank.
struct Line {
  UniqueFd fd;
  std::uint64_t sent = 0;  // messages
  std::uint64_t received = 0;
  std::size_t next_out = 0;  // of this exchange, into sending_ and receiving_
  std::size_t next_in = 0;
  std::size_t held = 0;  // bytes in staging that do not make a whole element yet
  std::unique_ptr<std::byte[]> staging;
};

class TcpTransport final : public Transport {
 public:
  TcpTransport(int rank, std::vector<UniqueFd> sockets)
      : rank_(rank), lines_(sockets.size()), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake_.valid()) throw system_error("[tcp] cannot make an event", errno);
    for (std::size_t i = 0; i < sockets.size(); ++i) lines_[i].fd = std::move(sockets[i]);
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(lines_.size()); }
  bool shares_memory() const override { return false; }
  std::span<std::byte> allocate(std::size_t bytes) override { return blocks_.allocate(bytes); }
  Traffic traffic() const override { return {sent_.load(), received_.load()}; }

  void interrupt() noexcept override {
    interrupted_.store(true);
    const std::uint64_t one = 1;
    // It only fails when it is full, and then poll() sees it anyway.
    [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
  }

  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming, Seconds timeout) override {
    check_messages("tcp", rank_, size(), outgoing, incoming);
    if (interrupted_) throw_interrupted("tcp", rank_);
    if (failure_) throw Error(*failure_);
    sending_.clear();
    receiving_.clear();
    for (const auto& message : outgoing) sending_.push_back({message, {line(message.peer).sent++, message.data.size()}});
    for (const auto& message : incoming) receiving_.push_back({message, {}});
    for (auto& each : lines_) each.next_out = each.next_in = 0;
    try {
      run(deadline_after(timeout), timeout);
    } catch (const Error& error) {
      hang_up();
      failure_ = error;
      throw;
    } catch (...) {
      hang_up();
      throw;
    }
  }

 private:
  Line& line(int peer) { return lines_[static_cast<std::size_t>(peer)]; }

  void run(Nanoseconds deadline, Seconds timeout) {
    std::vector<pollfd> polled;
    for (;;) {
      polled.assign(1, {wake_.get(), POLLIN, 0});
      for (std::size_t peer = 0; peer < lines_.size(); ++peer) {
        if (!lines_[peer].fd.valid()) continue;
        const bool sends = advance_sends(static_cast<int>(peer));
        const bool receives = advance_receives(static_cast<int>(peer));
        const auto events = static_cast<short>((sends ? POLLOUT : 0) | (receives ? POLLIN : 0));
        if (events != 0) polled.push_back({lines_[peer].fd.get(), events, 0});
      }
      if (polled.size() == 1) return;
      if (interrupted_) throw_interrupted("tcp", rank_);
      const Seconds left = left_until(deadline);
      if (left.value == 0)
        throw Error(Code::timeout, fmt::format("[tcp] rank {} waited {}; rank {} did not come", rank_,
                                               to_string(timeout), late()));
      ::poll(polled.data(), polled.size(), static_cast<int>(std::min(left.value * 1e3 + 1, 1e6)));
    }
  }

  /// The message that is next on the way to (from) `peer`; null where all are through.
  template <typename Message>
  static Message* next(std::vector<Message>& messages, std::size_t& at, int peer) {
    while (at < messages.size() && (messages[at].message.peer != peer || messages[at].done())) ++at;
    return at < messages.size() ? &messages[at] : nullptr;
  }

  /// Writes what the socket takes; whether something is left to write.
  bool advance_sends(int peer) {
    Line& to = line(peer);
    while (Sending* sending = next(sending_, to.next_out, peer)) {
      const auto data = sending->message.data;
      std::array<iovec, 2> parts{};
      std::size_t count = 0;
      const std::size_t payload = sending->moved > sizeof(Header) ? sending->moved - sizeof(Header) : 0;
      if (sending->moved < sizeof(Header))
        parts[count++] = {reinterpret_cast<char*>(&sending->header) + sending->moved, sizeof(Header) - sending->moved};
      if (!data.empty()) parts[count++] = {const_cast<std::byte*>(data.data()) + payload, data.size() - payload};
      msghdr message{};
      message.msg_iov = parts.data();
      message.msg_iovlen = count;
      const auto moved = ::sendmsg(to.fd.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0 && errno == EAGAIN) return true;
      if (moved < 0) {
        // A peer that gave up may have said why it disagrees before it hung up: its messages count first.
        const int number = errno;
        advance_receives(peer);
        lost(peer, number);
      }
      sending->moved += static_cast<std::size_t>(moved);
      if (sending->done()) sent_.fetch_add(static_cast<std::int64_t>(data.size()), std::memory_order_relaxed);
    }
    return false;
  }

  /// Reads what the socket has; whether something is left to come.
  bool advance_receives(int peer) {
    Line& from = line(peer);
    while (Receiving* receiving = next(receiving_, from.next_in, peer)) {
      const auto& message = receiving->message;
      const bool staged = message.into == nullptr;
      if (staged && from.staging == nullptr) from.staging.reset(new std::byte[kStaging]);
      const bool had_header = receiving->moved >= sizeof(Header);
      const std::size_t payload = had_header ? receiving->moved - sizeof(Header) : 0;
      std::array<iovec, 2> parts{};
      std::size_t count = 0;
      if (!had_header)
        parts[count++] = {reinterpret_cast<char*>(&receiving->header) + receiving->moved, sizeof(Header) - receiving->moved};
      // Never more than this message: the next one may go elsewhere.
      const std::size_t rest = message.bytes - payload;
      if (rest != 0 && staged)
        parts[count++] = {from.staging.get() + from.held, std::min(rest, kStaging - from.held)};
      else if (rest != 0)
        parts[count++] = {message.into + payload, rest};
      const auto moved = ::readv(from.fd.get(), parts.data(), static_cast<int>(count));
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0 && errno == EAGAIN) return true;
      if (moved <= 0) lost(peer, moved == 0 ? 0 : errno);
      receiving->moved += static_cast<std::size_t>(moved);
      if (receiving->moved < sizeof(Header)) continue;
      if (!had_header) check_header(*receiving, from);
      if (staged) hand_over(*receiving, from, payload);
      if (receiving->done()) received_.fetch_add(static_cast<std::int64_t>(message.bytes), std::memory_order_relaxed);
    }
    return false;
  }

  void check_header(const Receiving& receiving, Line& from) {
    const auto& [sequence, bytes] = receiving.header;
    const auto& message = receiving.message;
    if (sequence != from.received)
      throw Error(Code::corrupt, fmt::format("[tcp] rank {} got message {} from rank {}, expected message {}", rank_,
                                             sequence, message.peer, from.received));
    if (bytes != message.bytes) throw_disagreement("tcp", message.peer, rank_, bytes, message.bytes);
    ++from.received;
  }

  /// Gives the sink the whole elements that have come since `before` payload bytes.
  void hand_over(const Receiving& receiving, Line& from, std::size_t before) {
    const auto& message = receiving.message;
    const std::size_t after = receiving.moved - sizeof(Header);
    const std::size_t have = from.held + (after - before);
    const std::size_t whole = receiving.done() ? have : have / kWhole * kWhole;
    if (whole != 0) message.sink.take(message.sink.context, before - from.held, {from.staging.get(), whole});
    from.held = have - whole;
    std::memmove(from.staging.get(), from.staging.get() + whole, from.held);
  }

  [[noreturn]] void lost(int peer, int number) const {
    throw Error(Code::peer_lost, fmt::format("[tcp] rank {} lost rank {}: {}", rank_, peer,
                                             number == 0 ? "it closed the connection" : std::strerror(number)));
  }

  std::string late() const {
    std::vector<int> peers;
    for (const auto& sending : sending_)
      if (!sending.done()) peers.push_back(sending.message.peer);
    for (const auto& receiving : receiving_)
      if (!receiving.done()) peers.push_back(receiving.message.peer);
    return list_of_ranks(std::move(peers));
  }

  /// Peers see the end after all that was sent. Closing could take back from them what they have not read.
  void hang_up() noexcept {
    for (const auto& each : lines_)
      if (each.fd.valid()) ::shutdown(each.fd.get(), SHUT_WR);
  }

  int rank_;
  std::vector<Line> lines_;
  UniqueFd wake_;
  HeapBlocks blocks_;
  std::vector<Sending> sending_;
  std::vector<Receiving> receiving_;
  std::atomic<bool> interrupted_{false};
  std::atomic<std::int64_t> sent_{0};
  std::atomic<std::int64_t> received_{0};
  std::optional<Error> failure_;
};

}  // namespace

std::unique_ptr<Transport> make_tcp(Rendezvous& rendezvous, const TransportOptions& options) {
  return std::make_unique<TcpTransport>(rendezvous.rank(), connect_all(rendezvous, options));
}

}  // namespace ddl
