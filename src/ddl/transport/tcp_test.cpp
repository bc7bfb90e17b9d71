#include "ddl/transport/tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "ddl/transport/testing.h"
#include "ddl/transport/unique_fd.h"
#include "ddl/transport/wire.h"

namespace ddl {
namespace {

using testing::ForkedTable;
using testing::failure;
using testing::fork_rank;
using testing::run_ranks;
using testing::status_of;

/// Lets someone look at the addresses before anybody connects.
class Spied final : public Rendezvous {
 public:
  Spied(Rendezvous& inner, std::function<void(const std::vector<std::string>&)> look)
      : inner_(inner), look_(std::move(look)) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::vector<std::string> exchange(const std::string& mine, Seconds timeout) override {
    auto all = inner_.exchange(mine, timeout);
    look_(all);
    return all;
  }

 private:
  Rendezvous& inner_;
  std::function<void(const std::vector<std::string>&)> look_;
};

UniqueFd connect_to(const std::string& place) {
  const auto colon = place.rfind(':');
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(place.substr(colon + 1))));
  ::inet_pton(AF_INET, place.substr(0, colon).c_str(), &address.sin_addr);
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return fd;
}

std::size_t open_fds() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

void ping(Transport& transport) {
  std::byte got{};
  const auto mine = static_cast<std::byte>(transport.rank());
  const int peer = 1 - transport.rank();
  const Outgoing out{peer, {&mine, 1}};
  const Incoming in{peer, 1, &got, {}};
  transport.exchange({&out, 1}, {&in, 1}, Seconds{20});
  if (got != static_cast<std::byte>(peer)) throw Error(Code::corrupt, "content");
}

TEST(Tcp, RefusesStrangersAndGoesOn) {
  std::vector<UniqueFd> strangers;
  ::testing::internal::CaptureStderr();
  const auto outcomes = run_ranks(2, [&](Rendezvous& meeting) {
    // Before rank 1 connects, someone is silent, someone leaves, someone talks HTTP, and someone has another secret.
    Spied spied(meeting, [&](const auto& places) {
      if (meeting.rank() != 1) return;
      for (int i = 0; i < 4; ++i) strangers.push_back(connect_to(places[0]));
      strangers[1].reset();
      ::send(strangers[2].get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
      const auto hello = wire::make_hello(1, 1, 2, "guess");
      ::send(strangers[3].get(), &hello, sizeof hello, MSG_NOSIGNAL);
    });
    ping(*make_tcp(spied, {Seconds{20}, "secret"}));
  });
  const auto said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(failure(outcomes), "");
  for (const std::string why : {"it said nothing", "it left without a word", "does not speak", "wrong secret"})
    EXPECT_NE(said.find(why), std::string::npos) << why << " in\n" << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 4) << said;
}

TEST(Tcp, RanksWithAnotherSecretDoNotConnect) {
  const auto outcomes = run_ranks(2, [](Rendezvous& meeting) {
    make_tcp(meeting, {Seconds{0.2}, meeting.rank() == 0 ? "one" : "another"});
  });
  ASSERT_TRUE(outcomes[0] && outcomes[1]);
  EXPECT_EQ(outcomes[0]->code(), Code::timeout);
  EXPECT_STREQ(outcomes[0]->what(), "[tcp] rank 0 waited 200 ms for connections; rank 1 did not come");
  EXPECT_EQ(outcomes[1]->code(), Code::peer_lost) << outcomes[1]->what();
}

TEST(Tcp, RefusesAHostOrSecretThatCannotBe) {
  const auto code = [](const TransportOptions& options) {
    return run_ranks(1, [&](Rendezvous& meeting) { make_tcp(meeting, options); })[0]->code();
  };
  EXPECT_EQ(code({Seconds{1}, std::string(65, 'x')}), Code::invalid_argument);
  EXPECT_EQ(code({Seconds{1}, "", "somewhere"}), Code::invalid_argument);
  EXPECT_EQ(code({Seconds{1}, "", "192.0.2.1"}), Code::io);
  TransportOptions early;
  early.latency = Seconds{-1e-3};
  EXPECT_EQ(code(early), Code::invalid_argument);
}

TEST(Tcp, LeaksNoDescriptor) {
  run_ranks(1, [](Rendezvous& meeting) { make_tcp(meeting, {}); });
  const auto before = open_fds();
  run_ranks(3, [](Rendezvous& meeting) {
    make_tcp(meeting, {Seconds{0.1}, meeting.rank() == 2 ? "wrong" : "right"});
  });
  run_ranks(3, [](Rendezvous& meeting) { make_tcp(meeting, {}); });
  EXPECT_EQ(open_fds(), before);
}

/// Rank 0 sends `messages`, each with the moment in it; rank 1 takes them from `start` on.
void send_moments(Transport& transport, int messages, Seconds start, const std::function<void(Nanoseconds sent)>& look) {
  if (transport.rank() == 1) std::this_thread::sleep_for(std::chrono::duration<double>(start.value));
  for (int i = 0; i < messages; ++i) {
    Nanoseconds moment = now();
    const std::span<std::byte> bytes{reinterpret_cast<std::byte*>(&moment), sizeof moment};
    if (transport.rank() == 0) {
      const Outgoing out{1, bytes};
      transport.exchange({&out, 1}, {}, Seconds{20});
    } else {
      const Incoming in{0, bytes.size(), bytes.data(), {}};
      transport.exchange({}, {&in, 1}, Seconds{20});
      look(moment);
    }
  }
}

TransportOptions late(Seconds latency) {
  TransportOptions options{Seconds{20}, "secret"};
  options.latency = latency;
  return options;
}

TEST(TcpLatency, NothingIsSeenBeforeItsTime) {
  for (const double latency : {100e-6, 3e-3, 50e-3}) {
    const auto outcomes = run_ranks(2, [&](Rendezvous& meeting) {
      send_moments(*make_tcp(meeting, late({latency})), 20, {0}, [&](Nanoseconds sent) {
        if (const double span = seconds(now() - sent); span < latency)
          throw Error(Code::corrupt, fmt::format("seen after {}", to_string(Seconds{span})));
      });
    });
    EXPECT_EQ(failure(outcomes), "") << latency;
  }
}

TEST(TcpLatency, MessagesAreLateTogether) {
  double span = 0;
  const auto outcomes = run_ranks(2, [&](Rendezvous& meeting) {
    const auto transport = make_tcp(meeting, late({0.1}));
    const auto begin = now();
    send_moments(*transport, 20, {0}, [&](Nanoseconds) { span = seconds(now() - begin); });
  });
  EXPECT_EQ(failure(outcomes), "");
  EXPECT_GE(span, 0.09) << "the other one may have sent before we began";
  EXPECT_LT(span, 1.0) << "one after the other they take 2 s";
}

TEST(TcpLatency, WhoComesLateDoesNotWaitAgain) {
  double span = 0;
  const auto outcomes = run_ranks(2, [&](Rendezvous& meeting) {
    const auto transport = make_tcp(meeting, late({0.5}));
    Nanoseconds begin = 0;
    if (transport->rank() == 1) {
      std::this_thread::sleep_for(std::chrono::seconds(1));  // the message is there and could be seen
      begin = now();
    }
    send_moments(*transport, 1, {0}, [&](Nanoseconds) { span = seconds(now() - begin); });
    if (transport->rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(2));
  });
  EXPECT_EQ(failure(outcomes), "");
  EXPECT_LT(span, 0.25);
}

TEST(TcpLatency, LargeMessagesComeWholeOverSeveralSockets) {
  const auto outcomes = run_ranks(3, [&](Rendezvous& meeting) {
    auto options = late({200e-6});
    options.sockets = 3;
    const auto transport = make_tcp(meeting, options);
    const int rank = transport->rank(), next = (rank + 1) % 3, previous = (rank + 2) % 3;
    const auto mine = testing::pattern(5'000'003, rank);
    std::vector<std::byte> got(mine.size());
    const Outgoing out{next, mine};
    const Incoming in{previous, got.size(), got.data(), {}};
    for (int i = 0; i < 3; ++i) transport->exchange({&out, 1}, {&in, 1}, Seconds{20});
    if (got != testing::pattern(got.size(), previous)) throw Error(Code::corrupt, "content");
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST(TcpLatency, IsInterruptedWhileItHolds) {
  const auto outcomes = run_ranks(2, [&](Rendezvous& meeting) {
    const auto transport = make_tcp(meeting, late({30}));
    std::thread nudge([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      transport->interrupt();
    });
    const auto begin = now();
    try {
      send_moments(*transport, 1, {0}, [](Nanoseconds) {});
    } catch (const Error& error) {
      nudge.join();
      if (seconds(now() - begin) > 10) throw Error(Code::timeout, "held on");
      throw;
    }
    nudge.join();
  });
  EXPECT_FALSE(outcomes[0]);
  ASSERT_TRUE(outcomes[1]);
  EXPECT_EQ(outcomes[1]->code(), Code::interrupted) << outcomes[1]->what();
}

TEST(Tcp, NoticesAKilledPeer) {
  ForkedTable table;
  const pid_t victim = fork_rank([&] {
    ForkedTable::Seat seat(table, 1, 2);
    const auto transport = make_tcp(seat, {});
    ::pause();
  });
  const pid_t survivor = fork_rank([&] {
    ForkedTable::Seat seat(table, 0, 2);
    const auto transport = make_tcp(seat, {});
    ::kill(victim, SIGKILL);
    // More than the kernel buffers, so that the sending end must notice as well.
    const std::vector<std::byte> data(std::size_t{32} << 20);
    const Outgoing out{1, data};
    try {
      transport->exchange({&out, 1}, {}, Seconds{20});
    } catch (const Error& error) {
      if (error.code() == Code::peer_lost && std::string(error.what()).starts_with("[tcp] rank 0 lost rank 1: ")) return;
      throw;
    }
    throw Error(Code::corrupt, "did not notice");
  });
  EXPECT_EQ(status_of(survivor), 0);
  status_of(victim);
}

}  // namespace
}  // namespace ddl
