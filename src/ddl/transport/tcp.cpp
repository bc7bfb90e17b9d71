#include "ddl/transport/tcp.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>

#include "ddl/core/error.h"
#include "ddl/transport/arrival.h"
#include "ddl/transport/check.h"
#include "ddl/transport/cores.h"
#include "ddl/transport/deadline.h"
#include "ddl/transport/heap_blocks.h"
#include "ddl/transport/tcp_connect.h"
#include "ddl/transport/wait_chain.h"
#include "ddl/transport/wire.h"

namespace ddl {
namespace {

using wire::Frame;

/// Stays in a second-level cache between the kernel's copy and the sink.
constexpr std::size_t kStaging = std::size_t{256} << 10;

/// One system call moves at most this much, so that both directions get their turn and a receiver finds what was sent
/// in the cache.
constexpr std::size_t kAtOnce = std::size_t{512} << 10;

/// What a sink may rely on: no piece but the last ends inside an element.
constexpr std::size_t kWhole = 8;

/// A message of at least this size is shared by the sockets to its peer.
constexpr std::size_t kStripe = std::size_t{1} << 20;

/// How often a sleeper says what it waits at.
constexpr Nanoseconds kLook = WaitChain::kPeriod;

/// Notes that wait for room in a socket. More are left out: who does not read these does not read those either.
constexpr std::size_t kMostUnsaid = std::size_t{64} << 10;

/// How long a rank that lost its peer waits for that one's last words, which come on a connection of their own.
constexpr int kWordsMs = 200;

/// A message, or the part of one that goes over one socket.
struct Sending {
  std::span<const std::byte> data;
  Frame frame;
  std::size_t moved = 0;  // of frame and payload together
  bool done() const { return moved == sizeof(Frame) + data.size(); }
};

struct Receiving {
  Incoming message;
  std::size_t offset = 0;  // of its bytes in the whole message
  Frame frame;
  std::size_t moved = 0;
  bool done() const { return moved == sizeof(Frame) + message.bytes; }
};

/// A socket for messages.
struct Line {
  UniqueFd fd;
  std::uint64_t sent = 0;  // messages
  std::uint64_t received = 0;
  std::vector<Sending> sending;  // of this exchange, in order
  std::vector<Receiving> receiving;
  std::size_t next_out = 0;
  std::size_t next_in = 0;
  std::size_t held = 0;  // bytes in staging that do not make a whole element yet
  std::unique_ptr<std::byte[]> staging;

  bool sends() const { return next_out < sending.size(); }
  bool receives() const { return next_in < receiving.size(); }
};

/// One rank: where its messages go, and where it says why it gives up.
struct Peer {
  std::vector<Line> lines;
  UniqueFd control;
  wire::NoteReader notes;
  std::string unsaid;          // of notes to it
  Signature waits_at;          // by its last note
  std::optional<Error> words;  // why it gave up
};

class TcpTransport final : public Transport {
 public:
  TcpTransport(int rank, std::vector<std::vector<UniqueFd>> sockets, TransportOptions options)
      : rank_(rank), options_(std::move(options)), spin_(spin_for(static_cast<int>(sockets.size()))),
        latency_(std::llround(options_.latency.value * 1e9)), peers_(sockets.size()),
        chain_(static_cast<int>(sockets.size())), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake_.valid()) throw system_error("[tcp] cannot make an event", errno);
    for (std::size_t peer = 0; peer < sockets.size(); ++peer) {
      if (static_cast<int>(peer) == rank) continue;
      peers_[peer].control = std::move(sockets[peer].front());
      for (std::size_t i = 1; i < sockets[peer].size(); ++i) peers_[peer].lines.emplace_back().fd = std::move(sockets[peer][i]);
    }
    if (latency_ > 0) start_to_hold();
  }

  ~TcpTransport() override { hang_up_interrupted(); }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  bool shares_memory() const override { return false; }
  std::span<std::byte> allocate(std::size_t bytes) override { return blocks_.allocate(bytes); }
  Traffic traffic() const override { return {sent_.load(), received_.load()}; }

  std::unique_ptr<Transport> subgroup(const std::vector<int>&, Rendezvous& rendezvous) override {
    return make_tcp(rendezvous, options_);
  }

  void interrupt() noexcept override {
    interrupted_.store(true);
    const std::uint64_t one = 1;
    // It only fails when it is full, and then poll() sees it anyway.
    [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
  }

  void abandon(const Error& why) noexcept override {
    hang_up(&why);
    if (!failure_) failure_ = why;
  }

  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming, Seconds timeout,
                const Signature& signature) override {
    check_messages("tcp", rank_, size(), outgoing, incoming);
    if (interrupted_) throw_interrupted("tcp", rank_);
    if (failure_) throw Error(*failure_);
    for (auto& peer : peers_)
      for (auto& line : peer.lines) {
        line.sending.clear();
        line.receiving.clear();
        line.next_out = line.next_in = 0;
      }
    for (const auto& message : outgoing) post(message, signature);
    for (const auto& message : incoming) expect(message);
    signature_ = signature;
    visible_ = 0;
    try {
      run(timeout);
      if (visible_ > 0) hold();
    } catch (const Error& error) {
      // That we were interrupted is no news to the others: for them we left.
      if (error.code() == Code::interrupted) hang_up_interrupted();
      abandon(error);
      throw;
    } catch (...) {
      hang_up(nullptr);
      throw;
    }
  }

 private:
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  /// How a message of so many bytes is cut over the sockets to a peer; both ends count alike.
  template <typename Body>
  void over_lines(Peer& to, std::size_t bytes, const Body& body) {
    const std::size_t parts = bytes >= kStripe ? to.lines.size() : 1;
    std::size_t begin = 0;
    for (std::size_t part = 0; part < parts; ++part) {
      const std::size_t end = part + 1 == parts ? bytes : bytes / parts * (part + 1) / 64 * 64;
      body(to.lines[part], begin, end - begin);
      begin = end;
    }
  }

  void post(const Outgoing& message, const Signature& signature) {
    over_lines(peer(message.peer), message.data.size(), [&](Line& line, std::size_t begin, std::size_t bytes) {
      Frame frame;
      frame.sequence = line.sent++;
      frame.bytes = bytes;
      frame.signature = signature;
      frame.factor = message.factor;
      line.sending.push_back({message.data.subspan(begin, bytes), frame});
    });
  }

  void expect(const Incoming& message) {
    over_lines(peer(message.peer), message.bytes, [&](Line& line, std::size_t begin, std::size_t bytes) {
      Incoming part = message;
      part.bytes = bytes;
      if (part.into != nullptr) part.into += begin;
      line.receiving.push_back({part, begin, {}, 0});
    });
  }

  void run(Seconds timeout) {
    if (advance()) return;
    const Nanoseconds deadline = deadline_after(timeout);
    said_at_ = now();
    for (;;) {
      const Nanoseconds begin = now(), patience = PatientWait::here() ? kOfferCore : spin_;
      for (Nanoseconds time = begin; time < begin + patience;) {
        if (advance()) return;
        const bool offers = time >= begin + spin_;
        const Nanoseconds before = offers ? now() : time;
        if (offers) ::sched_yield();
        time = now();
        if (offers) PatientWait::was_away(time - before);
      }
      if (interrupted_) throw_interrupted("tcp", rank_);
      sleep(deadline);
      if (advance()) return;
      if (interrupted_) throw_interrupted("tcp", rank_);
      if (left_until(deadline).value == 0) give_up(timeout);
    }
  }

  [[noreturn]] void give_up(Seconds timeout) {
    // A message of one collective that nobody takes can let its sender go on to the next.
    for (const int rank : chain_.circle(late(), timeout))
      if (const auto& theirs = peer(rank).waits_at; rank != rank_ && theirs != signature_)
        throw_disagreement("tcp", rank, describe(theirs), rank_, describe(signature_));
    throw Error(Code::timeout, fmt::format("[tcp] rank {} waited {}; rank {} did not come", rank_, to_string(timeout),
                                           list_of_ranks(chain_.culprits(late(), timeout))));
  }

  void start_to_hold() {
    alarm_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!alarm_.valid()) throw system_error("[tcp] cannot make a timer", errno);
    for (const auto& each : peers_)
      for (const auto& line : each.lines) note_arrivals(line.fd.get());
  }

  /// Until all that has come may be seen. By a timer of its own, since what poll() waits at most is cut to 50 us.
  void hold() {
    while (visible_ - now() > spin_) {
      const Nanoseconds wake_up = visible_ - spin_;
      const itimerspec at{{}, {wake_up / 1'000'000'000, wake_up % 1'000'000'000}};
      ::timerfd_settime(alarm_.get(), TFD_TIMER_ABSTIME, &at, nullptr);
      std::array<pollfd, 2> ready{{{alarm_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
      ::poll(ready.data(), ready.size(), -1);
      if (interrupted_) throw_interrupted("tcp", rank_);
    }
    while (now() < visible_) pause();
  }

  /// Moves what can be moved; true when every message is complete.
  bool advance() {
    bool complete = true;
    for (std::size_t rank = 0; rank < peers_.size(); ++rank)
      for (auto& line : peers_[rank].lines) {
        if (line.sends()) complete &= advance_sends(static_cast<int>(rank), line);
        if (line.receives()) complete &= advance_receives(static_cast<int>(rank), line);
      }
    return complete;
  }

  /// Until something can be moved, somebody gives up, or the deadline.
  void sleep(Nanoseconds deadline) {
    polled_.assign(1, {wake_.get(), POLLIN, 0});
    for (auto& each : peers_) {
      if (each.control.valid()) polled_.push_back({each.control.get(), POLLIN, 0});
      for (const auto& line : each.lines)
        if (const auto events = (line.sends() ? POLLOUT : 0) | (line.receives() ? POLLIN : 0); events != 0)
          polled_.push_back({line.fd.get(), static_cast<short>(events), 0});
    }
    const double most = std::min<double>(static_cast<double>(deadline - now()), kLook);
    ::poll(polled_.data(), polled_.size(), static_cast<int>(most / 1e6) + 1);
    // What has come counts before what was said: a peer that is done leaves, too.
    if (advance()) return;
    if (now() - said_at_ >= kLook / 2) say_what_we_wait_at();
    for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
      read_notes(static_cast<int>(rank));
      if (peers_[rank].words) throw Error(*peers_[rank].words);
      if (contradict(peers_[rank].waits_at, signature_))
        throw_disagreement("tcp", static_cast<int>(rank), describe(peers_[rank].waits_at), rank_, describe(signature_));
    }
  }

  /// Ranks that wait in a circle hear that they are not at the same, and those who wait for us, for whom we wait.
  void say_what_we_wait_at() {
    said_at_ = now();
    const auto awaited = late();
    if (!awaited.empty()) chain_.hear(rank_, awaited.front());
    tell_all(wire::encode({wire::Note::Kind::waiting, Code::timeout, signature_, awaited.empty() ? -1 : awaited.front(), {}}));
  }

  void tell_all(const std::string& note) {
    for (auto& each : peers_) {
      if (!each.control.valid()) continue;
      if (each.unsaid.size() < kMostUnsaid) each.unsaid += note;
      const auto sent = ::send(each.control.get(), each.unsaid.data(), each.unsaid.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) each.unsaid.erase(0, static_cast<std::size_t>(sent));
    }
  }

  /// Writes what the socket takes; whether all is written.
  bool advance_sends(int to, Line& line) {
    while (line.sends()) {
      auto& sending = line.sending[line.next_out];
      const auto data = sending.data;
      std::array<iovec, 2> parts{};
      std::size_t count = 0;
      const std::size_t payload = sending.moved > sizeof(Frame) ? sending.moved - sizeof(Frame) : 0;
      if (sending.moved < sizeof(Frame))
        parts[count++] = {reinterpret_cast<char*>(&sending.frame) + sending.moved, sizeof(Frame) - sending.moved};
      if (!data.empty())
        parts[count++] = {const_cast<std::byte*>(data.data()) + payload, std::min(data.size() - payload, kAtOnce)};
      msghdr message{};
      message.msg_iov = parts.data();
      message.msg_iovlen = count;
      const auto moved = ::sendmsg(line.fd.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0 && errno == EAGAIN) return false;
      if (moved < 0) {
        // A peer that gave up may have said why it disagrees before it hung up: its messages count first.
        const int number = errno;
        if (line.receives()) advance_receives(to, line);
        lost(to, number);
      }
      sending.moved += static_cast<std::size_t>(moved);
      if (sending.done()) {
        sent_.fetch_add(static_cast<std::int64_t>(data.size()), std::memory_order_relaxed);
        ++line.next_out;
      } else if (data.size() > kAtOnce) {
        return false;  // now the other direction
      }
    }
    return true;
  }

  /// Reads what the socket has; whether all has come.
  bool advance_receives(int from, Line& line) {
    while (line.receives()) {
      auto& receiving = line.receiving[line.next_in];
      const auto& message = receiving.message;
      const bool staged = message.into == nullptr;
      if (staged && line.staging == nullptr) line.staging.reset(new std::byte[kStaging]);
      const bool had_frame = receiving.moved >= sizeof(Frame);
      const std::size_t payload = had_frame ? receiving.moved - sizeof(Frame) : 0;
      std::array<iovec, 2> parts{};
      std::size_t count = 0;
      if (!had_frame)
        parts[count++] = {reinterpret_cast<char*>(&receiving.frame) + receiving.moved, sizeof(Frame) - receiving.moved};
      // Never more than this message: the next one may go elsewhere.
      const std::size_t rest = message.bytes - payload;
      if (rest != 0 && staged)
        parts[count++] = {line.staging.get() + line.held, std::min(rest, kStaging - line.held)};
      else if (rest != 0)
        parts[count++] = {message.into + payload, std::min(rest, kAtOnce)};
      Nanoseconds arrived = 0;
      const auto moved = latency_ == 0 ? ::readv(line.fd.get(), parts.data(), static_cast<int>(count))
                                       : read_with_arrival(line.fd.get(), std::span(parts).first(count), arrived);
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0 && errno == EAGAIN) return false;
      if (moved <= 0) lost(from, moved == 0 ? 0 : errno);
      receiving.moved += static_cast<std::size_t>(moved);
      if (receiving.moved < sizeof(Frame)) continue;
      if (!had_frame) check(receiving, from, line);
      if (staged) hand_over(receiving, line, payload);
      if (receiving.done()) {
        received_.fetch_add(static_cast<std::int64_t>(message.bytes), std::memory_order_relaxed);
        ++line.next_in;
        if (latency_ > 0) visible_ = std::max(visible_, arrived + latency_);
      } else if (message.bytes > kAtOnce) {
        return false;  // now the other direction
      }
    }
    return true;
  }

  void check(const Receiving& receiving, int from, Line& line) {
    const auto& frame = receiving.frame;
    wire::check_frame(frame, line.received, from, rank_);
    if (frame.signature != signature_)
      throw_disagreement("tcp", from, describe(frame.signature), rank_, describe(signature_));
    if (frame.bytes != receiving.message.bytes) throw_wrong_length("tcp", from, rank_, frame.bytes, receiving.message.bytes);
    ++line.received;
  }

  /// Gives the sink the whole elements that have come since `before` payload bytes.
  static void hand_over(const Receiving& receiving, Line& line, std::size_t before) {
    const auto& sink = receiving.message.sink;
    const std::size_t after = receiving.moved - sizeof(Frame);
    const std::size_t have = line.held + (after - before);
    const std::size_t whole = receiving.done() ? have : have / kWhole * kWhole;
    if (whole != 0)
      sink.take(sink.context, receiving.offset + before - line.held, {line.staging.get(), whole}, receiving.frame.factor);
    line.held = have - whole;
    if (line.held != 0) std::memmove(line.staging.get(), line.staging.get() + whole, line.held);
  }

  void read_notes(int rank) {
    auto& from = peer(rank);
    while (from.control.valid()) {
      std::array<std::byte, 512> piece;
      const auto got = ::recv(from.control.get(), piece.data(), piece.size(), MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) break;
      if (got > 0)
        from.notes.feed(std::span(piece).first(static_cast<std::size_t>(got)));
      else
        from.control.reset();
      while (auto note = from.notes.next())
        if (note->kind == wire::Note::Kind::farewell)
          from.words = Error(note->code, note->text);
        else
          hear(rank, *note);
    }
  }

  void hear(int rank, const wire::Note& note) {
    peer(rank).waits_at = note.signature;
    chain_.hear(rank, note.awaits);
  }

  [[noreturn]] void lost(int rank, int number) {
    auto& from = peer(rank);
    if (from.control.valid()) {
      pollfd words{from.control.get(), POLLIN, 0};
      ::poll(&words, 1, kWordsMs);
    }
    read_notes(rank);
    if (from.words) throw Error(*from.words);
    throw Error(Code::peer_lost, fmt::format("[tcp] rank {} lost rank {}: {}", rank_, rank,
                                             number == 0 ? "it closed the connection" : std::strerror(number)));
  }

  std::vector<int> late() const {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < peers_.size(); ++rank)
      for (const auto& line : peers_[rank].lines)
        if (line.sends() || line.receives()) ranks.push_back(static_cast<int>(rank));
    return ranks;
  }

  /// Of an interruption itself the others are told nothing, of its reason where there is one.
  void hang_up_interrupted() noexcept {
    const auto words = parting_words();
    hang_up(words ? &*words : nullptr);
  }

  /// Peers see the end after all that was sent. Closing could take back from them what they have not read.
  void hang_up(const Error* why) noexcept {
    if (hung_up_) return;
    hung_up_ = true;
    try {
      if (why != nullptr) tell_all(wire::encode({wire::Note::Kind::farewell, why->code(), signature_, -1, why->what()}));
    } catch (...) {  // no memory for words
    }
    for (auto& each : peers_) {
      if (each.control.valid()) ::shutdown(each.control.get(), SHUT_WR);
      for (const auto& line : each.lines) ::shutdown(line.fd.get(), SHUT_WR);
    }
  }

  int rank_;
  TransportOptions options_;
  Nanoseconds spin_;
  Nanoseconds latency_;
  std::vector<Peer> peers_;
  WaitChain chain_;
  UniqueFd wake_;
  UniqueFd alarm_;            // with a latency
  Nanoseconds visible_ = 0;   // when all messages of this exchange are
  HeapBlocks blocks_;
  Signature signature_;
  std::vector<pollfd> polled_;
  Nanoseconds said_at_ = 0;  // what we wait at
  bool hung_up_ = false;
  std::atomic<bool> interrupted_{false};
  std::atomic<std::int64_t> sent_{0};
  std::atomic<std::int64_t> received_{0};
  std::optional<Error> failure_;
};

}  // namespace

std::unique_ptr<Transport> make_tcp(Rendezvous& rendezvous, const TransportOptions& options) {
  if (options.sockets < 1 || options.sockets > 64)
    throw Error(Code::invalid_argument, fmt::format("[tcp] sockets per peer; got {}, expected 1 to 64", options.sockets));
  if (!(options.latency.value >= 0 && options.latency.value <= 60))
    throw Error(Code::invalid_argument, fmt::format("[tcp] latency; got {}, expected 0 s to 60 s", to_string(options.latency)));
  // Before anybody can send us something.
  const UniqueFd noting = options.latency.value > 0 ? begin_to_note_arrivals() : UniqueFd();
  return std::make_unique<TcpTransport>(rendezvous.rank(), connect_all(rendezvous, options, 1 + options.sockets), options);
}

}  // namespace ddl
