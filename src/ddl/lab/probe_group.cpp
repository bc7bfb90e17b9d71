#include "ddl/lab/probe_group.h"

#include <sys/wait.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <thread>

#include "ddl/core/error.h"
#include "ddl/lab/process_group.h"
#include "ddl/lab/signals.h"

namespace ddl {
namespace {

constexpr Seconds kAftermath{1};

/// What a rank tells, as JSON over its control socket; threads of one process share one.
class Teller {
 public:
  Teller(Control& control, int rank) : control_(control), rank_(rank) {}

  ProbeEvents events() {
    ProbeEvents told;
    told.joined = [this](bool shares_memory) { tell({{"shares_memory", shares_memory}}); };
    told.timed = [this](std::size_t number, const ProbeTimes& times) { tell({{"rank", rank_}, {"case", number}, {"times", times}}); };
    told.limit = [this](std::size_t bytes, const ProbeLimits& limit) {
      tell({{"limit", bytes}, {"exchange", limit.exchange}, {"one_way", limit.one_way}, {"reduce", limit.reduce}});
    };
    told.sent = [this](std::size_t number, std::int64_t bytes) { tell({{"rank", rank_}, {"case", number}, {"sent", bytes}}); };
    return told;
  }

 private:
  void tell(const Json& what) {
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    control_.send(MessageType::result, what.dump());
  }

  Control& control_;
  int rank_;
};

/// Runs `body`; what it throws goes to the coordinator.
template <typename Body>
int answered(Control& control, const Body& body) {
  try {
    body();
    return 0;
  } catch (const Error& error) {
    try {
      control.send(MessageType::failed, Json{{"code", name(error.code())}, {"message", error.what()}}.dump());
    } catch (const Error&) {
      // Nobody is left to tell.
    }
    return 1;
  }
}

int process_rank(Control control, const ProbeSettings& settings, int rank, int ranks) {
  return answered(control, [&] {
    ControlRendezvous rendezvous(control, rank, ranks);
    Teller teller(control, rank);
    probe_rank(rendezvous, settings, teller.events());
  });
}

int all_threads(Control control, const ProbeSettings& settings, int ranks) {
  return answered(control, [&] {
    auto meeting = in_process_rendezvous(ranks);
    std::vector<std::thread> threads;
    std::mutex mutex;
    std::vector<Error> errors;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        auto& seat = meeting[static_cast<std::size_t>(rank)];
        try {
          Teller teller(control, rank);
          probe_rank(*seat, settings, teller.events());
        } catch (const Error& error) {
          const std::lock_guard lock(mutex);
          errors.push_back(error);
        }
        seat.reset();  // so that nobody waits for a rank that has failed
      });
    for (auto& thread : threads) thread.join();
    if (!errors.empty()) throw errors.front();
  });
}

class Collecting {
 public:
  Collecting(ProbedGroup& group, int processes, const RunEvents& events) : group_(group), processes_(processes), events_(events) {}

  void take(const ProcessEvent& event, ProcessGroup& running) {
    switch (event.kind) {
      case ProcessEvent::Kind::signal: group_.interrupted = true; kill_at_ = now(); break;
      case ProcessEvent::Kind::exited:
        // A signal of somebody else's says most; an exit says less than the rank's own last words.
        if (event.status != 0 && !patience_is_over()) fail(event.rank, describe_status(event.status), WIFSIGNALED(event.status) ? 4 : 1);
        break;
      case ProcessEvent::Kind::line:
        if (event.is_error_line) last_line_ = event.line;
        break;
      case ProcessEvent::Kind::message: message(event, running); break;
    }
  }

  bool patience_is_over() const { return kill_at_ != 0 && now() >= kill_at_; }

 private:
  void message(const ProcessEvent& event, ProcessGroup& running) {
    const auto& [type, body] = event.message;
    if (type == MessageType::rendezvous) {
      texts_[event.rank] = body;
      if (static_cast<int>(texts_.size()) < processes_) return;
      Json all = Json::array();
      for (const auto& [rank, text] : texts_) all.push_back(text);
      texts_.clear();
      for (int rank = 0; rank < processes_; ++rank) running.send(rank, MessageType::rendezvous, all.dump());
      return;
    }
    const auto said = parse_json(body, "a probe's result");
    if (type == MessageType::failed) {
      const auto code = said.value("code", std::string());
      // Who lost a peer says less than who was lost.
      fail(event.rank, said.value("message", std::string("no reason")), code == "peer_lost" || code == "timeout" ? 2 : 3);
    } else if (type == MessageType::result) {
      result(said);
    }
  }

  void result(const Json& said) {
    if (said.contains("shares_memory")) {
      group_.shares_memory = said.at("shares_memory").get<bool>();
      return;
    }
    if (said.contains("limit")) {
      auto& limit = group_.limits[said.at("limit").get<std::size_t>()];
      limit.exchange = std::max(limit.exchange, said.at("exchange").get<double>());
      limit.one_way = std::max(limit.one_way, said.at("one_way").get<double>());
      limit.reduce = std::max(limit.reduce, said.at("reduce").get<double>());
      return;
    }
    const auto number = said.at("case").get<std::size_t>(), rank = said.at("rank").get<std::size_t>();
    if (said.contains("sent")) group_.sent.at(number).at(rank) = said.at("sent").get<std::int64_t>();
    if (!said.contains("times")) return;
    group_.times.at(number).at(rank) = said.at("times").get<ProbeTimes>();
    if (rank == 0) ++timed_;
    Progress progress;
    progress.name = fmt::format("{}, {} ranks", group_.transport, group_.ranks);
    progress.step = timed_;
    progress.loss = std::numeric_limits<double>::quiet_NaN();
    progress.steps = static_cast<std::int64_t>(group_.cases.size());
    if (events_.progress) events_.progress(progress);
  }

  void fail(int rank, const std::string& why, int weight) {
    if (kill_at_ == 0) kill_at_ = now() + static_cast<Nanoseconds>(kAftermath.value * 1e9);
    if (weight <= weight_ || group_.interrupted) return;
    weight_ = weight;
    group_.failed = fmt::format("{} with {} ranks: rank {}: {}{}", group_.transport, group_.ranks, rank, why,
                                (weight == 1 || weight == 4) && !last_line_.empty() ? "; its last line: " + last_line_ : "");
  }

  ProbedGroup& group_;
  int processes_;
  const RunEvents& events_;
  std::map<int, std::string> texts_;
  std::string last_line_;
  std::int64_t timed_ = 0;
  int weight_ = 0;
  Nanoseconds kill_at_ = 0;
};

}  // namespace

bool ProbedGroup::complete(std::size_t number) const {
  const auto& all = times[number];
  return std::all_of(all.begin(), all.end(), [](const ProbeTimes& each) { return !each.empty(); });
}

std::vector<double> ProbedGroup::slowest(std::size_t number) const {
  std::vector<double> worst = times[number].front();
  for (const auto& each : times[number])
    for (std::size_t i = 0; i < std::min(worst.size(), each.size()); ++i) worst[i] = std::max(worst[i], each[i]);
  return worst;
}

ProbedGroup probe_group(const ProbeSettings& settings, int ranks, const RunEvents& events) {
  ProbedGroup group{settings.transport, ranks, settings.cases};
  group.times.assign(settings.cases.size(), std::vector<ProbeTimes>(static_cast<std::size_t>(ranks)));
  group.sent.assign(settings.cases.size(), std::vector<std::int64_t>(static_cast<std::size_t>(ranks), -1));
  const bool threads = settings.transport == "inproc";
  ProcessGroup processes;
  if (threads)
    processes.start(0, [&](Control control) { return all_threads(std::move(control), settings, ranks); });
  else
    for (int rank = 0; rank < ranks; ++rank)
      processes.start(rank, [&, rank](Control control) { return process_rank(std::move(control), settings, rank, ranks); });
  Collecting collecting(group, threads ? 1 : ranks, events);
  while (processes.running() > 0) {
    for (const auto& event : processes.poll({0.1})) collecting.take(event, processes);
    if (collecting.patience_is_over()) processes.kill_all();
  }
  return group;
}

}  // namespace ddl
