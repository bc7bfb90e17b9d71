#include "ddl/transport/mpi/implementations.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/transport/builtin.h"

namespace ddl {
namespace {

/// Variables as a launcher leaves them, until the end of the test.
class Environment {
 public:
  explicit Environment(std::vector<std::string> names) : names_(std::move(names)) {
    for (const char* const name : {"OMPI_COMM_WORLD_RANK", "I_MPI_HYDRA_UUID", "PMI_RANK", "MPI_LOCALRANKID", "PMIX_RANK", "I_MPI_ROOT"}) ::unsetenv(name);
    for (const auto& name : names_) ::setenv(name.c_str(), "0", 1);
  }
  ~Environment() {
    for (const auto& name : names_) ::unsetenv(name.c_str());
  }

 private:
  std::vector<std::string> names_;
};

TEST(MpiImplementations, ListingNamesWhatAMissingOneLacks) {
  const std::vector<MpiImplementation> all{{"openmpi", "", "", {}, "", "no headers (Debian's libopenmpi-dev)"}, {"mpich", "", "", {}, "", ""}};
  EXPECT_EQ(describe(all), "processes that mpirun or srun started; implementation=mpich (not openmpi: no headers (Debian's libopenmpi-dev))");
  EXPECT_EQ(why_none(all), "");
  EXPECT_EQ(why_none({all[0]}), "openmpi: no headers (Debian's libopenmpi-dev)");
}

TEST(MpiImplementations, TransportIsListedHereOrWithTheReason) {
  const auto registry = builtin_transports();
  for (const auto& entry : registry.entries()) {
    if (entry.name != "mpi") continue;
    for (const auto& each : mpi_implementations()) {
      if (each.missing.empty()) {
        EXPECT_EQ(entry.missing, "");
        EXPECT_EQ(choose_mpi(each.name).module, each.module);
        continue;
      }
      EXPECT_NE((entry.summary + entry.missing).find(fmt::format("{}: {}", each.name, each.missing)), std::string::npos) << entry.summary;
      try {
        choose_mpi(each.name);
        FAIL() << each.name;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::unsupported);
        EXPECT_NE(std::string(error.what()).find(each.missing), std::string::npos) << error.what();
      }
    }
    return;
  }
  FAIL() << "mpi is not listed";
}

TEST(MpiImplementations, KnowsWhoseLauncherStartedIt) {
  const auto after = [](std::vector<std::string> names) {
    const Environment environment(std::move(names));
    return mpi_of_launcher();
  };
  EXPECT_EQ(after({}), "");
  EXPECT_EQ(after({"OMPI_COMM_WORLD_RANK", "PMIX_RANK"}), "openmpi");
  EXPECT_EQ(after({"PMIX_RANK"}), "openmpi");  // srun --mpi=pmix
  EXPECT_EQ(after({"PMI_RANK", "MPI_LOCALRANKID"}), "mpich");
  EXPECT_EQ(after({"PMI_RANK", "MPI_LOCALRANKID", "I_MPI_HYDRA_UUID"}), "intel");
  EXPECT_EQ(after({"PMI_RANK", "I_MPI_ROOT"}), "intel");  // srun --mpi=pmi2
}

TEST(MpiImplementations, RefusesUnknownNamesAndOptions) {
  const auto code = [](const std::string& text) {
    try {
      const auto chosen = choose_transport(text, {});
      return chosen.name + " " + chosen.options.implementation + fmt::format("{}", chosen.options.sockets);
    } catch (const Error& error) {
      return std::string(name(error.code()));
    }
  };
  EXPECT_EQ(code("tcp[sockets=4]"), "tcp 4");
  EXPECT_EQ(code("tcp[socket=4]"), "invalid_argument");
  EXPECT_EQ(code("nowhere"), "not_found");
  try {
    choose_mpi("openmp");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::not_found);
    EXPECT_NE(std::string(error.what()).find("did you mean 'openmpi'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ddl
