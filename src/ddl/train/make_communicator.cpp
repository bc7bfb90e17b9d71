#include "ddl/train/make_communicator.h"

#include <utility>

#include "ddl/train/death_testing.h"
#include "ddl/transport/builtin.h"

namespace ddl {

std::string automatic_algorithm(const Job& job, Goal goal, std::size_t bytes, int ranks, bool shares_memory) {
  if (goal == Goal::all_reduce)
    for (const auto& choice : job.measured)
      if (choice.ranks == ranks && bytes >= choice.from && bytes < choice.to) return choice.algorithm;
  return std::string(default_algorithm(goal, bytes, ranks, shares_memory));
}

std::unique_ptr<Communicator> make_communicator(const Job& job, int rank, Control& control) {
  const auto ranks = static_cast<int>(job.workers.size());
  TestDeath(rank).at("connect");
  if (ranks == 1) return nullptr;
  ControlRendezvous rendezvous(control, rank, ranks);
  TransportOptions options;
  options.secret = job.secret;
  if (!job.addresses.empty()) {
    options.host = job.addresses.at(static_cast<std::size_t>(rank));
    options.latency = job.latency;
  }
  const auto chosen = choose_transport(job.transport, options);
  auto transport = chosen.make(rendezvous, chosen.options);
  const bool shares = transport->shares_memory();
  CommunicatorOptions how{job.collective_timeout, job.hosts, {}};
  how.automatic = [&job, shares](Goal goal, std::size_t bytes, int among) { return automatic_algorithm(job, goal, bytes, among, shares); };
  return std::make_unique<Communicator>(std::move(transport), std::move(how));
}

}  // namespace ddl
