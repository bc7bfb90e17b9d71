#include <algorithm>
#include <limits>
#include <map>

#include "ddl/core/error.h"
#include "ddl/lab/launches.h"
#include "ddl/lab/mpi_group.h"
#include "ddl/lab/process_group.h"
#include "ddl/lab/rank_job.h"
#include "ddl/lab/thread_group.h"
#include "ddl/train/plan_job.h"
#include "ddl/train/worker.h"

namespace ddl {
namespace {

/// Our own workers: forks of this process, which share the data set that it has opened, or processes that a launcher started, which
/// open it themselves.
class WorkerLaunch final : public Launch {
 public:
  WorkerLaunch(const Experiment& experiment, const DatasetPair& data, const RunEvents& events, Observed& observed, LaunchTimes& times, const Fabric* fabric,
               AgentHub* launched)
      : experiment_(experiment), data_(data), events_(events), observed_(observed), times_(times), fabric_(fabric), launched_(launched), ranks_(static_cast<int>(observed.done.size())) {}

  std::unique_ptr<Processes> start() override {
    tell("starting");
    const auto& job = experiment_.job;
    if (launched_ != nullptr) return launched_group(*launched_, train_job(experiment_));
    if (ranks_ > 1 && parse_spec(job.transport).name == "mpi") return mpi_group(job.transport, ranks_, train_job(experiment_), job.hosts, fabric_);
    if (ranks_ > 1 && is_in_process(job)) {
      prepare_for_threads(job);
      return std::make_unique<ThreadGroup>(ranks_, [&](int rank, Control& control) { return run_worker(job, rank, data_, control); });
    }
    auto processes = std::make_unique<ProcessGroup>();
    for (int rank = 0; rank < ranks_; ++rank)
      processes->start(rank, [&, rank](Control control) {
        if (fabric_ != nullptr) fabric_->enter(experiment_.job.hosts.at(static_cast<std::size_t>(rank)));
        return run_worker(experiment_.job, rank, data_, control);
      });
    return processes;
  }

  void take(const ProcessEvent& event, Processes& processes) override {
    if (event.kind != ProcessEvent::Kind::message) {
      observed_.messages.push_back(fmt::format("rank {}: {}", event.rank, event.line));
      return;
    }
    const auto& [type, body] = event.message;
    switch (type) {
      case MessageType::rendezvous: join(event.rank, body, processes); break;
      case MessageType::ready: ready(event.rank, parse_json(body, "a worker's greeting")); break;
      case MessageType::steps: take_steps(event.rank, body); break;
      case MessageType::epoch: take_epoch(event.rank, parse_json(body, "a worker's epoch")); break;
      case MessageType::phase: {
        const auto said = parse_json(body, "a worker's phase");
        tell(fmt::format("{} {}/{}", said.at("phase").get<std::string>(), said.at("done").get<std::int64_t>(), said.at("of").get<std::int64_t>()));
        break;
      }
      case MessageType::done: observed_.done[static_cast<std::size_t>(event.rank)] = parse_json(body, "a worker's end"); break;
      default: break;
    }
  }

  bool ask_to_stop(Processes& processes) override {
    tell("stopping");
    for (int rank = 0; rank < ranks_; ++rank) processes.send(rank, MessageType::stop, "");
    return true;
  }

 private:
  /// Once all ranks have given their text, everyone gets all.
  void join(int rank, const std::string& text, Processes& processes) {
    texts_[rank] = text;
    if (static_cast<int>(texts_.size()) < ranks_) return;
    Json all = Json::array();
    for (const auto& [number, each] : texts_) all.push_back(each);
    texts_.clear();
    for (int each = 0; each < ranks_; ++each) processes.send(each, MessageType::rendezvous, all.dump());
  }

  void ready(int rank, const Json& greeting) {
    if (rank != 0) return;
    times_.network_built = greeting.at("network_built_ns").get<Nanoseconds>();
    times_.connected = greeting.at("connected_ns").get<Nanoseconds>();
    total_steps_ = greeting.at("steps").get<std::int64_t>();
    tell("training");
  }

  void take_steps(int rank, const std::string& body) {
    std::vector<StepRecord> steps;
    std::vector<Span> spans;
    unpack(body, steps, spans);
    if (rank == 0 && times_.first_step == 0 && !steps.empty()) times_.first_step = steps.front().begin;
    observed_.book.add(rank, steps, spans);
    tell("training");
  }

  void take_epoch(int rank, const Json& message) {
    const auto epoch = message.at("epoch").get<std::int64_t>();
    auto& told = epochs_[epoch];
    told[rank] = message;
    if (static_cast<int>(told.size()) < ranks_) return;
    // Emulated workers have neither a loss nor a model.
    if (experiment_.job.emulates()) {
      epochs_.erase(epoch);
      return;
    }
    Json whole{{"epoch", epoch}, {"loss", 0.0}};
    const auto& first = told.begin()->second;
    for (const auto& [number, each] : told) {
      whole["loss"] = whole["loss"].get<double>() + each.at("loss").get<double>();
      if (each.at("parameters_digest") != first.at("parameters_digest") && observed_.state == "ok") {
        observed_.state = "invalid";
        observed_.reason = fmt::format("parameters of rank {} differ from rank 0's after epoch {}", number, epoch);
      }
    }
    for (const auto* key : {"top1", "top5", "tokens", "bleu", "test_loss"})
      if (first.contains(key)) whole[key] = first.at(key);
    observed_.epochs.push_back(whole);
    epochs_.erase(epoch);
  }

  void tell(const std::string& phase) {
    if (!events_.progress) return;
    Progress progress;
    progress.name = experiment_.name;
    progress.phase = phase;
    progress.steps = total_steps_;
    progress.step = observed_.book.complete();
    if (progress.step > 0) {
      const auto& steps = observed_.book.steps(0);
      const auto last = progress.step - 1, first = std::max<std::int64_t>(0, last - 20);
      std::int64_t samples = 0;
      for (auto step = first; step <= last; ++step) samples += observed_.book.samples(step);
      const double took = seconds(steps[static_cast<std::size_t>(last)].end - steps[static_cast<std::size_t>(first)].begin);
      progress.samples_per_s = took > 0 ? static_cast<double>(samples) / took : 0;
      progress.loss = experiment_.job.emulates() ? std::numeric_limits<double>::quiet_NaN() : observed_.book.loss(last);
      const double whole = seconds(steps[static_cast<std::size_t>(last)].end - steps.front().begin);
      progress.seconds_left = whole / static_cast<double>(last + 1) * static_cast<double>(total_steps_ - last - 1);
    }
    events_.progress(progress);
  }

  const Experiment& experiment_;
  const DatasetPair& data_;
  const RunEvents& events_;
  Observed& observed_;
  LaunchTimes& times_;
  const Fabric* fabric_;
  AgentHub* launched_;
  int ranks_;
  std::int64_t total_steps_ = 0;
  std::map<int, std::string> texts_;
  std::map<std::int64_t, std::map<int, Json>> epochs_;
};

}  // namespace

std::unique_ptr<Launch> worker_launch(const Experiment& experiment, const DatasetPair& data, const RunEvents& events,
                                      Observed& observed, LaunchTimes& times, const Fabric* fabric, AgentHub* launched) {
  return std::make_unique<WorkerLaunch>(experiment, data, events, observed, times, fabric, launched);
}

}  // namespace ddl
