#include "ddl/transport/fabric.h"

#include <arpa/inet.h>
#include <fcntl.h>
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

#include <gtest/gtest.h>

#include "ddl/transport/tcp.h"
#include "ddl/transport/testing.h"

namespace ddl {
namespace {

using testing::ForkedTable;
using testing::fork_rank;
using testing::status_of;

/// Names of network namespaces whose maker is process `pid`.
std::set<std::string> left_by(pid_t pid) {
  std::set<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/run/netns", none))
    if (const auto name = entry.path().filename().string(); name.starts_with(fmt::format("ddlbench-{}-", pid))) names.insert(name);
  return names;
}

std::set<std::string> interfaces() {
  std::set<std::string> names;
  auto* const all = ::if_nameindex();
  for (const auto* each = all; each != nullptr && each->if_name != nullptr; ++each) names.insert(each->if_name);
  ::if_freenameindex(all);
  return names;
}

std::size_t open_fds() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
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

/// Bytes that eth0 of the namespace this process is in has sent, headers and all.
std::int64_t sent_by_uplink() {
  std::ifstream file("/proc/net/dev");
  for (std::string line; std::getline(file, line);)
    if (const auto at = line.find("eth0:"); at != std::string::npos) {
      std::istringstream fields(line.substr(at + 5));
      std::int64_t value = 0;
      for (int field = 0; field < 9; ++field) fields >> value;
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
  EXPECT_EQ(free_network("10.77.0.0/23 via 192.0.2.1\nunreachable 10.77.2.0/24\nbroadcast 10.77.3.255 dev x\n"), "10.77.4.0/24");
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
    require(std::string(failed->what()).starts_with("[fabric] network namespaces need root; got user id "), failed->what());
    require(left_by(::getpid()).empty(), "left behind");
  });
  EXPECT_EQ(status_of(child), 0);
}

/// What takes root. Without it NeedsRoot above still checks what users are told.
class FabricAsRoot : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto failed = failure_of(require_namespaces)) GTEST_SKIP() << failed->what();
    interfaces_ = interfaces();
    fds_ = open_fds();
  }
  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_EQ(left_by(::getpid()), std::set<std::string>{});
    EXPECT_EQ(interfaces(), interfaces_);
    EXPECT_EQ(open_fds(), fds_);
  }
  std::set<std::string> interfaces_;
  std::size_t fds_ = 0;
};

TEST_F(FabricAsRoot, IsThereAsLongAsItsObject) {
  {
    const Fabric fabric("hosts=3,bandwidth=1Gbps,latency=100us");
    const Fabric another("hosts=2");
    EXPECT_EQ(fabric.hosts(), 3);
    EXPECT_EQ(left_by(::getpid()).size(), 7U);
    EXPECT_TRUE(left_by(::getpid()).contains(fabric.namespace_name(2)));
    EXPECT_EQ(interfaces(), interfaces_) << "something was added to the machine's own network";
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
    EXPECT_EQ(run_iproute2({"tc", "-n", another.namespace_name(0), "qdisc", "show", "dev", "eth0"}).find("tbf"), std::string::npos);
  }
  EXPECT_EQ(left_by(::getpid()).size(), 0U);
}

TEST_F(FabricAsRoot, LeavesNothingWhenACommandFails) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("ddlbench-fabric-{}", ::getpid());
  std::filesystem::create_directory(folder);
  // A tc that works once, so that a host with half of its queues is there when it fails.
  std::ofstream(folder / "tc") << "#!/bin/sh\n[ -e \"$0.used\" ] && { echo 'no such luck' >&2; exit 7; }\n: > \"$0.used\"\n";
  std::filesystem::permissions(folder / "tc", std::filesystem::perms::owner_all);
  {
    const Path path(folder.string() + ":" + std::getenv("PATH"));
    const auto failed = failure_of([] { Fabric("hosts=4,bandwidth=1Gbps"); });
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->code(), Code::io);
    const std::string words = failed->what();
    EXPECT_TRUE(words.starts_with("[command] 'tc -n ddlbench-")) << words;
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
        const auto transport = make_tcp(seat, fabric.options(rank, {Seconds{20}, "secret"}));
        const auto before = sent_by_uplink();
        swap_messages(*transport, kBytes);
        const auto passed = sent_by_uplink() - before;
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

}  // namespace
}  // namespace ddl
