#include "ddl/lab/agent_hub.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <numeric>

#include "ddl/core/error.h"
#include "ddl/measure/clock.h"

namespace ddl {
namespace {

constexpr std::uint64_t kMostHello = 4096;
constexpr std::size_t kMostStrangers = 256;
constexpr Nanoseconds kPatience = 10'000'000'000;

/// Where a connection over a network came from; empty for another kind.
std::string peer_address(int fd) {
  sockaddr_in from{};
  socklen_t length = sizeof from;
  char text[INET_ADDRSTRLEN] = {};
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&from), &length) != 0 || from.sin_family != AF_INET) return {};
  return ::inet_ntop(AF_INET, &from.sin_addr, text, sizeof text) == nullptr ? "" : text;
}

ProcessEvent event_of(int rank, ProcessEvent::Kind kind) {
  ProcessEvent event;
  event.rank = rank;
  event.kind = kind;
  return event;
}

}  // namespace

AgentHub::AgentHub(int ranks, Listener::Reach reach) : listener_(reach), seats_(static_cast<std::size_t>(ranks)) {}

void AgentHub::close_in_child() {
  listener_.close();
  for (auto& seat : seats_) seat.control.reset();
  strangers_.clear();
}

void AgentHub::begin(const Json& job) {
  if (!broken_.empty())
    throw Error(Code::peer_lost, fmt::format("[launcher] the group that it started can run nothing more: {}; start it anew", broken_));
  for (auto& seat : seats_) seat.running = true;
  waiting_ = job;
  if (missing().empty()) start();
}

/// Which host each rank is on, and by which address its peers reach it.
Json AgentHub::places() const {
  if (own_address_.empty()) return nullptr;
  Json hosts = Json::array(), addresses = Json::array();
  std::vector<std::string> known;
  for (const auto& seat : seats_) {
    const auto& address = seat.address.starts_with("127.") ? own_address_ : seat.address;
    const auto found = std::find(known.begin(), known.end(), address);
    hosts.push_back(found - known.begin());
    if (found == known.end()) known.push_back(address);
    addresses.push_back(address);
  }
  return {{"hosts", hosts}, {"addresses", addresses}};
}

int AgentHub::hosts() const {
  const auto found = places();
  if (found.is_null()) return 1;
  const auto& all = found.at("hosts");
  return 1 + std::accumulate(all.begin(), all.end(), 0, [](int most, const Json& each) { return std::max(most, each.get<int>()); });
}

void AgentHub::start() {
  listener_.close();
  auto job = *std::exchange(waiting_, std::nullopt);
  job["places"] = places();
  const auto text = job.dump();
  for (int rank = 0; rank < ranks(); ++rank) send(rank, MessageType::job, text);
  for (const auto& [rank, type] : std::exchange(early_, {})) send(rank, type, "");
}

std::vector<int> AgentHub::descriptors() const {
  std::vector<int> all;
  if (listener_.fd() >= 0) all.push_back(listener_.fd());
  for (const auto& stranger : strangers_) all.push_back(stranger.control.fd());
  for (const auto& seat : seats_)
    if (seat.control) all.push_back(seat.control->fd());
  return all;
}

/// Takes in who comes, once they have proved that they belong here.
void AgentHub::greet() {
  for (int fd = listener_.accept(); fd >= 0; fd = listener_.accept()) {
    Control control(fd);
    if (strangers_.size() >= kMostStrangers) continue;
    try {
      control.send(MessageType::hello, meeting().secret.substr(0, meeting().secret.size() / 2));
      strangers_.push_back({std::move(control), now()});
    } catch (const Error&) {
      // Gone already.
    }
  }
  std::vector<Stranger> staying;
  for (auto& stranger : strangers_) {
    try {
      const auto said = stranger.control.receive({0}, kMostHello);
      if (!said && now() - stranger.since < kPatience) {
        staying.push_back(std::move(stranger));
      } else if (said && said->type == MessageType::hello) {
        const auto body = parse_json(said->body, "a greeting");
        if (listener_.proves(body)) seat(std::move(stranger.control), body);
      }
    } catch (const Error&) {
      // Nobody of ours.
    } catch (const nlohmann::json::exception&) {
      // Nor this one.
    }
  }
  strangers_.swap(staying);
}

void AgentHub::seat(Control control, const Json& said) {
  const auto rank = said.at("rank").get<std::size_t>();
  if (rank >= seats_.size() || seats_[rank].came) return;
  auto& seat = seats_[rank];
  seat.pid = said.at("pid").get<pid_t>();
  seat.address = peer_address(control.fd());
  seat.control.emplace(std::move(control));
  seat.came = true;
  if (seat.address.empty() || seat.address.starts_with("127.")) return;
  const auto via = said.at("via").get<std::string>();
  own_address_ = via.substr(0, via.find(':'));
}

void AgentHub::take(std::vector<ProcessEvent>& events) {
  greet();
  if (waiting_ && missing().empty()) start();
  for (int rank = 0; rank < ranks(); ++rank) take_from(rank, events);
}

void AgentHub::take_from(int rank, std::vector<ProcessEvent>& events) {
  auto& seat = seats_[static_cast<std::size_t>(rank)];
  try {
    while (seat.control) {
      auto message = seat.control->receive({0});
      if (!message) return;
      switch (message->type) {
        case MessageType::line: {
          const auto said = parse_json(message->body, "a line");
          events.push_back(event_of(rank, ProcessEvent::Kind::line));
          events.back().line = said.at("text").get<std::string>();
          events.back().is_error_line = said.at("error").get<bool>();
          break;
        }
        case MessageType::refused: {
          const auto said = parse_json(message->body, "why a worker cannot join");
          throw Error(code_from_name(said.at("code").get<std::string>()), said.at("message").get<std::string>());
        }
        case MessageType::finished: end_rank(rank, std::stoi(message->body), events); break;
        case MessageType::exited:
          seat.ended = true;
          if (broken_.empty()) broken_ = fmt::format("rank {} has ended", rank);
          end_rank(rank, std::stoi(message->body), events);
          break;
        default:
          events.push_back(event_of(rank, ProcessEvent::Kind::message));
          events.back().message = std::move(*message);
      }
    }
  } catch (const Error& error) {
    if (error.code() != Code::peer_lost) throw;
    seat.control.reset();
    if (seat.ended) return;
    seat.ended = true;
    if (broken_.empty()) broken_ = fmt::format("the agent of rank {} is gone", rank);
    if (!seat.running) return;
    events.push_back(event_of(rank, ProcessEvent::Kind::line));
    events.back().line = "its agent, which the launcher started, is gone";
    events.back().is_error_line = true;
    end_rank(rank, 1 << 8, events);
  }
}

/// Of this job, by a status as waitpid gives it.
void AgentHub::end_rank(int rank, int status, std::vector<ProcessEvent>& events) {
  auto& seat = seats_[static_cast<std::size_t>(rank)];
  if (status != 0 && broken_.empty()) broken_ = fmt::format("rank {} failed", rank);
  if (!std::exchange(seat.running, false)) return;
  events.push_back(event_of(rank, ProcessEvent::Kind::exited));
  events.back().status = status;
}

void AgentHub::send(int rank, MessageType type, std::string_view body) {
  auto& seat = seats_[static_cast<std::size_t>(rank)];
  if (waiting_) {
    early_.emplace_back(rank, type);
    return;
  }
  if (!seat.control) return;
  try {
    seat.control->send(type, body);
  } catch (const Error&) {
    // take() finds it gone.
  }
}

int AgentHub::running() const {
  return static_cast<int>(std::count_if(seats_.begin(), seats_.end(), [](const Seat& seat) { return seat.running; }));
}

void AgentHub::kill_all() {
  if (broken_.empty()) broken_ = "its ranks were killed";
  waiting_.reset();
  listener_.close();
  for (int rank = 0; rank < ranks(); ++rank) {
    auto& seat = seats_[static_cast<std::size_t>(rank)];
    send(rank, MessageType::kill, "");
    if (!seat.came) seat.running = false;
  }
}

std::vector<int> AgentHub::missing() const {
  std::vector<int> all;
  for (int rank = 0; rank < ranks(); ++rank)
    if (!seats_[static_cast<std::size_t>(rank)].came) all.push_back(rank);
  return all;
}

void AgentHub::leave() {
  waiting_.reset();
  listener_.close();
  if (broken_.empty()) broken_ = "its ranks have left";
  strangers_.clear();
  for (int rank = 0; rank < ranks(); ++rank) send(rank, MessageType::leave, "");
}

bool AgentHub::empty() const {
  return std::none_of(seats_.begin(), seats_.end(), [](const Seat& seat) { return seat.control.has_value(); });
}

}  // namespace ddl
