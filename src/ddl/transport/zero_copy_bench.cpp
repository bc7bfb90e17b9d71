#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/core/statistics.h"
#include "ddl/measure/clock.h"
#include "ddl/transport/fabric.h"
#include "ddl/transport/testing.h"

// Whether Linux's MSG_ZEROCOPY pays for tcp: one process sends messages to another, which reads them, once by plain send() and
// once with the pages lent to the kernel and the loan's end waited for, by turns. No transport of ours in between.
//
// usage: zero_copy_bench [FABRIC] [BYTES]     FABRIC: hosts=2[,bandwidth=…]; - for the loopback
// prints: way,bytes,median_ms,GB/s,sender's processor seconds per GB,share of notifications that said "copied after all"

namespace ddl {
namespace {

void must(bool good, const char* what) {
  if (!good) throw system_error(fmt::format("[zero-copy] {}", what), errno);
}

/// Until every loan is over; returns how many of them the kernel copied after all.
int settle(int fd, int loans) {
  int copied = 0;
  for (int seen = 0; seen < loans;) {
    pollfd waiting{fd, 0, 0};
    must(::poll(&waiting, 1, 10'000) == 1, "no notification");
    char control[128];
    msghdr message{};
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (::recvmsg(fd, &message, MSG_ERRQUEUE) < 0) {
      must(errno == EAGAIN, "cannot read notifications");
      continue;
    }
    const auto* header = CMSG_FIRSTHDR(&message);
    must(header != nullptr, "a notification without words");
    const auto* said = reinterpret_cast<const sock_extended_err*>(CMSG_DATA(header));
    const int here = static_cast<int>(said->ee_data - said->ee_info) + 1;
    seen += here;
    if (said->ee_code & SO_EE_CODE_ZEROCOPY_COPIED) copied += here;
  }
  return copied;
}

struct Sent {
  int loans = 0;
  int copied = 0;
};

Sent send_all(int fd, const std::vector<char>& data, bool lend) {
  Sent sent;
  for (std::size_t at = 0; at < data.size();) {
    const auto taken = ::send(fd, data.data() + at, std::min<std::size_t>(data.size() - at, 512 << 10), lend ? MSG_ZEROCOPY : 0);
    if (taken < 0 && errno == ENOBUFS) {  // too much is on loan
      sent.copied += settle(fd, 1);
      --sent.loans;
      continue;
    }
    must(taken > 0, "cannot send");
    at += static_cast<std::size_t>(taken);
    sent.loans += lend;
  }
  char done;
  must(::recv(fd, &done, 1, MSG_WAITALL) == 1, "no answer");
  const int open = sent.loans;
  if (lend) sent.copied += settle(fd, open);
  return sent;
}

double processor_seconds() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  const auto of = [](const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec); };
  return of(use.ru_utime) + of(use.ru_stime);
}

void receive(int listener, std::size_t bytes, int messages) {
  const int fd = ::accept(listener, nullptr, nullptr);
  must(fd >= 0, "cannot accept");
  std::vector<char> data(bytes);
  for (int i = 0; i < messages; ++i) {
    for (std::size_t at = 0; at < bytes;) {
      const auto got = ::recv(fd, data.data() + at, bytes - at, 0);
      must(got > 0, "cannot receive");
      at += static_cast<std::size_t>(got);
    }
    must(::send(fd, "k", 1, 0) == 1, "cannot answer");
  }
  ::close(fd);
}

void run(const std::string& description, std::size_t bytes) {
  constexpr int kRounds = 15;
  std::optional<Fabric> fabric;
  if (description != "-") fabric.emplace(description);
  const std::string host = fabric ? fabric->address(1) : "127.0.0.1";
  int told[2];
  must(::pipe(told) == 0, "no pipe");
  const pid_t receiver = testing::fork_rank([&] {
    if (fabric) fabric->enter(1);
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{AF_INET, 0, {}, {}};
    ::inet_pton(AF_INET, host.c_str(), &address.sin_addr);
    must(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && ::listen(listener, 1) == 0, "cannot listen");
    socklen_t length = sizeof address;
    ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
    must(::write(told[1], &address.sin_port, sizeof address.sin_port) == sizeof address.sin_port, "cannot tell the port");
    receive(listener, bytes, 2 * (kRounds + 1));
  });
  const pid_t sender = testing::fork_rank([&] {
    if (fabric) fabric->enter(0);
    sockaddr_in address{AF_INET, 0, {}, {}};
    ::inet_pton(AF_INET, host.c_str(), &address.sin_addr);
    must(::read(told[0], &address.sin_port, sizeof address.sin_port) == sizeof address.sin_port, "no port");
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    must(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "cannot connect");
    const int on = 1;
    must(::setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) == 0, "no SO_ZEROCOPY");
    const std::vector<char> data(bytes, 'x');
    std::vector<double> times[2], work[2];
    Sent all;
    for (int round = 0; round <= kRounds; ++round)
      for (const bool lend : {round % 2 == 0, round % 2 != 0}) {
        const auto begin = now();
        const double before = processor_seconds();
        const auto sent = send_all(fd, data, lend);
        if (round == 0) continue;
        times[lend].push_back(seconds(now() - begin));
        work[lend].push_back(processor_seconds() - before);
        all.loans += sent.loans;
        all.copied += sent.copied;
      }
    const double gigabytes = 1e-9 * static_cast<double>(bytes);
    for (const bool lend : {false, true})
      std::printf("%s,%zu,%.3f,%.2f,%.3f,%.0f%%\n", lend ? "MSG_ZEROCOPY" : "send", bytes, 1e3 * median(times[lend]), gigabytes / median(times[lend]),
                  median(work[lend]) / gigabytes, lend && all.loans > 0 ? 100.0 * all.copied / all.loans : 0.0);
  });
  if (testing::status_of(sender) != 0) ::kill(receiver, SIGKILL);
  testing::status_of(receiver);
}

}  // namespace
}  // namespace ddl

int main(int argc, char** argv) {
  try {
    ddl::run(argc > 1 ? argv[1] : "-", argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::size_t{32} << 20);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "zero_copy_bench: %s\n", error.what());
    return 1;
  }
}
