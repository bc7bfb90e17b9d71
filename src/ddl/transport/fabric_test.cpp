#include "ddl/transport/fabric.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "ddl/core/statistics.h"
#include "ddl/transport/fabric_testing.h"
#include "ddl/transport/tcp.h"
#include "ddl/transport/testing.h"
#include "ddl/transport/wire.h"

namespace ddl {
namespace {

using testing::fork_rank;
using testing::ForkedTable;
using testing::left_by;
using testing::network_state;
using testing::status_of;

std::set<std::string> interfaces() {
  std::set<std::string> names;
  auto* const all = ::if_nameindex();
  for (const auto* each = all; each != nullptr && each->if_name != nullptr; ++each) names.insert(each->if_name);
  ::if_freenameindex(all);
  return names;
}

std::optional<Error> failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

void require(bool holds, const std::string& what) {
  if (!holds) throw Error(Code::corrupt, what);
}

/// PATH, for as long as it lives.
class Path {
 public:
  explicit Path(const std::string& path) : before_(std::getenv("PATH")) { ::setenv("PATH", path.c_str(), 1); }
  ~Path() { ::setenv("PATH", before_.c_str(), 1); }
  const std::string& before() const { return before_; }

 private:
  std::string before_;
};

/// errno of connecting to a port there; 0 where someone listens.
int knock(const std::string& host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  ::inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval most{0, 300'000};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

/// Bytes that eth0 of the namespace this process is in has been sent, headers and all.
std::int64_t come_by_uplink() {
  std::ifstream file("/proc/net/dev");
  for (std::string line; std::getline(file, line);)
    if (const auto at = line.find("eth0:"); at != std::string::npos) {
      std::istringstream fields(line.substr(at + 5));
      std::int64_t value = -1;
      fields >> value;
      return value;
    }
  return -1;
}

void swap_messages(Transport& transport, std::size_t bytes) {
  const int peer = 1 - transport.rank();
  const auto mine = testing::pattern(bytes, transport.rank());
  std::vector<std::byte> got(bytes);
  const Outgoing out{peer, mine};
  const Incoming in{peer, bytes, got.data(), {}};
  transport.exchange({&out, 1}, {&in, 1}, Seconds{20});
  require(got == testing::pattern(bytes, peer), "what came is not what was sent");
}

TEST(FreeNetwork, AvoidsEveryRoute) {
  EXPECT_EQ(free_network(""), "10.77.0.0/24");
  EXPECT_EQ(free_network("default via 192.0.2.1 dev eth0\nlocal 127.0.0.0/8 dev lo table local\n"), "10.77.0.0/24");
  EXPECT_EQ(free_network("10.77.0.128/25 dev eth0\nlocal 10.77.1.9 dev eth0 table local\n"), "10.77.2.0/24");
  EXPECT_EQ(free_network("10.77.0.0/23 via 192.0.2.1\nunreachable 10.77.2.0/24\nbroadcast 10.77.3.255 dev x\n"),
            "10.77.4.0/24");
  const auto failed = failure_of([] { free_network("10.0.0.0/8 via 192.0.2.1 dev eth0\n"); });
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->code(), Code::io);
}

TEST(Fabric, NeedsRoot) {
  const pid_t child = fork_rank([] {
    if (::geteuid() == 0) require(::setresuid(65534, 65534, 65534) == 0, "cannot become nobody");
    const auto failed = failure_of([] { Fabric("hosts=2"); });
    require(failed.has_value(), "made without root");
    require(failed->code() == Code::unsupported, std::string(name(failed->code())));
    require(std::string(failed->what()).starts_with("[fabric] network namespaces need root; got user id "),
            failed->what());
    require(left_by(::getpid()).empty(), "left behind");
  });
  EXPECT_EQ(status_of(child), 0);
}

/// Without root, NeedsRoot above still checks what users are told.
class FabricAsRoot : public testing::OnFabric {};

TEST_F(FabricAsRoot, IsThereAsLongAsItsObject) {
  const auto before = network_state();
  {
    const Fabric fabric("hosts=3,bandwidth=1Gbps,latency=100us");
    const Fabric another("hosts=2");
    EXPECT_EQ(fabric.hosts(), 3);
    EXPECT_EQ(left_by(::getpid()).size(), 7U);
    EXPECT_TRUE(left_by(::getpid()).contains(fabric.namespace_name(2)));
    EXPECT_EQ(network_state(), before) << "something was added to the machine's own network";
    EXPECT_EQ(fabric.address(0).substr(0, 6), "10.77.");
    EXPECT_NE(fabric.address(0), fabric.address(2));
    const auto options = fabric.options(2, {Seconds{5}, "secret"});
    EXPECT_EQ(options.host, fabric.address(2));
    EXPECT_EQ(options.latency, Seconds{100e-6});
    EXPECT_EQ(options.secret, "secret");
    for (const auto& [space, device] : {std::pair(fabric.namespace_name(1), "eth0"), {fabric.hub().name(), "port1"}}) {
      const auto queue = run_iproute2({"tc", "-n", space, "qdisc", "show", "dev", device});
      EXPECT_NE(queue.find("tbf"), std::string::npos) << queue;
      EXPECT_NE(queue.find("rate 1Gbit"), std::string::npos) << queue;
    }
    EXPECT_EQ(run_iproute2({"tc", "-n", another.namespace_name(0), "qdisc", "show", "dev", "eth0"}).find("tbf"),
              std::string::npos);
  }
  EXPECT_EQ(left_by(::getpid()).size(), 0U);
}

TEST_F(FabricAsRoot, LeavesNothingWhenItsUserThrows) {
  const auto failed = failure_of([] {
    const Fabric fabric("hosts=2,bandwidth=1Gbps");
    throw Error(Code::timeout, "thrown");
  });
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->code(), Code::timeout);
  EXPECT_TRUE(left_by(::getpid()).empty());
}

TEST_F(FabricAsRoot, LeavesNothingWhenACommandFails) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("ddlbench-fabric-{}", ::getpid());
  std::filesystem::create_directory(folder);
  // A tc that works once, so that a host with half of its queues is there when it fails.
  std::ofstream(folder / "tc")
      << "#!/bin/sh\n[ -e \"$0.used\" ] && { echo 'no such luck' >&2; exit 7; }\n: > \"$0.used\"\n";
  std::filesystem::permissions(folder / "tc", std::filesystem::perms::owner_all);
  {
    const Path path(folder.string() + ":" + std::getenv("PATH"));
    const auto failed = failure_of([] { Fabric("hosts=4,bandwidth=1Gbps"); });
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->code(), Code::io);
    const std::string words = failed->what();
    EXPECT_TRUE(words.starts_with("[command] 'nsenter --net=/run/netns/ddlbench-")) << words;
    EXPECT_TRUE(words.ends_with("' ended with status 7: no such luck")) << words;
  }
  std::filesystem::remove_all(folder);
}

TEST_F(FabricAsRoot, SaysThatIproute2IsMissing) {
  const Path path("/nonexistent");
  const auto failed = failure_of([] { Fabric("hosts=2"); });
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->code(), Code::unsupported);
  EXPECT_STREQ(failed->what(), "[command] no program 'ip' in PATH; expected it from Debian's package iproute2");
}

TEST_F(FabricAsRoot, SweepsWhatAKilledMakerLeft) {
  int ready[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  const pid_t maker = fork_rank([&] {
    const Fabric fabric("hosts=2,bandwidth=1Gbps");
    require(::write(ready[1], "x", 1) == 1, "pipe");
    ::pause();
  });
  ::close(ready[1]);
  char word = 0;
  EXPECT_EQ(::read(ready[0], &word, 1), 1);
  ::close(ready[0]);
  EXPECT_EQ(left_by(maker).size(), 3U);
  // Who lives keeps what is his.
  { const Fabric fabric("hosts=2"); }
  EXPECT_EQ(left_by(maker).size(), 3U);
  ::kill(maker, SIGKILL);
  EXPECT_EQ(WTERMSIG(status_of(maker)), SIGKILL);
  EXPECT_EQ(left_by(maker).size(), 3U);
  { const Fabric fabric("hosts=2"); }
  EXPECT_EQ(left_by(maker).size(), 0U);
}

TEST_F(FabricAsRoot, ALaterProcessWithTheSameIdDoesNotKeepIt) {
  // What a process of our id, but started long ago, would have left.
  const auto name = fmt::format("ddlbench-{}-1-0-host0", ::getpid());
  run_iproute2({"ip", "netns", "add", name});
  EXPECT_EQ(sweep_namespaces(), std::vector<std::string>{name});
  // Names that only look like ours stay.
  const auto other = fmt::format("ddlbench-{}", ::getpid());
  run_iproute2({"ip", "netns", "add", other});
  EXPECT_TRUE(sweep_namespaces().empty());
  run_iproute2({"ip", "netns", "del", other});
}

TEST_F(FabricAsRoot, AForkedCopyRemovesNothing) {
  const Fabric fabric("hosts=2");
  const pid_t child = fork_rank([&] { const_cast<Fabric&>(fabric).~Fabric(); });
  EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(left_by(::getpid()).size(), 3U);
}

TEST_F(FabricAsRoot, RanksOnTwoHostsMeetOverTheFabricAlone) {
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  for (const std::string description : {"hosts=2", "hosts=2,bandwidth=1Gbps,latency=1ms"}) {
    const Fabric fabric(description);
    ForkedTable table;
    std::vector<pid_t> ranks;
    for (int rank = 0; rank < 2; ++rank)
      ranks.push_back(fork_rank([&, rank] {
        fabric.enter(rank);
        require(interfaces() == std::set<std::string>{"lo", "eth0"}, "a host has other interfaces");
        ForkedTable::Seat seat(table, rank, 2);
        // Before they connect: once connected, the other may send at once.
        const auto before = come_by_uplink();
        const auto transport = make_tcp(seat, fabric.options(rank, {Seconds{20}, "secret"}));
        swap_messages(*transport, kBytes);
        const auto passed = come_by_uplink() - before;
        require(passed >= static_cast<std::int64_t>(kBytes), fmt::format("{} bytes went over the wire", passed));
      }));
    for (const pid_t rank : ranks) EXPECT_EQ(status_of(rank), 0) << description;
  }
}

TEST_F(FabricAsRoot, HostsReachEachOtherAndTheHubButNotTheMachine) {
  // Someone listens on all addresses of the machine.
  UniqueFd machine(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(machine.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(machine.get(), 8), 0);
  ASSERT_EQ(::getsockname(machine.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  const auto port = ntohs(address.sin_port);
  EXPECT_EQ(knock("127.0.0.1", port), 0);
  const Fabric fabric("hosts=2"), another("hosts=2");
  EXPECT_NE(knock(fabric.address(0), port), 0);
  const pid_t guest = fork_rank([&] {
    fabric.enter(0);
    // Refused: it is there, and nobody listens.
    require(knock("127.0.0.1", port) == ECONNREFUSED, "own loopback");
    require(knock(fabric.address(1), port) == ECONNREFUSED, "other host");
    require(knock(fabric.hub_address(), port) == ECONNREFUSED, "hub");
    // Every address of the machine is outside, and there is no way out.
    require(knock("192.0.2.2", port) == ENETUNREACH, "outside");
    // Pulling the plug of the other one ends it.
    run_iproute2({"ip", "-n", fabric.hub().name(), "link", "set", "port1", "down"});
    const int number = knock(fabric.address(1), port);
    require(number != 0 && number != ECONNREFUSED, fmt::format("reached without a wire: {}", std::strerror(number)));
  });
  EXPECT_EQ(status_of(guest), 0);
}

/// Numbers that forked ranks leave.
struct Findings {
  double value[8] = {};
};
class SharedFindings {
 public:
  SharedFindings()
      : at_(::mmap(nullptr, sizeof(Findings), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  ~SharedFindings() { ::munmap(at_, sizeof(Findings)); }
  double& operator[](int rank) const { return static_cast<Findings*>(at_)->value[rank]; }

 private:
  void* at_;
};

/// A rank on every host; whether all of them ended well.
bool on_all_hosts(const Fabric& fabric, const std::function<void(Transport&)>& body) {
  ForkedTable table;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < fabric.hosts(); ++rank)
    ranks.push_back(fork_rank([&, rank] {
      fabric.enter(rank);
      ForkedTable::Seat seat(table, rank, fabric.hosts());
      const auto transport = make_tcp(seat, fabric.options(rank, {Seconds{20}, "secret"}));
      body(*transport);
    }));
  bool well = true;
  for (const pid_t rank : ranks) well &= status_of(rank) == 0;
  return well;
}

void send_to(Transport& transport, int peer, std::span<const std::byte> data) {
  const Outgoing out{peer, data};
  transport.exchange({&out, 1}, {}, Seconds{30});
}

void take_from(Transport& transport, int peer, std::span<std::byte> data) {
  const Incoming in{peer, data.size(), data.data(), {}};
  transport.exchange({}, {&in, 1}, Seconds{30});
}

/// Bits of payload per second that host 0 takes from all others, once they are under way.
double rate_into_host_0(const std::string& description, std::size_t message, int messages) {
  const Fabric fabric(description);
  const SharedFindings findings;
  EXPECT_TRUE(on_all_hosts(fabric, [&](Transport& transport) {
    const int senders = transport.size() - 1;
    std::vector<std::byte> data(message * static_cast<std::size_t>(senders));
    if (transport.rank() != 0) {
      for (int i = 0; i <= messages; ++i) send_to(transport, 0, std::span(data).first(message));
      take_from(transport, 0, std::span(data).first(1));
      return;
    }
    Nanoseconds begin = 0;
    for (int i = 0; i <= messages; ++i) {
      if (i == 1) begin = now();
      std::vector<Incoming> in;
      for (int rank = 1; rank <= senders; ++rank)
        in.push_back({rank, message, data.data() + static_cast<std::size_t>(rank - 1) * message, {}});
      transport.exchange({}, in, Seconds{30});
    }
    findings[0] = static_cast<double>(message) * 8 * senders * messages / seconds(now() - begin);
    for (int rank = 1; rank <= senders; ++rank) send_to(transport, rank, std::span(data).first(1));
  })) << description;
  return findings[0];
}

TEST_F(FabricAsRoot, BandwidthIsAsAsked) {
  struct Case {
    std::string description;
    std::size_t message;
    int messages;
  };
  for (const auto& [description, message, messages] :
       {Case{"hosts=2,bandwidth=10Mbps", 64 << 10, 25}, Case{"hosts=2,bandwidth=100Mbps", 512 << 10, 20},
        Case{"hosts=2,bandwidth=1Gbps", 4 << 20, 20},
        // Two send to one: its port is the limit.
        Case{"hosts=3,bandwidth=200Mbps", 512 << 10, 20}}) {
    const double expected = payload_bandwidth(parse_fabric(description)).value;
    const double rate = rate_into_host_0(description, message, messages);
    RecordProperty(description, fmt::format("{:.3f}", rate / expected));
    std::printf("%s: %.1f Mbit/s of payload, %.3f of what is possible\n", description.c_str(), rate / 1e6,
                rate / expected);
    EXPECT_GT(rate / expected, 0.7) << description;
    EXPECT_LT(rate / expected, 1.1) << description;
  }
}

/// A message's way there and back: a quick one (a tenth are quicker) and the median, since others may be using the
/// cores.
struct RoundTrip {
  double fast = 0, median = 0;
};
RoundTrip round_trip(const std::string& description, int rounds) {
  const Fabric fabric(description);
  const SharedFindings findings;
  EXPECT_TRUE(on_all_hosts(fabric, [&](Transport& transport) {
    std::byte byte{};
    std::vector<double> times;
    for (int i = 0; i < rounds; ++i) {
      const auto begin = now();
      if (transport.rank() == 0) send_to(transport, 1, {&byte, 1});
      take_from(transport, 1 - transport.rank(), {&byte, 1});
      if (transport.rank() == 1) send_to(transport, 0, {&byte, 1});
      times.push_back(seconds(now() - begin));
    }
    if (transport.rank() == 0) findings[0] = quantile(times, 0.1);
    if (transport.rank() == 0) findings[1] = median(times);
    if (transport.rank() == 0) take_from(transport, 1, {&byte, 1});
    if (transport.rank() == 1) send_to(transport, 0, {&byte, 1});
  })) << description;
  return {findings[0], findings[1]};
}

TEST_F(FabricAsRoot, ARoundTripTakesTwiceTheLatency) {
  const auto base = round_trip("hosts=2,bandwidth=1Gbps", 500);
  std::printf("round trip without latency %.1f us, median %.1f us\n", base.fast * 1e6, base.median * 1e6);
  for (const double latency : {100e-6, 1e-3, 10e-3}) {
    const auto took =
        round_trip(fmt::format("hosts=2,bandwidth=1Gbps,latency={:.0f}us", latency * 1e6), latency < 5e-3 ? 300 : 50);
    std::printf("latency %.0f us: round trip 2L + %.1f us, median 2L + %.1f us\n", latency * 1e6,
                (took.fast - 2 * latency) * 1e6, (took.median - 2 * latency) * 1e6);
    EXPECT_GE(took.fast, 2 * latency);
    // What two wake-ups may take here; the longer a core has slept the longer.
    EXPECT_LT(took.fast, 2 * latency + base.fast + 300e-6 + latency / 20);
  }
}

TEST_F(FabricAsRoot, LatencyTakesNoBandwidth) {
  // A message is 9 ms on the wire: one after the other they would take three times as long.
  const double without = rate_into_host_0("hosts=2,bandwidth=1Gbps", 1 << 20, 30);
  const double with = rate_into_host_0("hosts=2,bandwidth=1Gbps,latency=20ms", 1 << 20, 30);
  std::printf("%.1f Mbit/s without, %.1f with a latency of 20 ms\n", without / 1e6, with / 1e6);
  EXPECT_GT(with, 0.6 * without);
}

TEST_F(FabricAsRoot, APulledPlugNamesThePeerInTime) {
  const Fabric fabric("hosts=3,bandwidth=1Gbps");
  const SharedFindings findings;
  EXPECT_TRUE(on_all_hosts(fabric, [&](Transport& transport) {
    const int rank = transport.rank(), next = (rank + 1) % 3, before = (rank + 2) % 3;
    std::vector<std::byte> mine(1 << 20), got(mine.size());
    for (int i = 0;; ++i) {
      if (rank == 0 && i == 5) fabric.set_wire(1, false);
      const auto begin = now();
      const Outgoing out{next, mine};
      const Incoming in{before, got.size(), got.data(), {}};
      try {
        transport.exchange({&out, 1}, {&in, 1}, Seconds{1});
      } catch (const Error& error) {
        const std::string said = error.what();
        require(error.code() == Code::timeout, said);
        // Host 1 hears from nobody, so it may name either; the others find out that it is at the beginning.
        require(said.find(" 1", said.find("; rank")) != std::string::npos || rank == 1, said);
        require(seconds(now() - begin) < 3, "too late");
        findings[rank] = 1;
        return;
      }
      require(i < 1000, "nobody missed the wire");
    }
  }));
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(findings[rank], 1);
}

TEST_F(FabricAsRoot, APlugThatIsPulledForAMomentOnlyDelays) {
  const Fabric fabric("hosts=2,bandwidth=1Gbps");
  EXPECT_TRUE(on_all_hosts(fabric, [&](Transport& transport) {
    for (int i = 0; i < 5; ++i) {
      if (transport.rank() == 0 && i == 2) fabric.set_wire(1, false);
      std::thread mend([&] {
        ::usleep(300'000);
        if (transport.rank() == 0 && i == 2) fabric.set_wire(1, true);
      });
      swap_messages(transport, 1 << 20);
      mend.join();
    }
  }));
}

TEST_F(FabricAsRoot, AStrangerOnAnotherHostIsRefused) {
  const Fabric fabric("hosts=3");
  ForkedTable table;
  ForkedTable meeting;
  ::testing::internal::CaptureStderr();
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.push_back(fork_rank([&, rank] {
      fabric.enter(rank);
      /// Lets the stranger in first.
      class Slow final : public Rendezvous {
       public:
        Slow(ForkedTable& both, ForkedTable& all, int number) : seat_(both, number, 2), all_(all, number, 3) {}
        int rank() const override { return seat_.rank(); }
        int size() const override { return 2; }
        std::vector<std::string> exchange(const std::string& mine, Seconds timeout) override {
          auto places = seat_.exchange(mine, timeout);
          all_.exchange(mine, timeout);
          all_.exchange("", timeout);  // the stranger has knocked
          return places;
        }

       private:
        ForkedTable::Seat seat_, all_;
      } slow(table, meeting, rank);
      const auto transport = make_tcp(slow, fabric.options(rank, {Seconds{20}, "secret"}));
      swap_messages(*transport, 1000);
    }));
  const pid_t stranger = fork_rank([&] {
    fabric.enter(2);
    ForkedTable::Seat seat(meeting, 2, 3);
    const auto place = seat.exchange("", Seconds{20})[0];
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(place.substr(place.rfind(':') + 1))));
    ::inet_pton(AF_INET, fabric.address(0).c_str(), &address.sin_addr);
    const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    require(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0, "connect");
    const auto hello = wire::make_hello(1, 1, 2, "guess");
    require(::send(fd.get(), &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello, "send");
    seat.exchange("", Seconds{20});
    char answer = 0;
    require(::recv(fd.get(), &answer, 1, 0) <= 0, "somebody answered");
  });
  for (const pid_t rank : ranks) EXPECT_EQ(status_of(rank), 0);
  EXPECT_EQ(status_of(stranger), 0);
  const auto said = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(said.starts_with("ddlbench: refused a connection from " + fabric.address(2) + ":")) << said;
  EXPECT_TRUE(said.ends_with(": wrong secret\n")) << said;
}

}  // namespace
}  // namespace ddl
