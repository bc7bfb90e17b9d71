#include "ddl/transport/builtin.h"

#include <charconv>

#include "ddl/core/error.h"
#include "ddl/core/options.h"
#include "ddl/transport/gloo/gloo.h"
#include "ddl/transport/inproc.h"
#include "ddl/transport/mpi/implementations.h"
#include "ddl/transport/mpi/mpi.h"
#include "ddl/transport/nccl.h"
#include "ddl/transport/shm.h"
#include "ddl/transport/tcp.h"

namespace ddl {

Registry<TransportFactory> builtin_transports() {
  Registry<TransportFactory> registry("transport");
  registry.add({"inproc", "threads of one process; memory is read in place, all of it, or as shm does: inproc[staged=on]", make_inproc});
  registry.add({"shm", "processes of one host; shared memory is read in place", make_shm});
  registry.add({"tcp", "any hosts; a socket per pair of ranks, or several: tcp[sockets=N]", make_tcp});
  const auto mpis = mpi_implementations();
  registry.add({"mpi", describe(mpis), make_mpi, why_none(mpis)});
  registry.add({"nccl", "GPUs; collectives are NCCL's own", make_nccl, nccl_missing()});
  registry.add({"gloo", "the Gloo inside LibTorch", make_gloo, gloo_missing()});
  return registry;
}

std::vector<std::string> self_standing_transports() { return {"inproc", "shm", "tcp"}; }

static int sockets(const std::string& text) {
  constexpr int kMost = 64;
  int number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc{} || end != text.data() + text.size() || number < 1 || number > kMost)
    throw Error(Code::invalid_argument, fmt::format("[tcp] sockets per peer; got '{}', expected 1 to {}", text, kMost));
  return number;
}

ChosenTransport choose_transport(std::string_view text, TransportOptions options) {
  const Spec spec = parse_spec(text);
  const auto entry = builtin_transports().at(spec.name);
  require_options(spec, spec.name == "tcp" ? std::vector<std::string>{"sockets", "host"}
                        : spec.name == "mpi" ? std::vector<std::string>{"implementation"}
                        : spec.name == "inproc" ? std::vector<std::string>{"staged"} : std::vector<std::string>{});
  for (const auto& [name, value] : spec.options) {
    if (name == "implementation") options.implementation = value;
    if (name == "host") options.host = value;
    if (name == "sockets") options.sockets = sockets(value);
  }
  options.staged = switch_option(spec, "staged", options.staged);
  return {spec.name, entry.make, std::move(options)};
}

}  // namespace ddl
