// How fast a server of parameters takes gradients and gives parameters, beside what its transport moves from one rank to another:
//   server_bench [MiB=25] [steps=60] [transport=shm]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "ddl/collective/testing.h"
#include "ddl/train/server_links.h"

namespace ddl {
namespace {

double median_of(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  return all[all.size() / 2];
}

/// Seconds of a message from rank 1 to rank 0 that lies in memory of the transport, on the receiver.
double message(Communicator& communicator, std::span<std::byte> memory) {
  Collective what{Goal::point_to_point};
  what.root = 1;
  what.peer = 0;
  communicator.barrier().wait();
  const auto begin = now();
  communicator.run(what, {memory.data(), memory.size() / 4, ElementType::fp32});
  return seconds(now() - begin);
}

void measure(Communicator& communicator, std::int64_t bytes, int steps, bool sums) {
  const auto parameters = at::zeros({bytes / 4});
  const auto memory = communicator.transport().allocate(static_cast<std::size_t>(bytes));
  const auto make = [](std::vector<at::Tensor> own) { return make_optimizer({"sgd", {{"momentum", "0"}}}, std::move(own)); };
  std::unique_ptr<ParameterServer> server;
  if (communicator.rank() == 0) server = std::make_unique<ParameterServer>(ParameterServer::Options{2, sums, -1, 0, std::int64_t{2} << 20}, std::vector{parameters}, communicator.transport(), make);
  ServerLinks links(1, communicator.rank(), communicator, {60}, server.get());
  std::vector<double> alone, both;
  for (int step = 0; step < steps; ++step) {
    alone.push_back(message(communicator, memory));
    communicator.barrier().wait();
    const auto begin = now();
    ServerWord word{.clock = step + 1, .bytes = bytes, .learning_rate = 0.1};
    // In a sum rank 0 has a part, too; asynchronously rank 1 has the server for itself.
    if (sums || communicator.rank() == 1) links.push(0, word, memory).wait();
    word.kind = ServerWord::Kind::pull;
    ServerAnswer answer;
    if (sums || communicator.rank() == 1) links.pull(0, word, {0, memory.size(), memory.data(), {}}, answer).wait();
    both.push_back(seconds(now() - begin));
  }
  communicator.barrier().wait();
  if (communicator.rank() != 1) return;
  const double gb = static_cast<double>(bytes) * 1e-9, one = median_of(alone), step = median_of(both);
  // In a sum the server takes the gradients of two workers, and gives both its parameters.
  const int served = sums ? 2 : 1;
  std::printf("%-5s message %6.2f ms, %5.2f GB/s; push and pull with the update %6.2f ms, %5.2f GB/s of %d worker%s both ways\n", sums ? "sync" : "async", one * 1e3, gb / one, step * 1e3,
              2 * served * gb / step, served, served == 1 ? "" : "s");
}

}  // namespace
}  // namespace ddl

int main(int count, char** words) {
  const std::int64_t bytes = (count > 1 ? std::atoll(words[1]) : 25) << 20;
  const int steps = count > 2 ? std::atoi(words[2]) : 60;
  const std::string transport = count > 3 ? words[3] : "shm";
  for (const bool sums : {true, false}) {
    const auto outcomes = ddl::testing::run_group(transport, 2, [&](ddl::Communicator& communicator) { ddl::measure(communicator, bytes, steps, sums); }, {ddl::Seconds{60}});
    for (const auto& outcome : outcomes)
      if (outcome) {
        std::fprintf(stderr, "server_bench: %s\n", outcome->what());
        return 1;
      }
  }
}
