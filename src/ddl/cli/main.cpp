#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "ddl/cli/process_role.h"
#include "ddl/transport/mpi/world.h"

namespace {

/// A closed descriptor 0, 1 or 2 would be given to the next file that is opened: the results store, say. Reading
/// ends and writing fails on what stands there instead, except for standard error, which has nobody to complain to.
void occupy_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY) != fd) ::_exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_descriptors();
  std::signal(SIGPIPE, SIG_IGN);
  const int code = ddl::play_role(argc, argv);
  // An MPI is left by a handler of exit().
  if (ddl::MpiWorld::is_joined()) return code;
  // LibTorch would take its tables of operators apart, entry by entry: .08 s, a third of what a short command takes in all. Whatever is ours has been closed by now.
  std::fflush(nullptr);
  ::_exit(code);
}
