#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/measure/trace.h"
#include "ddl/transport/rendezvous.h"

namespace ddl {

/// What a worker and the coordinator say to each other, over one socket per worker.
enum class MessageType : std::uint32_t {
  rendezvous,  ///< both ways: one text; a JSON array of all texts
  ready,       ///< worker: JSON: times of start-up, parameters
  steps,       ///< worker: StepRecords and Spans, binary
  epoch,       ///< worker: JSON: epoch, loss, accuracy, parameters_digest
  done,        ///< worker: JSON: memory, traffic, …; the last message of a good run
  failed,      ///< worker: JSON: code, message; the last message of a bad one
  phase,       ///< rank 0: JSON: what it does other than steps, for people
  stop,        ///< coordinator: end after this step
  result,      ///< a rank of a probe: JSON: what it measured
  // Of workers that a launcher started (lab/agent.h).
  hello,       ///< both ways: JSON: who it is, and the proof
  job,         ///< coordinator: JSON: what to run
  finished,    ///< worker: its status after a job; it waits for the next
  refused,     ///< worker: as failed: it cannot join the others at all
  line,        ///< agent: JSON: what its worker printed
  exited,      ///< agent: how its worker ended, as waitpid has it
  kill,        ///< coordinator: end your worker now
  leave,       ///< coordinator: there is no further job
};

struct Message {
  MessageType type = MessageType::ready;
  std::string body;
};

/// One step as a worker saw it. `loss` is its part of the mean over the global batch.
struct StepRecord {
  std::int64_t step = 0;
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  double loss = 0;
  std::int64_t samples = 0;
  double core_seconds = 0;  ///< for which the worker's process had a core, all its threads: user and system time; 0 of a subject that does not say
};

std::string pack(std::span<const StepRecord> steps, std::span<const Span> spans);
/// Errors: corrupt where the sizes do not fit.
void unpack(const std::string& body, std::vector<StepRecord>& steps, std::vector<Span>& spans);

/// One end of that socket; owns it.
class Control {
 public:
  explicit Control(int fd) : fd_(fd) {}
  ~Control();
  Control(Control&& other) noexcept;
  Control& operator=(Control&&) = delete;

  int fd() const { return fd_; }
  /// Blocks until all is handed over. Errors: peer_lost.
  void send(MessageType type, std::string_view body);
  /// A whole message, if one is there within `wait`. Errors: peer_lost when the other end is gone, corrupt; also for one of
  /// more than `most` bytes.
  std::optional<Message> receive(Seconds wait, std::uint64_t most = std::uint64_t{1} << 32);

 private:
  bool fill(Seconds wait);
  int fd_;
  std::string received_;
};

/// Ranks that find each other through the coordinator.
class ControlRendezvous final : public Rendezvous {
 public:
  ControlRendezvous(Control& control, int rank, int size) : control_(control), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::vector<std::string> exchange(const std::string& mine, Seconds timeout) override;

 private:
  Control& control_;
  int rank_;
  int size_;
};

}  // namespace ddl
