#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>

#include "ddl/collective/phases_testing.h"
#include "ddl/transport/mpi/launcher.h"
#include "ddl/transport/mpi/mpi.h"

// A rank that a launcher started is killed or stopped, in every phase that forked ranks go through (phases_testing.h) and in
// those that only MPI has. Each of the others judges what it met with, and prints that; tests/mpi_death_test.py starts this
// and judges the job.
//
// usage: mpi_death_test list
//        mpirun -n 3 mpi_death_test phase=NAME victim=RANK fate=killed|stopped scene=FILE [agents]
// FILE is in memory of all, and new. With `agents` the launcher's process is the parent of the rank, as in ddlbench itself,
// so that the launcher does not notice that the rank dies, and the others go on.

namespace ddl {
namespace {

using namespace testing;

constexpr Seconds kTimeout{2};
/// For MPI to start: it takes a second, and several on busy cores.
constexpr Seconds kStart{6};
/// A machine that does much else may take so long beyond the timeout.
constexpr double kMargin = 5;
/// When an agent gives up waiting for the end of the job.
constexpr unsigned kJob = 40;

constexpr const char* kBeforeStart = "BeforeMpiStarts";

std::vector<Phase> phases_of_mpi() {
  auto all = phases();
  for (auto& phase : phases_of_other_collectives()) all.push_back(std::move(phase));
  // Played before there is a rendezvous.
  all.push_back({kBeforeStart, [](Stage&) {}, always(""), true, [](int victim) { return victim; }, "started; not all of its 3 processes came"});
  all.push_back({"BeforeANativeCollective", connected([](Communicator& group, Stage& stage) {
                   auto values = ones(100'000);
                   for (int round = 0; round < 3; ++round) reduce(group, values, "native");
                   // Once the others are through, too: who sees right behind a collective that a rank has ended says so of that one.
                   if (stage.is_victim()) ::usleep(200'000), stage.scene.die_here();
                   reduce(group, values, "native");
                 }),
                 always("[#4 all-reduce (native, sum) of 100000 fp32] ")});
  for (const bool large : {false, true}) {
    Phase phase{large ? "AmidANativeCollective" : "InsideANativeCollective", connected([large](Communicator& group, Stage& stage) {
                  auto values = ones(large ? 3'000'001 : 1'000);
                  for (int round = 0;; ++round) {
                    if (stage.is_victim() && round == 2 && large) stage.scene.ready = true;
                    if (stage.is_victim() && round == 2 && !large) stage.scene.die_here();
                    reduce(group, values, "native[meet=off]");
                  }
                }),
                always(" all-reduce (native, sum) of ")};
    phase.inside_mpi = "own collective, #";
    all.push_back(phase);
  }
  Phase leaving{"WhileLeaving", connected([](Communicator& group, Stage& stage) {
                  auto values = ones(1000);
                  reduce(group, values, "auto");
                  if (stage.is_victim()) stage.scene.die_here();
                }),
                always("")};
  leaving.inside_mpi = "ends the job, since not all come to the end";
  all.push_back(leaving);
  return all;
}

struct Words {
  std::string phase, scene;
  Death death{"mpi", 1, Fate::killed};
  bool agents = false;
};

Words read_words(int argc, char** argv) {
  Words words;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&](const char* key) { return word.starts_with(key) ? std::optional(word.substr(std::strlen(key))) : std::nullopt; };
    if (const auto phase = value("phase=")) words.phase = *phase;
    if (const auto scene = value("scene=")) words.scene = *scene;
    if (const auto victim = value("victim=")) words.death.victim = std::atoi(victim->c_str());
    if (const auto fate = value("fate=")) words.death.fate = *fate == "killed" ? Fate::killed : Fate::stopped;
    words.agents |= word == "agents";
  }
  return words;
}

/// Zeros at first, which is how a scene begins.
Scene& open_scene(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ::ftruncate(fd, sizeof(Scene)) != 0) throw system_error("cannot make " + path, errno);
  void* const memory = ::mmap(nullptr, sizeof(Scene), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (memory == MAP_FAILED) throw system_error("cannot map " + path, errno);
  return *static_cast<Scene*>(memory);
}

/// Strikes this process once it is where it is to be struck.
void strike_when_ready(Scene& scene, Fate fate) {
  std::thread([&scene, fate] {
    while (!scene.ready) ::usleep(500);
    ::usleep(3'000);
    scene.struck = now();
    ::kill(::getpid(), fate == Fate::killed ? SIGKILL : SIGSTOP);
  }).detach();
}

int be_a_rank(const Words& words) {
  const auto all = phases_of_mpi();
  const auto phase = std::find_if(all.begin(), all.end(), [&](const Phase& each) { return each.name == words.phase; });
  if (phase == all.end()) throw Error(Code::invalid_argument, "no such phase: " + words.phase);
  auto& scene = open_scene(words.scene);
  const auto launched = launched_process();
  if (!launched || launched->ranks != Scene::kRanks) throw Error(Code::invalid_argument, fmt::format("expected a launcher's {} ranks", int{Scene::kRanks}));
  const int rank = launched->rank;
  const bool victim = rank == words.death.victim;
  if (victim) strike_when_ready(scene, words.death.fate);
  if (victim && words.phase == kBeforeStart) scene.die_here();
  const auto meeting = mpi_rendezvous({}, {}, kStart);
  auto& testimony = scene.survivors[rank];
  bear_witness(testimony, [&](Testimony&) {
    Stage stage{*meeting, words.death, kTimeout, scene, testimony};
    phase->play(stage);
  });
  // MPI's own descriptors come when they come.
  testimony.descriptors_left = 0;
  const double took = scene.struck == 0 ? 0 : seconds(testimony.ended - scene.struck.load());
  const auto wrong = victim ? fmt::format("it was to be struck; {}", testimony.said)
                     // Some libraries come back out of some of their calls.
                     : phase->inside_mpi.empty() || testimony.failed ? objection(*phase, words.death, testimony, took, kTimeout.value + kMargin)
                                                                     : std::string();
  std::printf("rank %d is %s after %.2f s: %s\n", rank, wrong.empty() ? "right" : "wrong", took, wrong.empty() ? testimony.said : wrong.c_str());
  std::fflush(stdout);
  return testimony.failed ? 3 : 0;
}

/// The parent of a rank. It stays where its rank was killed: somebody else is to end the job.
int be_an_agent(const Words& words, const std::function<int()>& rank) {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::exit(::getppid() == parent ? rank() : 1);
  }
  const int status = status_of(child);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const auto launched = launched_process();
  if (!launched || launched->rank != words.death.victim) {
    std::printf("a rank crashed: signal %d\n", WTERMSIG(status));
    return 8;
  }
  ::sleep(kJob);
  std::printf("nobody ended the job of a killed rank for %u s: is wrong\n", kJob);
  return 9;
}

int run(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "list") {
    for (const auto& phase : phases_of_mpi()) std::printf("%s\t%s\n", phase.name.c_str(), phase.inside_mpi.c_str());
    return 0;
  }
  const auto words = read_words(argc, argv);
  const auto rank = [&] {
    try {
      return be_a_rank(words);
    } catch (const std::exception& error) {
      std::printf("mpi_death_test is wrong: %s\n", error.what());
      std::fflush(stdout);
      return 2;
    }
  };
  return words.agents ? be_an_agent(words, rank) : rank();
}

}  // namespace
}  // namespace ddl

int main(int argc, char** argv) { return ddl::run(argc, argv); }
