#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/lab/launches.h"
#include "ddl/lab/process_group.h"
#include "ddl/nn/model.h"
#include "ddl/nn/multiplier.h"
#include "ddl/subject/peer_events.h"
#include "ddl/subject/subject.h"

namespace ddl {
namespace {

/// The parameters that our own workers start with, so that the peer's losses must follow ours.
std::vector<float> initial_weights(const Job& job, const SampleShape& shape) {
  std::vector<float> all;
  std::uint64_t index = 0;
  for (const auto& spec : make_model(job.model, shape).parameter_specs()) {
    const auto offset = all.size();
    all.resize(offset + static_cast<std::size_t>(spec.elements()));
    initialise(spec, job.seed, index++, all.data() + offset);
  }
  return all;
}

PeerJob peer_job(const Experiment& experiment, const DatasetPair& data) {
  const auto& job = experiment.job;
  const auto refuse = [&](const std::string& what) {
    return Error(Code::unsupported, fmt::format("[{}] unsupported: this subject trains only {}", experiment.subject, what));
  };
  if (job.precision != "fp32") throw refuse(fmt::format("in fp32; got precision {}", job.precision));
  if (job.optimizer != Spec{"sgd", {}}) throw refuse(fmt::format("with sgd, without options; got optimizer {}", to_string(job.optimizer)));
  const auto& schedule = job.learning_rate_schedule;
  if (!schedule.options.empty() || (schedule.name != "constant" && schedule.name != "cosine"))
    throw refuse(fmt::format("with a constant or cosine learning rate, without options; got learning_rate_schedule {}", to_string(schedule)));
  if (job.accumulate != 1) throw refuse(fmt::format("whole batches; got accumulate {}", job.accumulate));
  if (job.recompute) throw refuse("with all activations kept; got recompute on");
  if (job.clip != 0) throw refuse(fmt::format("without clipping; got clip {}", job.clip));
  if (job.label_smoothing != 0) throw refuse(fmt::format("without label smoothing; got label_smoothing {}", job.label_smoothing));
  if (!job.strategy.options.empty() || (job.strategy.name != "data" && job.strategy.name != "single"))
    throw refuse(fmt::format("data parallel, without options; got strategy {}", to_string(job.strategy)));
  for (const auto& worker : job.workers)
    if (worker.device != "cpu") throw refuse(fmt::format("on cpu; got {}", worker.device));
  for (const auto& worker : job.workers)
    if (worker.slow != 1) throw refuse(fmt::format("as fast as processors are; got workers with slow={}", worker.slow));
  for (const auto& worker : job.workers)
    if (worker.threads != job.workers.front().threads)
      throw refuse(fmt::format("with as many threads in every worker; got {} and {}", job.workers.front().threads, worker.threads));
  PeerJob peer;
  peer.model = to_string(job.model);
  peer.workers = static_cast<int>(job.workers.size());
  peer.batch = job.batch;
  peer.steps = job.steps;
  peer.epochs = job.epochs;
  peer.learning_rate = job.learning_rate;
  peer.momentum = job.momentum;
  peer.weight_decay = job.weight_decay;
  peer.learning_rate_schedule = schedule.name;
  peer.evaluate = job.evaluate;
  peer.threads = job.workers.front().threads;
  peer.seed = job.seed;
  peer.shuffle = job.shuffle;
  peer.collective_timeout = job.collective_timeout;
  peer.weights = initial_weights(job, data.train->shape());
  return peer;
}

/// Another package's workers: programs that say what happened on their standard output.
class PeerLaunch final : public Launch {
 public:
  PeerLaunch(const ExternalSubject& subject, const Experiment& experiment, const DatasetPair& data, const RunEvents& events,
             Observed& observed, LaunchTimes& times)
      : experiment_(experiment),
        events_(events),
        observed_(observed),
        times_(times),
        prepared_(subject.prepare(peer_job(experiment, data), data)),
        ranks_(observed.done.size()),
        total_steps_(steps_of(experiment.job, data.train->size())) {}

  std::unique_ptr<Processes> start() override {
    auto processes = std::make_unique<ProcessGroup>();
    // Its start is that of its own processes: handing over the data is our doing.
    times_.requested = times_.entered = now();
    times_.dataset_open = times_.network_built = 0;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto& command = prepared_.commands().at(rank);
      auto variables = command.environment;
      // What we ask of MKL for ourselves is no setting of the peer's.
      if (asks_for_same_bits()) variables.emplace_back("MKL_CBWR");
      processes->start_program(static_cast<int>(rank), command.argv, variables);
    }
    tell("starting");
    return processes;
  }

  void take(const ProcessEvent& event, Processes&) override {
    auto& events = ranks_.at(static_cast<std::size_t>(event.rank));
    events.feed(event.line + "\n");
    if (event.rank == 0 && events.ready && times_.connected == 0) times_.connected = *events.ready;
    if (!events.error.empty()) throw Error(Code::peer_lost, events.error);
    take_steps();
    take_epochs();
    if (events.done && observed_.done[static_cast<std::size_t>(event.rank)].is_null()) {
      observed_.done[static_cast<std::size_t>(event.rank)] = {{"parameters_digest", events.done->parameters_digest},
                                                              {"memory_bytes", {{"kernel_peak", events.done->peak_memory_bytes}}}};
      for (const auto& [package, version] : events.done->versions)
        if (event.rank == 0) observed_.messages.push_back(fmt::format("version of {}: {}", package, version));
    }
    tell("training");
  }

  bool ask_to_stop(Processes&) override { return false; }

 private:
  static std::int64_t steps_of(const Job& job, std::int64_t samples) {
    return job.steps > 0 ? job.steps : job.epochs * ((samples + job.batch - 1) / job.batch);
  }

  /// A rank's loss is the mean over its own samples: its part of the global mean is known once all have reported.
  void take_steps() {
    auto all = ranks_.front().steps.size();
    for (const auto& rank : ranks_) all = std::min(all, rank.steps.size());
    for (; taken_ < all; ++taken_) {
      std::int64_t samples = 0;
      for (const auto& rank : ranks_) samples += rank.steps[taken_].samples;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        const auto& step = ranks_[rank].steps[taken_];
        const double part = step.loss.value_or(step.samples == 0 ? 0.0 : std::numeric_limits<double>::quiet_NaN()) *
                            static_cast<double>(step.samples) / static_cast<double>(samples);
        observed_.book.add(static_cast<int>(rank), {{step.step, step.begin, step.end, part, step.samples}}, spans(step, rank));
      }
    }
    if (times_.first_step == 0 && taken_ > 0) times_.first_step = ranks_.front().steps.front().begin;
  }

  /// Its phases follow each other; what communication it does not hide is within its backward.
  static std::vector<Span> spans(const PeerStep& step, std::size_t rank) {
    std::vector<Span> list;
    auto begin = step.begin;
    for (const auto& [cause, milliseconds] : {std::pair{Cause::load, step.load_ms}, std::pair{Cause::forward, step.forward_ms},
                                              std::pair{Cause::backward, step.backward_ms}, std::pair{Cause::update, step.update_ms}}) {
      const auto end = begin + static_cast<Nanoseconds>(milliseconds * 1e6);
      list.push_back({begin, end, static_cast<std::int32_t>(step.step), -1, static_cast<std::int16_t>(rank), Stream::compute, cause});
      begin = end;
    }
    return list;
  }

  void take_epochs() {
    const auto& epochs = ranks_.front().epochs;
    while (observed_.epochs.size() < epochs.size()) {
      const auto& epoch = epochs[observed_.epochs.size()];
      if (epoch.steps > observed_.book.complete()) return;  // the other ranks' steps are still to come
      double loss = 0;
      for (auto step = epoch_begin_; step < epoch.steps; ++step) loss += observed_.book.loss(step);
      Json told{{"epoch", epoch.epoch}, {"loss", loss / static_cast<double>(std::max<std::int64_t>(1, epoch.steps - epoch_begin_))}};
      if (epoch.accuracy) told["top1"] = *epoch.accuracy;
      observed_.epochs.push_back(told);
      epoch_begin_ = epoch.steps;
    }
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
      const double took = seconds(steps[static_cast<std::size_t>(progress.step - 1)].end - steps.front().begin);
      progress.samples_per_s = static_cast<double>(experiment_.job.batch * progress.step) / took;
      progress.loss = observed_.book.loss(progress.step - 1);
      progress.seconds_left = took / static_cast<double>(progress.step) * static_cast<double>(total_steps_ - progress.step);
    }
    events_.progress(progress);
  }

  const Experiment& experiment_;
  const RunEvents& events_;
  Observed& observed_;
  LaunchTimes& times_;
  PreparedPeer prepared_;
  std::vector<PeerEvents> ranks_;
  std::size_t taken_ = 0;
  std::int64_t epoch_begin_ = 0;
  std::int64_t total_steps_ = 0;
};

}  // namespace

std::unique_ptr<Launch> peer_launch(const Experiment& experiment, const DatasetPair& data, const RunEvents& events,
                                    Observed& observed, LaunchTimes& times) {
  const auto subject = builtin_subjects().at(experiment.subject).make();
  return std::make_unique<PeerLaunch>(*subject, experiment, data, events, observed, times);
}

std::unique_ptr<Launch> make_launch(const Experiment& experiment, const DatasetPair& data, const RunEvents& events,
                                    Observed& observed, LaunchTimes& times, const Fabric* fabric, AgentHub* launched) {
  return experiment.subject == "ddlbench" ? worker_launch(experiment, data, events, observed, times, fabric, launched)
                                          : peer_launch(experiment, data, events, observed, times);
}

}  // namespace ddl
