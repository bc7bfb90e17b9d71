#include "ddl/lab/thread_group.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <thread>
#include <utility>

#include "ddl/core/error.h"

namespace ddl {

ThreadGroup::ThreadGroup(int ranks, const Body& body) : ranks_(ranks) {
  std::vector<std::unique_ptr<Control>> theirs;
  for (int rank = 1; rank < ranks; ++rank) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) throw system_error("[process] cannot make a socket pair", errno);
    others_.push_back(std::make_unique<Control>(ends[0]));
    theirs.push_back(std::make_unique<Control>(ends[1]));
  }
  process_.start(0, [&](Control first) {
    // The coordinator's ends: held here, they would never look closed.
    others_.clear();
    std::vector<int> statuses(static_cast<std::size_t>(ranks), 1);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        try {
          auto& control = rank == 0 ? first : *theirs[static_cast<std::size_t>(rank) - 1];
          statuses[static_cast<std::size_t>(rank)] = body(rank, control);
        } catch (const std::exception& failed) {
          std::fprintf(stderr, "rank %d: %s\n", rank, failed.what());
        }
      });
    for (auto& thread : threads) thread.join();
    return *std::max_element(statuses.begin(), statuses.end());
  });
}

void ThreadGroup::drain(int rank, std::vector<ProcessEvent>& events) {
  auto& control = others_[static_cast<std::size_t>(rank) - 1];
  try {
    while (control) {
      auto message = control->receive({0});
      if (!message) return;
      ProcessEvent event;
      event.kind = ProcessEvent::Kind::message;
      event.rank = rank;
      event.message = std::move(*message);
      events.push_back(std::move(event));
    }
  } catch (const Error&) {
    control.reset();  // closed: the end of the process comes by rank 0
  }
}

std::vector<ProcessEvent> ThreadGroup::poll(Seconds wait) {
  std::vector<int> also;
  for (const auto& control : others_)
    if (control) also.push_back(control->fd());
  auto first = process_.poll(wait, also);
  // After that, so that nothing said before the end is missed.
  std::vector<ProcessEvent> events;
  for (int rank = 1; rank < ranks_; ++rank) drain(rank, events);
  for (auto& event : first) {
    const bool over = event.kind == ProcessEvent::Kind::exited;
    events.push_back(std::move(event));
    for (int rank = 1; rank < ranks_ && over; ++rank) {
      events.push_back(events.back());
      events.back().rank = rank;
    }
  }
  return events;
}

void ThreadGroup::send(int rank, MessageType type, std::string_view body) {
  if (rank == 0) return process_.send(rank, type, body);
  auto& control = others_.at(static_cast<std::size_t>(rank) - 1);
  if (!control) return;
  try {
    control->send(type, body);
  } catch (const Error&) {
    control.reset();
  }
}

}  // namespace ddl
