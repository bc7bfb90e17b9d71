#pragma once

#include <memory>

#include "ddl/transport/builtin.h"
#include "ddl/transport/mpi/world.h"

namespace ddl {

/// Messages over the MPI of the launcher that started this process. The ranks are those of `rendezvous`, which may be any of
/// processes that one mpirun or srun started: mpi_rendezvous(), or another among some of them.
/// Errors: those of TransportFactory and MpiWorld::join(); unsupported where one launcher did not start all ranks.
std::unique_ptr<Transport> make_mpi(Rendezvous& rendezvous, const TransportOptions& options);

}  // namespace ddl
