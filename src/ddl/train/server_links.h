#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "ddl/collective/communicator.h"
#include "ddl/collective/queue.h"
#include "ddl/train/parameter_server.h"

namespace ddl {

/// A worker's ways to all servers, and, where a server lives in its process, that server's ways to all workers: server s lives with worker s.
///
/// Between a worker and a server there is a transport of the two of them. The worker's end is used by a thread that does what was asked of it in order; the server's by a thread
/// that waits for what comes, however long that takes: a worker may evaluate for minutes. A worker waits for an answer as long as for a collective.
/// Who is killed is lost for its pairs at once; who lost somebody, a server or a worker, tells all others who it was, and so does whoever hears of it.
class ServerLinks {
 public:
  /// Collective: all workers of `everyone`, which outlives this object, make theirs. `own` may be null; it outlives this object, too.
  ServerLinks(int servers, int worker, Communicator& everyone, Seconds timeout, ParameterServer* own);
  ~ServerLinks();
  ServerLinks(const ServerLinks&) = delete;
  ServerLinks& operator=(const ServerLinks&) = delete;

  /// The word, and `gradients` after it unless word.bytes is 0. `ready` as Communicator::start() has it.
  Handle push(int server, const ServerWord& word, std::span<const std::byte> gradients, std::function<void()> ready = {});
  /// The server's parameters go where `place` says, whose peer is of no account. It, what its sink uses, and the answer stay until the handle is done.
  Handle pull(int server, const ServerWord& word, const Incoming& place, ServerAnswer& answer);

  /// Payload bytes of this worker's ends and its server's.
  Traffic traffic() const;

 private:
  struct Link {
    int server = 0;
    std::unique_ptr<Communicator> pair;  ///< null where the server lives here
    std::shared_ptr<CommunicationQueue> queue = std::make_shared<CommunicationQueue>();
    std::thread thread;
  };
  struct Door {
    int worker = 0;
    std::unique_ptr<Communicator> pair;
    std::thread thread;
  };

  Handle start(Link& link, std::function<void()> work, std::function<void()> ready);
  void serve(Door& door);
  template <typename Body>
  void with_server(const Link& link, const Body& body);
  /// The first reason counts: it is what others are told.
  void lose(const Error& why);
  Error reason_to_leave();

  int worker_;
  Seconds timeout_;
  ParameterServer* own_;
  std::atomic<bool> ending_{false};
  std::mutex mutex_;
  std::optional<Error> lost_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<Door>> doors_;
};

}  // namespace ddl
