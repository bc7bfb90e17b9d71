#include "ddl/lab/meeting.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/lab/run.h"
#include "ddl/measure/clock.h"

namespace ddl {
namespace {

constexpr std::size_t kHalf = 32;
constexpr Seconds kGreeting{5};
constexpr std::uint64_t kMostHello = 4096;

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Address unix_address(const std::string& text) {
  Address address;
  auto& to = reinterpret_cast<sockaddr_un&>(address.storage);
  if (text.size() >= sizeof to.sun_path) throw Error(Code::io, fmt::format("[meeting] a path is too long for a socket; got {}", text));
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, text.data(), text.size());
  if (text[0] == '@') to.sun_path[0] = '\0';
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size() + (text[0] == '@' ? 0 : 1));
  return address;
}

Address parse_address(const std::string& text) {
  if (text.starts_with('@') || text.starts_with('/')) return unix_address(text);
  const auto colon = text.find(':');
  Address address;
  auto& to = reinterpret_cast<sockaddr_in&>(address.storage);
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::atoi(text.c_str() + (colon == std::string::npos ? text.size() : colon + 1))));
  if (colon == std::string::npos || ::inet_pton(AF_INET, text.substr(0, colon).c_str(), &to.sin_addr) != 1)
    throw Error(Code::corrupt, fmt::format("[meeting] not an address; got '{}', expected IPV4:PORT", text));
  address.length = sizeof to;
  return address;
}

/// Loopback first: it leads there from this machine, and nowhere that knows the secret from another.
std::vector<std::string> own_addresses() {
  std::vector<std::string> all{"127.0.0.1"};
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return all;
  for (const auto* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET || (each->ifa_flags & IFF_UP) == 0) continue;
    char text[INET_ADDRSTRLEN] = {};
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr, text, sizeof text);
    if ((each->ifa_flags & IFF_LOOPBACK) == 0) all.emplace_back(text);
  }
  ::freeifaddrs(list);
  return all;
}

/// Errors: io.
UniqueFd connected(const std::string& text, Seconds timeout) {
  const auto address = parse_address(text);
  UniqueFd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) throw system_error("no socket", errno);
  if (::connect(fd.get(), address.get(), address.length) != 0) {
    if (errno != EINPROGRESS) throw system_error("refused", errno);
    pollfd poll{fd.get(), POLLOUT, 0};
    if (::poll(&poll, 1, static_cast<int>(timeout.value * 1e3)) <= 0) throw Error(Code::io, "no answer");
    int failed = 0;
    socklen_t length = sizeof failed;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failed, &length);
    if (failed != 0) throw system_error("refused", failed);
  }
  ::fcntl(fd.get(), F_SETFL, 0);
  return fd;
}

/// A message is small, and somebody waits for it.
void send_at_once(int fd, bool network) {
  const int on = 1;
  if (network) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

std::string boot_name() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string name;
  std::getline(file, name);
  return name;
}

std::string Meeting::text() const { return Json{{"addresses", addresses}, {"secret", secret}, {"boot", boot}}.dump(); }

Meeting Meeting::from_text(const std::string& text) {
  try {
    const auto json = parse_json(text, "where the coordinator is");
    return {json.at("addresses"), json.at("secret"), json.at("boot")};
  } catch (const nlohmann::json::exception& error) {
    throw Error(Code::corrupt, fmt::format("[meeting] not a place to meet: {}", error.what()));
  }
}

Listener::Listener(Reach reach) : meeting_{{}, new_secret(), boot_name()}, maker_(::getpid()) {
  const bool network = reach == Reach::network;
  fd_.reset(::socket(network ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd_.valid()) throw system_error("[meeting] cannot make a socket", errno);
  std::string place = network ? "0.0.0.0:0" : "@ddlbench-" + new_secret().substr(0, kHalf);
  if (reach == Reach::file) {
    auto pattern = (std::filesystem::temp_directory_path() / "ddlbench-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw system_error("[meeting] cannot make a folder " + pattern, errno);
    folder_ = pattern;
    place = folder_ + "/socket";
  }
  const auto address = parse_address(place);
  if (::bind(fd_.get(), address.get(), address.length) != 0 || ::listen(fd_.get(), SOMAXCONN) != 0) {
    const auto error = system_error("[meeting] cannot listen at " + place, errno);
    close();
    throw error;
  }
  meeting_.addresses = {place};
  if (!network) return;
  sockaddr_in bound{};
  socklen_t length = sizeof bound;
  ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&bound), &length);
  meeting_.addresses = own_addresses();
  for (auto& each : meeting_.addresses) each += fmt::format(":{}", ntohs(bound.sin_port));
}

Listener::~Listener() { close(); }

void Listener::close() {
  fd_.reset();
  // A forked child's copy of this has nothing to remove.
  if (folder_.empty() || maker_ != ::getpid()) return;
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
  folder_.clear();
}

int Listener::accept() {
  if (!fd_.valid()) return -1;
  const int fd = ::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return -1;
  send_at_once(fd, meeting_.addresses.front().find(':') != std::string::npos);
  return fd;
}

bool Listener::proves(const Json& body) const {
  return body.is_object() && body.contains("secret") && body.at("secret") == meeting_.secret.substr(kHalf);
}

Control dial(const Meeting& meeting, Json mine, Seconds timeout) {
  const auto until = now() + static_cast<Nanoseconds>(timeout.value * 1e9);
  std::vector<std::string> reasons;
  do {
    reasons.clear();
    for (const auto& address : meeting.addresses) {
      const bool network = address.find(':') != std::string::npos;
      // Another machine's loopback is not ours.
      if (address.starts_with("127.") && meeting.boot != boot_name()) continue;
      try {
        auto fd = connected(address, kGreeting);
        send_at_once(fd.get(), network);
        Control control(fd.release());
        const auto greeting = control.receive(kGreeting, kMostHello);
        if (!greeting || greeting->type != MessageType::hello || greeting->body != meeting.secret.substr(0, kHalf))
          throw Error(Code::io, "somebody else is there");
        mine["secret"] = meeting.secret.substr(kHalf);
        mine["via"] = address;
        control.send(MessageType::hello, mine.dump());
        return control;
      } catch (const Error& error) {
        reasons.push_back(fmt::format("{}: {}", address, error.what()));
      }
    }
    ::usleep(50'000);
  } while (now() < until);
  throw Error(Code::timeout, fmt::format("[meeting] the coordinator cannot be reached: {}", join(reasons, "; ")));
}

}  // namespace ddl
