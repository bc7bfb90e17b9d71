#include "ddl/lab/probe_group.h"

#include <sys/wait.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <thread>

#include "ddl/core/error.h"
#include "ddl/lab/mpi_group.h"
#include "ddl/lab/probe_teller.h"
#include "ddl/lab/process_group.h"
#include "ddl/lab/rank_job.h"
#include "ddl/lab/signals.h"

namespace ddl {
namespace {

constexpr Seconds kAftermath{1};

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
          probe_rank(*seat, settings, told_over(control, rank));
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

  void take(const ProcessEvent& event, Processes& running) {
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
  void message(const ProcessEvent& event, Processes& running) {
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

namespace {

/// Threads of one child for inproc, a child for each rank otherwise, or ranks that a launcher starts.
std::unique_ptr<Processes> start(const ProbeSettings& settings, int ranks, AgentHub* launched, const Fabric* fabric) {
  const bool threads = settings.transport == "inproc";
  if (launched != nullptr && !threads) return launched_group(*launched, probe_job(settings));
  if (parse_spec(settings.transport).name == "mpi") return mpi_group(settings.transport, ranks, probe_job(settings), settings.hosts, fabric);
  auto processes = std::make_unique<ProcessGroup>();
  if (threads)
    processes->start(0, [&](Control control) { return all_threads(std::move(control), settings, ranks); });
  else
    for (int rank = 0; rank < ranks; ++rank)
      processes->start(rank, [&, rank](Control control) { return run_probe_rank(control, settings, rank, ranks); });
  return processes;
}

}  // namespace

ProbedGroup probe_group(const ProbeSettings& settings, int ranks, const RunEvents& events, AgentHub* launched, const Fabric* fabric) {
  ProbedGroup group{settings.transport, ranks, settings.cases};
  group.times.assign(settings.cases.size(), std::vector<ProbeTimes>(static_cast<std::size_t>(ranks)));
  group.sent.assign(settings.cases.size(), std::vector<std::int64_t>(static_cast<std::size_t>(ranks), -1));
  Collecting collecting(group, settings.transport == "inproc" ? 1 : ranks, events);
  try {
    const auto processes = start(settings, ranks, launched, fabric);
    while (processes->running() > 0) {
      for (const auto& event : processes->poll({0.1})) collecting.take(event, *processes);
      if (collecting.patience_is_over()) processes->kill_all();
    }
  } catch (const Error& error) {
    // A launcher that fails is this group's failure; one that is missing is everyone's.
    if (error.code() == Code::unsupported || error.code() == Code::invalid_argument || error.code() == Code::not_found) throw;
    group.failed = fmt::format("{} with {} ranks: {}", group.transport, group.ranks, error.what());
  }
  return group;
}

}  // namespace ddl
