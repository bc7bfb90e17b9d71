#include "ddl/train/control.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "ddl/core/error.h"

namespace ddl {
namespace {

struct Frame {
  MessageType type;
  std::uint32_t reserved = 0;
  std::uint64_t bytes = 0;
};

struct StepsHeader {
  std::uint64_t steps = 0;
  std::uint64_t spans = 0;
};

template <typename T>
void append(std::string& body, std::span<const T> items) {
  body.append(reinterpret_cast<const char*>(items.data()), items.size_bytes());
}

}  // namespace

std::string pack(std::span<const StepRecord> steps, std::span<const Span> spans) {
  const StepsHeader header{steps.size(), spans.size()};
  std::string body;
  body.reserve(sizeof header + steps.size_bytes() + spans.size_bytes());
  append(body, std::span(&header, 1));
  append(body, steps);
  append(body, spans);
  return body;
}

void unpack(const std::string& body, std::vector<StepRecord>& steps, std::vector<Span>& spans) {
  StepsHeader header;
  const auto bad = [&] { return Error(Code::corrupt, fmt::format("[control] a batch of steps has the wrong size; got {} bytes", body.size())); };
  if (body.size() < sizeof header) throw bad();
  std::memcpy(&header, body.data(), sizeof header);
  const std::size_t rest = body.size() - sizeof header;
  if (header.steps > rest / sizeof(StepRecord) || header.spans > rest / sizeof(Span) ||
      header.steps * sizeof(StepRecord) + header.spans * sizeof(Span) != rest)
    throw bad();
  steps.resize(header.steps);
  spans.resize(header.spans);
  const char* from = body.data() + sizeof header;
  if (header.steps > 0) std::memcpy(steps.data(), from, header.steps * sizeof(StepRecord));
  if (header.spans > 0) std::memcpy(spans.data(), from + header.steps * sizeof(StepRecord), header.spans * sizeof(Span));
}

Control::Control(Control&& other) noexcept : fd_(std::exchange(other.fd_, -1)), received_(std::move(other.received_)) {}

Control::~Control() {
  if (fd_ >= 0) ::close(fd_);
}

void Control::send(MessageType type, std::string_view body) {
  const Frame frame{type, 0, body.size()};
  std::string whole(reinterpret_cast<const char*>(&frame), sizeof frame);
  whole += body;
  std::string_view rest = whole;
  while (!rest.empty()) {
    const auto sent = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) throw Error(Code::peer_lost, fmt::format("[control] the other end is gone: {}", std::strerror(errno)));
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
}

bool Control::fill(Seconds wait) {
  pollfd poll{fd_, POLLIN, 0};
  const int ready = ::poll(&poll, 1, static_cast<int>(std::ceil(wait.value * 1e3)));
  if (ready <= 0) return false;  // nothing yet, or a signal: the caller asks again
  char block[65536];
  const auto got = ::recv(fd_, block, sizeof block, 0);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return false;
  if (got <= 0) throw Error(Code::peer_lost, "[control] the other end closed its socket");
  received_.append(block, static_cast<std::size_t>(got));
  return true;
}

std::optional<Message> Control::receive(Seconds wait, std::uint64_t most) {
  const auto until = now() + static_cast<Nanoseconds>(wait.value * 1e9);
  while (true) {
    if (received_.size() >= sizeof(Frame)) {
      Frame frame{};
      std::memcpy(&frame, received_.data(), sizeof frame);
      if (frame.bytes > most || frame.type > MessageType::leave) throw Error(Code::corrupt, "[control] not a message of ours");
      if (received_.size() >= sizeof frame + frame.bytes) {
        Message message{frame.type, received_.substr(sizeof frame, frame.bytes)};
        received_.erase(0, sizeof frame + frame.bytes);
        return message;
      }
    }
    const auto left = until - now();
    if (!fill({std::max(0.0, seconds(left))}) && left <= 0) return std::nullopt;
  }
}

std::vector<std::string> ControlRendezvous::exchange(const std::string& mine, Seconds timeout) {
  control_.send(MessageType::rendezvous, mine);
  const auto answer = control_.receive(timeout);
  if (!answer) throw Error(Code::timeout, fmt::format("[rendezvous] not all ranks came within {}", to_string(timeout)));
  if (answer->type != MessageType::rendezvous) throw Error(Code::interrupted, "[rendezvous] the run was stopped");
  auto all = parse_json(answer->body, "the rendezvous").get<std::vector<std::string>>();
  if (all.size() != static_cast<std::size_t>(size_))
    throw Error(Code::corrupt, fmt::format("[rendezvous] wrong number of ranks; got {}, expected {}", all.size(), size_));
  return all;
}

}  // namespace ddl
