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
