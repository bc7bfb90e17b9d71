#include "ddl/train/measure_passes.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <set>
#include <utility>

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "ddl/core/error.h"
#include "ddl/core/statistics.h"
#include "ddl/data/loader.h"
#include "ddl/measure/clock.h"
#include "ddl/nn/model.h"
#include "ddl/train/autocast.h"
#include "ddl/train/begin_alone.h"
#include "ddl/train/core_clock.h"
#include "ddl/train/device.h"
#include "ddl/train/executor.h"
#include "ddl/train/job_network.h"
#include "ddl/train/measure_layers.h"
#include "ddl/train/objective.h"
#include "ddl/train/optimizer.h"
#include "ddl/train/pinned_memory.h"
#include "ddl/train/plan_job.h"

namespace ddl {
namespace {

using torch::autograd::variable_list;

/// More would take memory, fewer would let a batch stay in cache from step to step.
constexpr std::int64_t kBatches = 4;
/// Of which a loader's pace is the median: so many at most, and no more than are made in a while, but for kBatches.
constexpr std::int64_t kTimedBatches = 64;
constexpr double kTimedSeconds = 0.2;
constexpr double kLossScale = 65536;

/// Seconds that this thread has waited for a core, ready to run.
class RunDelay {
 public:
  RunDelay() : file_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}
  ~RunDelay() {
    if (file_ >= 0) ::close(file_);
  }
  RunDelay(const RunDelay&) = delete;
  RunDelay& operator=(const RunDelay&) = delete;

  double read() const {
    std::array<char, 96> text{};
    if (file_ < 0 || ::pread(file_, text.data(), text.size() - 1, 0) <= 0) return 0;
    char* second = nullptr;
    std::strtoll(text.data(), &second, 10);
    return seconds(std::strtoll(second, nullptr, 10));
  }

 private:
  int file_;
};

/// What seconds are counted by.
struct Clock {
  Device& device;
  bool core = false;

  /// Of work that is queued its place in the queue: what it took is known once it is done.
  Moment read() const { return device.is_host() ? Moment(time_of(core)) : device.mark(); }
};

double between(const Moment& begin, const Moment& end) { return seconds(end.time() - begin.time()); }

bool waits(const ModelGraph& graph) {
  return std::any_of(graph.layers.begin(), graph.layers.end(), [](const Layer& layer) { return layer.attributes.milliseconds > 0; });
}

using LayerMoments = std::vector<std::pair<std::size_t, Moment>>;

/// When backward came to which layer.
struct Marks {
  const Clock& clock;
  LayerMoments at = {};
};

struct Mark final : torch::autograd::FunctionPreHook {
  Mark(Marks& all, std::size_t which) : marks(all), layer(which) {}
  Marks& marks;
  std::size_t layer;
  variable_list operator()(const variable_list& gradients) override {
    marks.at.emplace_back(layer, marks.clock.read());
    return gradients;
  }
};

}  // namespace

struct TrainingPasses::State {
  State(const Job& asked, const Dataset& data, std::unique_ptr<Device> given)
      : job(asked), shape(data.shape()), device(made_device(job, std::move(given))), network(make_model(job.model, shape), network_options(job, *device)),
        optimizer(job_optimizer(job, network.parameters())),
        clock{*device, job.workers.front().threads == 1 && device->is_host() && !waits(network.graph())}, marks{clock} {
    require_known_layers(network.graph(), "measure");
    const auto weights = shape.objective == Objective::classification ? std::function<std::int64_t(std::int64_t)>{} : [&data](std::int64_t index) { return data.weight(index); };
    const Sampler sampler(data.size(), job.batch, 1, job.shuffle, job.seed, weights);
    // As runs do. Passes and steps end with a wait.
    LoaderOptions at_once{0, 1, true}, beside{job.loader_threads, job.loader_prefetch, true};
    if (!device->is_host()) at_once.memory = beside.memory = &pinned;
    Loader loader(data, [&](std::int64_t step) { return sampler.share(step, 0); }, 0, kBatches + 1 + kTimedBatches, at_once);
    ahead = std::make_unique<Loader>(data, [sampler](std::int64_t step) { return sampler.share(step, 0); }, 0, std::numeric_limits<std::int64_t>::max(), beside);
    executor = make_executor(false);
    for (std::int64_t i = 0; i < kBatches; ++i) batches.push_back(loader.next());
    // Into memory that was used before, as all but the first batches of a run: to find new memory, and to pin it, takes longer than to read a small batch.
    loader.next();
    std::vector<double> took;
    // One after the other, so that the core's clock is up as beside steps: the first ones of small images take up to twice as long.
    const auto from = now();
    for (std::int64_t i = 0; i < kTimedBatches && (i < kBatches || seconds(now() - from) < kTimedSeconds); ++i) {
      const auto begin = now();
      loader.next();
      took.push_back(seconds(now() - begin));
    }
    loader_seconds = median(took);
  }

  static std::unique_ptr<Device> made_device(const Job& job, std::unique_ptr<Device> given) {
    begin_alone(job);
    return given ? std::move(given) : make_device(job.workers.front().device, device_options(job));
  }

  std::unique_ptr<Executor> make_executor(bool by_graphs) {
    auto made = std::make_unique<Executor>(network, *optimizer, *device, nullptr, 0, Recipe{shape, job.precision, job.label_smoothing, job.recompute, job.clip, by_graphs},
                                           Exchange{job.collective, "none", job.seed, job.collective_timeout}, nullptr);
    made->adopt(plan_job(job, network.graph()));
    return made;
  }

  StepTimes step(Executor& by);

  Moment moment() const { return clock.read(); }

  /// `ends`: of layers, when each was done.
  at::Tensor forward(const Example& given, LayerMoments& ends) {
    const auto& graph = network.graph();
    std::vector<at::Tensor> values(graph.layers.size());
    std::set<const torch::autograd::Node*> known;
    {
      const Autocast autocast(network.tensor_options().device().type(), job.precision);
      // What layers take that are computed together counts with the first.
      for (std::size_t layer = 0, after = 0; layer < values.size(); layer = after) {
        after = network.forward_next(layer, values.size(), values, given.input, true);
        const auto& value = values[after - 1];
        // Whoever hands on what it was given has made no operator.
        if (value.requires_grad()) {
          const auto node = torch::autograd::impl::gradient_edge(value).function;
          if (known.insert(node.get()).second) node->add_pre_hook(std::make_unique<Mark>(marks, layer));
        }
        ends.emplace_back(layer, moment());
      }
    }
    const auto auxiliary = graph.auxiliary;
    return loss_sum({values.back(), auxiliary < 0 ? at::Tensor() : values[static_cast<std::size_t>(auxiliary)]}, given.expected, job.label_smoothing, network.kernels());
  }

  void update() {
    std::vector<std::size_t> numbers;
    std::vector<at::Tensor> gradients;
    for (std::size_t i = 0; i < network.parameters().size(); ++i) {
      auto& gradient = network.parameters()[i].mutable_grad();
      if (!gradient.defined()) gradient = at::zeros_like(network.parameters()[i]);
      numbers.push_back(i);
      gradients.push_back(std::exchange(gradient, at::Tensor()));
    }
    // A step too small to change what is computed.
    optimizer->update(numbers, gradients, 1e-12, job.precision == "fp16" ? 1 / kLossScale : 1);
  }

  const Job job;
  SampleShape shape;
  std::unique_ptr<Device> device;
  PinnedMemory pinned{*device};
  Network network;
  std::unique_ptr<Optimizer> optimizer;
  Clock clock;
  Marks marks;
  std::unique_ptr<Executor> executor, recording;
  std::unique_ptr<Loader> ahead;
  std::int64_t steps = 0;
  std::vector<std::shared_ptr<const Batch>> batches;
  std::size_t next = 0;
  RunDelay delay;
  double loader_seconds = 0;
};

TrainingPasses::TrainingPasses(const Job& job, const Dataset& data) : TrainingPasses(job, data, nullptr) {}
TrainingPasses::TrainingPasses(const Job& job, const Dataset& data, std::unique_ptr<Device> device) : state_(std::make_unique<State>(job, data, std::move(device))) {}
TrainingPasses::~TrainingPasses() = default;

const ModelGraph& TrainingPasses::graph() const { return state_->network.graph(); }
Device& TrainingPasses::device() const { return *state_->device; }
double TrainingPasses::loader_seconds() const { return state_->loader_seconds; }

std::int64_t TrainingPasses::parameter_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& parameter : state_->network.parameters()) bytes += static_cast<std::int64_t>(parameter.nbytes());
  return bytes;
}

PassTimes TrainingPasses::run() {
  auto& s = *state_;
  const c10::AutoGradMode on(true);
  PassTimes times{std::vector<double>(graph().layers.size()), std::vector<double>(graph().layers.size())};
  s.marks.at.clear();
  const auto& batch = *s.batches[s.next++ % s.batches.size()];
  s.device->synchronize();
  const double waited = s.delay.read();
  const auto from = now();
  const auto begin = s.moment();
  const auto given = example(batch, s.shape, 0, batch.samples, s.network, *s.device);
  const auto copied = s.moment();
  LayerMoments ends;
  auto loss = s.forward(given, ends);
  const auto forward = s.moment();
  times.wall_forward = seconds(now() - from);
  const double scale = (s.job.precision == "fp16" ? kLossScale : 1) / static_cast<double>(batch.global_weight);
  const auto edge = torch::autograd::impl::gradient_edge(loss);
  const auto gradient = at::full({}, scale, loss.options().requires_grad(false));
  loss.reset();
  torch::autograd::Engine::get_default_engine().execute({edge}, {gradient}, false, false, true);
  const auto backward = s.moment();
  s.marks.at.emplace_back(graph().layers.size(), backward);
  s.update();
  const auto end = s.moment();
  // Before anybody looks at a clock of the device.
  s.device->synchronize();
  times.wall = seconds(now() - from);
  times.waited = s.delay.read() - waited;
  times.copy = between(begin, copied);
  const auto* last = &copied;
  double layers = 0;
  for (const auto& [layer, done] : ends) {
    if (graph().layers[layer].kind != LayerKind::input) layers += times.forward[layer] = between(*last, done);
    last = &done;
  }
  times.loss_forward = std::max(0.0, between(copied, forward) - layers);
  times.loss_backward = between(forward, s.marks.at.front().second);
  for (std::size_t i = 0; i + 1 < s.marks.at.size(); ++i) times.backward[s.marks.at[i].first] += between(s.marks.at[i].second, s.marks.at[i + 1].second);
  times.update = between(backward, end);
  times.whole = between(begin, end);
  if (!s.device->is_host()) times.wall_forward = between(begin, forward);
  return times;
}

bool TrainingPasses::core_time() const { return state_->clock.core; }

std::string TrainingPasses::clock() const { return !state_->device->is_host() ? "device" : state_->clock.core ? "core" : "wall"; }

StepTimes TrainingPasses::step() { return state_->step(*state_->executor); }

std::optional<StepTimes> TrainingPasses::step_by_graphs() {
  auto& s = *state_;
  if (!s.recording) s.recording = s.make_executor(wants_graphs(s.job));
  const auto before = s.recording->graphs().steps;
  const auto times = s.step(*s.recording);
  if (s.recording->graphs().steps == before) return std::nullopt;
  return times;
}

std::string TrainingPasses::why_no_graphs() const {
  const auto& s = *state_;
  if (!wants_graphs(s.job)) return "they were not asked for";
  if (s.recording) return s.recording->graphs().why_not;
  return s.device->why_no_graphs();
}

StepTimes TrainingPasses::State::step(Executor& by) {
  StepTimes times;
  device->synchronize();
  const auto wall = now();
  const auto begin = moment();
  by.step(steps++, [&] { return ahead->next(); }, 1e-12, false, [&] { return ahead->peek(); });
  const auto end = moment();
  device->synchronize();
  times.whole = between(begin, end);
  times.wall = seconds(now() - wall);
  for (const auto& span : by.take_trace()) {
    if (span.stream != Stream::compute) continue;  // an upload beside it
    const double time = seconds(span.end - span.begin);
    switch (span.cause) {
      case Cause::load: times.load += time; break;
      case Cause::copy:
        // Of a batch: within the forward that it is for.
        times.copy += time;
        times.forward -= time;
        break;
      case Cause::forward: times.forward += time; break;
      case Cause::backward: times.backward += time; break;
      case Cause::update: times.update += time; break;
      default: break;
    }
  }
  if (!clock.core) times.whole -= times.load;
  return times;
}

PassTimes typical(std::vector<PassTimes> passes) {
  invariant(!passes.empty(), "something was timed");
  constexpr double kDisturbed = 0.01;
  const auto share = [](const PassTimes& each) { return each.wall > 0 ? each.waited / each.wall : 0; };
  std::sort(passes.begin(), passes.end(), [&](const PassTimes& a, const PassTimes& b) { return share(a) < share(b); });
  std::size_t left = std::max<std::size_t>(std::min<std::size_t>(passes.size(), 3), passes.size() / 4);
  while (left < passes.size() && share(passes[left]) <= kDisturbed) ++left;
  passes.resize(left);
  std::sort(passes.begin(), passes.end(), [](const PassTimes& a, const PassTimes& b) { return a.whole < b.whole; });
  const std::size_t first = passes.size() / 4, last = passes.size() - first;
  const double part = 1 / static_cast<double>(last - first);
  PassTimes mean{std::vector<double>(passes[0].forward.size()), std::vector<double>(passes[0].forward.size())};
  for (std::size_t i = first; i < last; ++i) {
    for (std::size_t layer = 0; layer < mean.forward.size(); ++layer) {
      mean.forward[layer] += passes[i].forward[layer] * part;
      mean.backward[layer] += passes[i].backward[layer] * part;
    }
    for (const auto field : {&PassTimes::copy, &PassTimes::loss_forward, &PassTimes::loss_backward, &PassTimes::update, &PassTimes::whole, &PassTimes::wall, &PassTimes::waited})
      mean.*field += passes[i].*field * part;
  }
  return mean;
}

std::vector<StepTimes> run_by_graphs(TrainingPasses& passes, Seconds budget, std::size_t least) {
  // The one that is recorded first, and one to warm up.
  for (int graphs = 0; graphs < 2 && passes.why_no_graphs().empty();) graphs += passes.step_by_graphs() ? 1 : 0;
  std::vector<StepTimes> steps;
  const auto begin = now();
  while (passes.why_no_graphs().empty() && (steps.size() < least || seconds(now() - begin) < budget.value))
    if (const auto step = passes.step_by_graphs()) steps.push_back(*step);
  return steps;
}

PassesAndSteps run_by_turns(TrainingPasses& passes, Seconds budget, std::size_t least) {
  for (int i = 0; i < 2; ++i) {
    passes.run();
    passes.step();
  }
  // Long enough that what the other left in caches and queues does not count, short enough that both meet the same machine.
  constexpr double kBlock = 0.05;
  const auto begin = now();
  PassesAndSteps all;
  const auto block = [](const auto& one) {
    const auto from = now();
    do one();
    while (seconds(now() - from) < kBlock);
  };
  do {
    std::vector<double> here, there;
    block([&] { here.push_back(all.passes.emplace_back(passes.run()).whole); });
    block([&] { there.push_back(all.steps.emplace_back(passes.step()).whole); });
    all.ratios.push_back(median(there) / median(here));
  } while (all.passes.size() < least || all.steps.size() < least || seconds(now() - begin) < budget.value);
  return all;
}

}  // namespace ddl
