#include "ddl/collective/communicator.h"

#include <map>
#include <thread>
#include <tuple>

#include "ddl/collective/execute.h"
#include "ddl/collective/queue.h"
#include "ddl/transport/deadline.h"

namespace ddl {

struct Communicator::Impl {
  Impl(std::unique_ptr<Transport> wire, Seconds bound)
      : transport(std::move(wire)), timeout(bound), thread([queue = queue] { queue->serve(); }) {}

  std::shared_ptr<const Prepared> prepared(std::string_view name, Goal goal, std::size_t elements, int root);
  Handle start(std::string_view name, Goal goal, const Buffer& buffer, ReduceOp op, int root, Start when);

  std::unique_ptr<Transport> transport;
  Seconds timeout;
  Registry<CollectiveAlgorithm> algorithms = builtin_collectives();
  std::map<std::tuple<const void*, std::size_t, int>, std::shared_ptr<const Prepared>> cache;
  std::shared_ptr<CommunicationQueue> queue = std::make_shared<CommunicationQueue>();
  std::thread thread;  // last: it uses the queue
};

std::shared_ptr<const Prepared> Communicator::Impl::prepared(std::string_view name, Goal goal, std::size_t elements,
                                                             int root) {
  const auto& entry = algorithms.at(name);
  if (entry.make.goal != goal)
    throw Error(Code::invalid_argument, fmt::format("[collective] '{}' is not what is asked for; it is: {}", name,
                                                    entry.summary));
  auto& found = cache[{&entry, elements, root}];
  if (!found) {
    // A run has some tens of shapes. Whoever makes up new ones for ever pays again, and not in memory.
    constexpr std::size_t kMostCached = 4096;
    auto made = std::make_shared<const Prepared>(
        prepare(entry.make.schedule(transport->rank(), {transport->size(), elements, root})));
    if (cache.size() > kMostCached) cache.clear();
    cache[{&entry, elements, root}] = made;
    return made;
  }
  return found;
}

Handle Communicator::Impl::start(std::string_view name, Goal goal, const Buffer& buffer, ReduceOp op, int root,
                                 Start when) {
  auto state = std::make_shared<Handle::State>();
  state->queue = queue;
  state->work = [this, name = std::string(name), schedule = prepared(name, goal, buffer.elements, root), buffer, op] {
    try {
      execute(*schedule, buffer, op, *transport, deadline_after(timeout));
    } catch (const Error& error) {
      if (error.code() != Code::corrupt) throw;
      throw Error(Code::invalid_argument,
                  fmt::format("[{}] ranks must start the same collectives on the same size; {}", name, error.what()));
    }
  };
  queue->push(state, when);
  return Handle(std::move(state));
}

Communicator::Communicator(std::unique_ptr<Transport> transport, Seconds timeout)
    : impl_(std::make_unique<Impl>(std::move(transport), timeout)) {}

Communicator::~Communicator() {
  impl_->queue->stop([&] { impl_->transport->interrupt(); });
  impl_->thread.join();
}

int Communicator::rank() const { return impl_->transport->rank(); }
int Communicator::size() const { return impl_->transport->size(); }
Transport& Communicator::transport() { return *impl_->transport; }

Handle Communicator::all_reduce(Buffer buffer, ReduceOp op, std::string_view algorithm, Start start) {
  // Where messages cost no copy, nothing is gained by a ring's short ways; on a wire it loads every link alike.
  if (algorithm == "auto") algorithm = impl_->transport->shares_memory() ? "direct" : "ring";
  return impl_->start(algorithm, Goal::all_reduce, buffer, op, 0, start);
}

Handle Communicator::broadcast(Buffer buffer, int root, Start start) {
  if (root < 0 || root >= size())
    throw Error(Code::invalid_argument,
                fmt::format("[broadcast] no such root; got {}, expected a rank of {}", root, size()));
  return impl_->start("broadcast", Goal::broadcast, buffer, ReduceOp::sum, root, start);
}

Handle Communicator::barrier(Start start) {
  return impl_->start("barrier", Goal::barrier, {}, ReduceOp::sum, 0, start);
}

bool Handle::done() const { return state_->queue->done(*state_); }
void Handle::wait() const { state_->queue->wait(*state_); }
Nanoseconds Handle::began() const { return state_->began; }
Nanoseconds Handle::ended() const { return state_->ended; }

}  // namespace ddl
