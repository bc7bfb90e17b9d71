#include "ddl/transport/builtin.h"

#include "ddl/transport/inproc.h"
#include "ddl/transport/shm.h"
#include "ddl/transport/tcp.h"

namespace ddl {

Registry<TransportFactory> builtin_transports() {
  Registry<TransportFactory> registry("transport");
  registry.add({"inproc", "threads of one process; memory is read in place", make_inproc});
  registry.add({"shm", "processes of one host; shared memory is read in place", make_shm});
  registry.add({"tcp", "any hosts; one socket per pair of ranks", make_tcp});
  return registry;
}

}  // namespace ddl
