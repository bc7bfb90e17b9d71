#include <algorithm>
#include <utility>

#include "ddl/core/at.h"
#include "ddl/core/numbers.h"
#include "ddl/core/options.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/common.h"
#include "ddl/strategy/in_process.h"
#include "ddl/strategy/pass_memory.h"
#include "ddl/strategy/stages.h"
#include "ddl/strategy/tasks.h"
#include "ddl/strategy/value_widths.h"

namespace ddl {
namespace {

/// Bytes that the loader reads for a sample, but for labels: words are numbers of 8 bytes.
std::int64_t input_bytes(const StrategyInput& input) {
  std::int64_t bytes = 0;
  for (const auto& layer : input.graph.layers)
    if (layer.kind == LayerKind::input) bytes += elements_of(layer.shape) * (layer.shape.size() == 3 ? 4 : 8);
  return bytes;
}

/// Writes a worker's step. Stage 0 is the network, stage 1 the loss. A pass is what a worker computes at once; micro-batch p * W + w is worker w's in pass p.
class Writer {
 public:
  explicit Writer(const StrategyInput& input)
      : input_(input), overlap_(switch_option(input.spec, "overlap", false)), recompute_(switch_option(input.spec, "recompute", input.recompute)), buckets_(network_buckets(input)) {
    plan_.strategy = input.spec.name;
    plan_.in_process = true;
    // One part of the batch, which worker 0 reads.
    plan_.mesh.axes = {{"replica", input.workers}};
    plan_.groups = {{"replicas", {{0}}}};
    const auto layers = static_cast<int>(input.graph.layers.size());
    plan_.stages = make_stages(input.graph, {0});
    plan_.stages.push_back({layers, layers});
    plan_.micro_batches = input.workers * input.micro_batches;
    // What everybody must know of everybody has a collective of its own.
    buckets_.back().control = false;
    buckets_.back().bytes -= input.element_bytes;
    samples_ = (input.batch + plan_.micro_batches - 1) / plan_.micro_batches;
    flops_ = static_cast<double>(input.graph.flops() * samples_);
    input_bytes_ = samples_ * input_bytes(input);
    holds_ = holdings(input);
    holds_.gradients = 0;
    const auto all = first_numbers(static_cast<int>(input.graph.parameter_specs().size()));
    // What is run again is the whole network at once: at its peak as much is there as without.
    passes_ = NetworkMemory(input).passes({plan_.stages[0]}, samples_, {all.begin(), all.end()}, false);
    const auto widths = ValueWidths(input).bytes;
    for (const auto& crossing : crossings(input.graph, plan_.stages)) output_bytes_ += bytes_of(input.graph, crossing, samples_, widths);
  }

  Plan write() {
    for (int worker = 0; worker < input_.workers; ++worker) write_role(worker);
    number_meetings(plan_);
    return std::move(plan_);
  }

 private:
  int micro(int pass, int worker) const { return pass * input_.workers + worker; }

  Task compute(TaskKind kind, const char* word, int stage, int number, std::vector<int> after) const {
    Task task;
    task.kind = kind;
    task.label = fmt::format("{} {}", word, number);
    task.stage = stage;
    task.micro_batch = number;
    task.after = std::move(after);
    task.recompute = recompute_ && kind == TaskKind::forward && stage == 0;
    if (stage == 0) task.flops = flops_ * (kind == TaskKind::forward ? 1 : 2);
    return task;
  }

  Task message(TaskKind kind, const char* word, Cargo cargo, int number, int peer, std::vector<int> after) const {
    Task task;
    task.kind = kind;
    task.stream = Stream::communication;
    task.label = fmt::format("{} {}", word, number);
    task.cargo = cargo;
    task.peer = peer;
    task.micro_batch = number;
    task.after = std::move(after);
    task.bytes = cargo == Cargo::inputs ? input_bytes_ : output_bytes_;
    if (cargo != Cargo::inputs) task.to_stage = 1;
    return task;
  }

  void write_role(int worker) {
    Role role{worker == 0 ? "worker 0" : fmt::format("replica {}", worker), worker, 1};
    role.stages = worker == 0 ? std::vector{0, 1} : std::vector{0};
    role.buckets = buckets_;
    Task load;
    load.label = "load";
    add(role, load);
    const auto ready = replicate(role, worker);
    int backward = kNone;
    for (int pass = 0; pass < input_.micro_batches; ++pass) backward = worker == 0 ? lead(role, pass, ready) : follow(role, worker, pass, ready);
    finish(role, worker, backward);
    hold(role, worker);
    plan_.roles.push_back(std::move(role));
  }

  /// Parameters, from worker 0 to all. Returns what forward comes after.
  std::vector<int> replicate(Role& role, int worker) {
    std::vector<int> sent, taken;
    for (int b = 0; b < static_cast<int>(buckets_.size()); ++b)
      sent.push_back(add(role, collective(Goal::broadcast, Cargo::parameters, 0, role, b, fmt::format("replicate {}", b))));
    // Worker 0's backward fills the memory that they are read from.
    if (worker == 0) return sent;
    for (int b = 0; b < static_cast<int>(buckets_.size()); ++b) {
      Task take;
      take.kind = TaskKind::average;
      take.label = fmt::format("take {}", b);
      take.cargo = Cargo::parameters;
      take.bucket = b;
      take.after = {sent[at(b)]};
      taken.push_back(add(role, std::move(take)));
    }
    return taken;
  }

  /// Worker 0's pass. Returns its backward.
  int lead(Role& role, int pass, std::vector<int> ready) {
    std::vector<int> gathered;
    for (int w = 1; w < input_.workers; ++w) add(role, message(TaskKind::send, "scatter", Cargo::inputs, micro(pass, w), w, {0}));
    ready.push_back(0);
    gathered.push_back(add(role, compute(TaskKind::forward, "forward", 0, micro(pass, 0), ready)));
    for (int w = 1; w < input_.workers; ++w) gathered.push_back(add(role, message(TaskKind::receive, "gather", Cargo::activations, micro(pass, w), w, {0})));
    // The first loss waits for all outputs, each other for the one before: as many waits as workers, not as many as their square.
    int last = add(role, compute(TaskKind::forward, "loss", 1, micro(pass, 0), std::move(gathered)));
    for (int w = 1; w < input_.workers; ++w) last = add(role, compute(TaskKind::forward, "loss", 1, micro(pass, w), {last}));
    for (int w = 0; w < input_.workers; ++w) {
      last = add(role, compute(TaskKind::backward, "loss backward", 1, micro(pass, w), {last}));
      if (w > 0) add(role, message(TaskKind::send, "scatter gradient", Cargo::activation_gradients, micro(pass, w), w, {last}));
    }
    return add(role, compute(TaskKind::backward, "backward", 0, micro(pass, 0), {last}));
  }

  int follow(Role& role, int worker, int pass, std::vector<int> ready) {
    const int number = micro(pass, worker);
    ready.push_back(add(role, message(TaskKind::receive, "scatter", Cargo::inputs, number, 0, {0})));
    const int forward = add(role, compute(TaskKind::forward, "forward", 0, number, std::move(ready)));
    add(role, message(TaskKind::send, "gather", Cargo::activations, number, 0, {forward}));
    const int gradient = add(role, message(TaskKind::receive, "scatter gradient", Cargo::activation_gradients, number, 0, {forward}));
    return add(role, compute(TaskKind::backward, "backward", 0, number, {gradient}));
  }

  /// Gradients, from all to worker 0, and its update.
  void finish(Role& role, int worker, int backward) {
    std::vector<int> reductions;
    for (int b = 0; b < static_cast<int>(buckets_.size()); ++b) {
      auto task = collective(Goal::reduce, Cargo::gradients, 0, role, b, fmt::format("reduce {}", b));
      if (overlap_)
        task.waits_for = b;
      else
        task.after = {backward};
      reductions.push_back(add(role, std::move(task)));
    }
    const int told = add(role, control(input_, backward, reductions));
    for (int b = 0; b < static_cast<int>(buckets_.size()) && worker == 0; ++b) {
      std::vector<int> after{backward, reductions[at(b)]};
      if (input_.whole_gradient) after.push_back(told);
      add(role, update(b, std::move(after)));
    }
  }

  void hold(Role& role, int worker) const {
    role.holds = holds_;
    for (const auto& bucket : buckets_) role.holds.buckets += bucket.bytes;
    // Between the passes outputs are on their way beside the place of their gradient; what is run again makes them again beside it.
    role.holds.activations = std::max(passes_.later_peak, passes_.given + passes_.made + 2 * output_bytes_);
    // A worker that updates nothing keeps nothing for it.
    if (worker > 0) role.holds.optimizer = 0;
    if (worker > 0) return;
    // Worker 0 has the outputs of all and what their losses keep (our own the outputs) when the first loss goes back, which makes as much twice (our own once). Its own backward comes after the last has, whose
    // gradient is on its way.
    role.holds.activations += output_bytes_;
    const auto kept = recompute_ ? 0 : passes_.given + passes_.made;
    role.holds.activations = std::max(role.holds.activations, kept + (keeps_logits_alone(input_) ? input_.workers + 1 : 2 * input_.workers + 2) * output_bytes_);
  }

  const StrategyInput& input_;
  bool overlap_, recompute_;
  std::vector<Bucket> buckets_;
  std::int64_t samples_ = 1;  ///< of a micro-batch, at most
  std::int64_t input_bytes_ = 0, output_bytes_ = 0;
  double flops_ = 0;  ///< of a forward
  Holdings holds_;
  PassMemory passes_;  ///< of a replica: the loss is worker 0's
  Plan plan_;
};

}  // namespace

Plan replicas_of_one(const StrategyInput& input) { return Writer(input).write(); }

}  // namespace ddl
