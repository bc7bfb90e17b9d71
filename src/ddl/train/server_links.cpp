#include "ddl/train/server_links.h"

#include <cstring>
#include <exception>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace ddl {
namespace {

constexpr Signature kServing{~std::uint64_t{0} - 1, 0};
constexpr Seconds kHoweverLong{std::numeric_limits<double>::infinity()};
// Of a pair.
constexpr int kWorker = 0, kServer = 1;
/// Messages that begin so name who is at fault: they are passed on as they came.
constexpr std::string_view kKnown = "[parameter-server] ";

template <typename T>
void send(Transport& wire, int to, const T& word, Seconds timeout) {
  const Outgoing message{to, std::as_bytes(std::span(&word, 1))};
  wire.exchange({&message, 1}, {}, timeout, kServing);
}

template <typename T>
T receive(Transport& wire, int from, Seconds timeout) {
  T word{};
  const Incoming message{from, sizeof word, reinterpret_cast<std::byte*>(&word), {}};
  wire.exchange({}, {&message, 1}, timeout, kServing);
  return word;
}

}  // namespace

// Making a pair is a meeting of its two: all make them in one order, so that nobody waits for somebody who waits for them.
ServerLinks::ServerLinks(int servers, int worker, Communicator& everyone, Seconds timeout, ParameterServer* own) : worker_(worker), timeout_(timeout), own_(own) {
  for (int server = 0; server < servers; ++server)
    for (int other = 0; other < everyone.size(); ++other) {
      if (worker == other) {
        auto link = std::make_unique<Link>();
        link->server = server;
        if (server != other) link->pair = everyone.group({other, server});
        links_.push_back(std::move(link));
      } else if (worker == server) {
        auto door = std::make_unique<Door>();
        door->worker = other;
        door->pair = everyone.group({other, server});
        doors_.push_back(std::move(door));
      }
    }
  for (auto& link : links_) link->thread = std::thread([queue = link->queue] { queue->serve(); });
  for (auto& door : doors_) door->thread = std::thread([this, &door = *door] { serve(door); });
}

void ServerLinks::lose(const Error& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!lost_) lost_ = why;
  }
  if (own_ != nullptr) own_->fail(why);
}

Error ServerLinks::reason_to_leave() {
  const std::lock_guard lock(mutex_);
  return lost_.value_or(Error(Code::peer_lost, fmt::format("{}lost worker {}: it left", kKnown, worker_)));
}

ServerLinks::~ServerLinks() {
  ending_ = true;
  const auto why = reason_to_leave();
  if (own_ != nullptr) own_->fail(why);
  for (auto& link : links_) {
    link->queue->stop([&] {
      if (link->pair) link->pair->transport().depart(why);
    });
    link->thread.join();
    if (link->pair) link->pair->transport().depart(why);  // also where it was idle
  }
  for (auto& door : doors_) {
    door->pair->transport().depart(why);
    door->thread.join();
  }
}

Handle ServerLinks::start(Link& link, std::function<void()> work, std::function<void()> ready) {
  auto state = std::make_shared<Handle::State>();
  state->queue = link.queue;
  state->ready = std::move(ready);
  state->work = std::move(work);
  link.queue->push(state, Start::now);
  return Handle(std::move(state));
}

template <typename Body>
void ServerLinks::with_server(const Link& link, const Body& body) {
  try {
    body(link.pair->transport());
  } catch (const Error& error) {
    const std::string said = error.what();
    Error named(error.code(), said.starts_with(kKnown)               ? said
                              : error.code() == Code::peer_lost      ? fmt::format("{}lost worker {}, who has a server: {}", kKnown, link.server, said)
                                                                     : fmt::format("{}worker {} with the server of worker {}: {}", kKnown, worker_, link.server, said));
    if (!ending_) lose(named);
    throw named;
  }
}

Handle ServerLinks::push(int server, const ServerWord& word, std::span<const std::byte> gradients, std::function<void()> ready) {
  auto& link = *links_.at(static_cast<std::size_t>(server));
  return start(link, [this, &link, word, gradients] {
    if (!link.pair)
      return own_->push(worker_, word, [&](const Sink& sink) { sink.take(sink.context, 0, gradients, 1); });
    with_server(link, [&](Transport& wire) {
      send(wire, kServer, word, timeout_);
      const Outgoing message{kServer, gradients};
      if (word.bytes > 0) wire.exchange({&message, 1}, {}, timeout_, kServing);
    });
  }, std::move(ready));
}

Handle ServerLinks::pull(int server, const ServerWord& word, const Incoming& place, ServerAnswer& answer) {
  auto& link = *links_.at(static_cast<std::size_t>(server));
  return start(link, [this, &link, word, place, &answer] {
    if (!link.pair) {
      const auto take = [&](const ServerAnswer& said, std::span<const std::byte> values) {
        answer = said;
        if (place.into != nullptr)
          std::memcpy(place.into, values.data(), values.size());
        else
          place.sink.take(place.sink.context, 0, values, 1);
      };
      return word.kind == ServerWord::Kind::look ? own_->look(take) : own_->pull(worker_, word, take);
    }
    with_server(link, [&](Transport& wire) {
      send(wire, kServer, word, timeout_);
      answer = receive<ServerAnswer>(wire, kServer, timeout_);
      auto message = place;
      message.peer = kServer;
      wire.exchange({}, {&message, 1}, timeout_, kServing);
    });
  }, {});
}

void ServerLinks::serve(Door& door) {
  auto& wire = door.pair->transport();
  const auto answer = [&](const ServerAnswer& said, std::span<const std::byte> parameters) {
    send(wire, kWorker, said, timeout_);
    const Outgoing message{kWorker, parameters};
    wire.exchange({&message, 1}, {}, timeout_, kServing);
  };
  bool elsewhere = false;  // what ends it is not this worker's
  try {
    while (true) {
      const auto word = receive<ServerWord>(wire, kWorker, kHoweverLong);
      elsewhere = true;
      const auto here = [&](const auto& body) {
        elsewhere = false;
        body();
        elsewhere = true;
      };
      switch (word.kind) {
        case ServerWord::Kind::push:
          own_->push(door.worker, word, [&](const Sink& sink) {
            here([&] {
              const Incoming message{kWorker, static_cast<std::size_t>(word.bytes), nullptr, sink};
              wire.exchange({}, {&message, 1}, timeout_, kServing);
            });
          });
          break;
        case ServerWord::Kind::pull:
          own_->pull(door.worker, word, [&](const ServerAnswer& said, std::span<const std::byte> values) { here([&] { answer(said, values); }); });
          break;
        case ServerWord::Kind::look:
          own_->look([&](const ServerAnswer& said, std::span<const std::byte> values) { here([&] { answer(said, values); }); });
          break;
      }
      elsewhere = false;
    }
  } catch (const Error& error) {
    if (ending_) return;
    const std::string said = error.what();
    const Error named(error.code(), elsewhere || said.starts_with(kKnown) ? said
                                    : error.code() == Code::peer_lost     ? fmt::format("{}lost worker {}: {}", kKnown, door.worker, said)
                                                                          : fmt::format("{}the server of worker {} with worker {}: {}", kKnown, worker_, door.worker, said));
    lose(named);
    wire.abandon(named);
  } catch (const std::exception& error) {
    // LibTorch's, of an optimizer.
    const Error named(Code::io, fmt::format("{}the server of worker {}: {}", kKnown, worker_, error.what()));
    lose(named);
    wire.abandon(named);
  }
}

Traffic ServerLinks::traffic() const {
  Traffic sum;
  const auto add = [&](const std::unique_ptr<Communicator>& pair) {
    if (!pair) return;
    sum.sent += pair->transport().traffic().sent;
    sum.received += pair->transport().traffic().received;
  };
  for (const auto& link : links_) add(link->pair);
  for (const auto& door : doors_) add(door->pair);
  return sum;
}

}  // namespace ddl
