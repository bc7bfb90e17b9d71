#include "ddl/strategy/pipeline_tasks.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/ranges.h>

#include "ddl/core/error.h"
#include "ddl/core/numbers.h"
#include "ddl/strategy/common.h"
#include "ddl/strategy/stages.h"

namespace ddl {
namespace {

std::size_t at(int number) { return static_cast<std::size_t>(number); }

/// What a message is of: which crossing, which micro-batch.
struct Parcel {
  int crossing;
  int micro_batch;
  int ahead;
};
using Route = std::tuple<int, int, Cargo>;  ///< from one place of the pipeline to another

/// Writes the tasks of all workers of a pipeline.
class Writer {
 public:
  Writer(const StrategyInput& input, const PipelinePlan& pipeline) : input_(input), pipeline_(pipeline), workers_(pipeline.order.workers()) {
    plan_.strategy = input.spec.name;
    plan_.mesh.axes = {{"pipeline", workers_}, {"data", pipeline.replicas}};
    plan_.stages = make_stages(input.graph, pipeline.cuts);
    plan_.micro_batches = pipeline.micro_batches;
    plan_.deferred_statistics = pipeline.deferred_statistics;
    plan_.groups = {{"everyone", {{0}, {1}}}, {"replicas", {{1}}}};
    crossings_ = crossings(input.graph, plan_.stages);
    const std::int64_t local = local_batch(input, pipeline.replicas);
    samples_ = (local + pipeline.micro_batches - 1) / pipeline.micro_batches;
    find_moves();
    find_shared();
    if (!pipeline.staleness.empty() && !shared_.empty()) {
      const auto name = input.graph.parameter_specs()[at(shared_.begin()->second.front())].name;
      throw Error(Code::unsupported, fmt::format("[{}] unsupported: asynchronous stages cannot share a weight; got {} on workers {}, expected a network without tied weights, "
                                                 "or a synchronous schedule", input.spec.name, name, fmt::join(shared_.begin()->first, ", ")));
    }
    find_routes();
  }

  Plan write() && {
    for (int worker = 0; worker < workers_; ++worker) write_role(worker);
    number_meetings(plan_);
    return std::move(plan_);
  }

 private:
  int holder(int stage, int micro_batch) const { return pipeline_.order.worker_of(stage, micro_batch); }

  /// The places of the pipeline that hold a stage.
  std::vector<int> places(int stage) const {
    auto all = first_numbers(pipeline_.order.replicas_of(stage));
    for (int& place : all) place += pipeline_.order.worker_of_stage[at(stage)];
    return all;
  }

  bool holds(int worker, int stage) const {
    const int place = worker - pipeline_.order.worker_of_stage[at(stage)];
    return place >= 0 && place < pipeline_.order.replicas_of(stage);
  }

  /// Workers at some places that add up what they have: one group, however many stages they hold.
  int group_of(const std::vector<int>& places, const char* name) {
    const auto [found, is_new] = groups_.try_emplace(places, static_cast<int>(plan_.groups.size()));
    if (is_new) plan_.groups.push_back({fmt::format("{} {}", name, groups_.size() - 1), {{0, places}, {1}}});
    return found->second;
  }

  bool recomputes(int micro_batch) const {
    return pipeline_.recompute == Recompute::always || (pipeline_.recompute == Recompute::except_last && micro_batch + 1 < pipeline_.micro_batches);
  }

  /// Parameters that several places of the pipeline hold, by those places: each set of places is a group of its own.
  void find_shared() {
    for (const auto& [parameter, stages] : shared_parameters(plan_.stages)) {
      std::set<std::vector<int>> users;
      std::vector<int> all;
      for (const int stage : stages)
        if (const auto some = places(stage); users.insert(some).second) all.insert(all.end(), some.begin(), some.end());
      if (users.size() < 2) continue;
      std::sort(all.begin(), all.end());
      shared_[all].push_back(parameter);
    }
    for (const auto& [places, parameters] : shared_) group_of(places, "tied");
  }

  /// What of each crossing is a message, and of how many bytes.
  struct Move {
    bool moves = false;      ///< its stages are on different workers
    bool returns = false;    ///< a gradient comes back
    std::int64_t bytes = 0, gradient_bytes = 0;
  };
  void find_moves() {
    into_.resize(plan_.stages.size());
    out_of_.resize(plan_.stages.size());
    for (int c = 0; c < static_cast<int>(crossings_.size()); ++c) {
      const auto& crossing = crossings_[at(c)];
      auto learning = crossing;
      learning.layers.clear();
      for (std::size_t v = 0; v < crossing.layers.size(); ++v)
        if (crossing.learns[v]) learning.layers.push_back(crossing.layers[v]);
      moves_.push_back({holder(crossing.from, 0) != holder(crossing.to, 0), !learning.layers.empty(), bytes_of(input_.graph, crossing, samples_, input_.element_bytes),
                        bytes_of(input_.graph, learning, samples_, input_.element_bytes)});
      into_[at(crossing.to)].push_back(c);
      out_of_[at(crossing.from)].push_back(c);
    }
  }

  /// What each worker sends another, in the order in which it comes to be.
  void find_routes() {
    for (int worker = 0; worker < workers_; ++worker)
      for (const auto& action : pipeline_.order.actions[at(worker)])
        for (const bool forward : {true, false}) {
          if (forward ? !is_forward(action.pass) : !gives_input_gradient(action.pass)) continue;
          for (const int c : (forward ? out_of_ : into_)[at(action.stage)]) {
            if (!moves_[at(c)].moves || (!forward && !moves_[at(c)].returns)) continue;
            const auto& crossing = crossings_[at(c)];
            auto& [parcels, places] = routes_[{worker, holder(forward ? crossing.to : crossing.from, action.micro_batch), forward ? Cargo::activations : Cargo::activation_gradients}];
            places[{c, action.micro_batch}] = parcels.size();
            parcels.push_back({c, action.micro_batch, action.ahead});
          }
        }
  }

  Task message(TaskKind kind, Cargo cargo, int peer, const Parcel& parcel) const {
    const auto& crossing = crossings_[at(parcel.crossing)];
    Task task;
    task.kind = kind;
    task.stream = Stream::communication;
    task.cargo = cargo;
    task.peer = peer;
    task.stage = crossing.from;
    task.to_stage = crossing.to;
    task.micro_batch = parcel.micro_batch;
    task.ahead = parcel.ahead;
    task.bytes = cargo == Cargo::activations ? moves_[at(parcel.crossing)].bytes : moves_[at(parcel.crossing)].gradient_bytes;
    const bool forward = cargo == Cargo::activations;
    task.label = fmt::format("{} {}{}>{} {}", kind == TaskKind::send ? "send" : "receive", forward ? "" : "gradient ", forward ? crossing.from : crossing.to,
                             forward ? crossing.to : crossing.from, parcel.micro_batch);
    return task;
  }

  /// Appends what comes from another worker up to `wanted`; returns the number of its task.
  int receive(Role& role, int worker, int from, Cargo cargo, const Parcel& wanted) {
    const Route route{from, worker, cargo};
    auto& [next, numbers] = received_[route];
    if (!pipeline_.staleness.empty()) {
      // Step by step sender and receiver are in different places of one and the same order.
      auto task = message(TaskKind::receive, cargo, from, wanted);
      task.after = {before_last_ == kNone ? 0 : before_last_};
      role.tasks.push_back(std::move(task));
      return static_cast<int>(role.tasks.size()) - 1;
    }
    const auto& [parcels, places] = routes_.at(route);
    const auto place = places.at({wanted.crossing, wanted.micro_batch});
    for (; next <= place; ++next) {
      auto task = message(TaskKind::receive, cargo, from, parcels[next]);
      task.after = {before_last_ == kNone ? 0 : before_last_};
      numbers.push_back(static_cast<int>(role.tasks.size()));
      role.tasks.push_back(std::move(task));
    }
    return numbers[place];
  }

  void compute(Role& role, Task task) {
    task.after.push_back(last_ == kNone ? 0 : last_);
    before_last_ = std::exchange(last_, static_cast<int>(role.tasks.size()));
    role.tasks.push_back(std::move(task));
  }

  void write_action(Role& role, int worker, const Action& action) {
    const bool forward = is_forward(action.pass);
    const auto cargo = forward ? Cargo::activations : Cargo::activation_gradients;
    const auto flops = static_cast<double>(flops_of(input_.graph, plan_.stages[at(action.stage)])) * static_cast<double>(samples_);
    Task task;
    task.kind = forward                                 ? TaskKind::forward
                : action.pass == Pass::backward         ? TaskKind::backward
                : action.pass == Pass::backward_input   ? TaskKind::backward_input
                                                        : TaskKind::backward_weight;
    task.label = fmt::format("{} {} {}", name(task.kind), action.stage, action.micro_batch);
    task.stage = action.stage;
    task.micro_batch = action.micro_batch;
    task.ahead = action.ahead;
    task.recompute = recomputes(action.micro_batch);
    // One product for the gradient of the input, one for that of the weights. Where nothing that the stage was given learns its backward is of weights
    // alone, however it is divided; what is run again is run in the first part that there is.
    const bool split = action.pass == Pass::backward_input || action.pass == Pass::backward_weight;
    const auto& given = into_[at(action.stage)];
    const bool learns = std::any_of(given.begin(), given.end(), [&](int crossing) { return moves_[at(crossing)].returns; });
    const bool idle = action.pass == Pass::backward_input && !learns;
    const bool again = task.recompute && !forward && !idle && (action.pass != Pass::backward_weight || !learns);
    task.flops = flops * ((idle ? 0 : split && learns ? 1 : forward ? 1 : 2) + (again ? 1 : 0));
    const bool hands_back = gives_input_gradient(action.pass);
    const auto parcel = [&](int crossing) { return Parcel{crossing, action.micro_batch, action.ahead}; };
    for (const int c : forward ? given : out_of_[at(action.stage)]) {
      const auto& move = moves_[at(c)];
      if (!move.moves || !(forward || (hands_back && move.returns))) continue;
      task.after.push_back(receive(role, worker, holder(forward ? crossings_[at(c)].from : crossings_[at(c)].to, action.micro_batch), cargo, parcel(c)));
    }
    compute(role, std::move(task));
    for (const int c : forward ? out_of_[at(action.stage)] : given) {
      const auto& move = moves_[at(c)];
      if (!move.moves || !(forward || (hands_back && move.returns))) continue;
      auto send = message(TaskKind::send, cargo, holder(forward ? crossings_[at(c)].to : crossings_[at(c)].from, action.micro_batch), parcel(c));
      send.after = {last_};
      role.tasks.push_back(std::move(send));
    }
  }

  /// Gradients that several workers have parts of. Returns the numbers of the collectives, by bucket.
  std::vector<int> write_exchange(Role& role, int worker) {
    std::vector<int> groups;
    std::set<int> elsewhere;
    const auto bytes = parameter_bytes(input_);
    const auto bucket_of = [&](const std::vector<int>& parameters, int stage, int group) {
      Bucket bucket{parameters, 0, stage};
      for (const int parameter : parameters) bucket.bytes += bytes[at(parameter)];
      role.buckets.push_back(std::move(bucket));
      groups.push_back(group);
    };
    for (const auto& [places, parameters] : shared_) {
      if (std::find(places.begin(), places.end(), worker) == places.end()) continue;
      elsewhere.insert(parameters.begin(), parameters.end());
      bucket_of(parameters, kNone, groups_.at(places));
    }
    if (pipeline_.replicas > 1) {
      std::map<int, int> users;
      for (const int stage : role.stages)
        for (const int parameter : plan_.stages[at(stage)].parameters) ++users[parameter];
      std::vector<int> several;
      for (const auto& [parameter, stages] : users)
        if (stages > 1 && elsewhere.insert(parameter).second) several.push_back(parameter);
      if (!several.empty()) bucket_of(several, kNone, 1);
    }
    const auto tied = role.buckets.size();
    for (const int stage : role.stages) {
      const auto together = places(stage);
      if (pipeline_.replicas * static_cast<int>(together.size()) == 1) continue;
      const int group = together.size() == 1 ? 1 : group_of(together, "replicas of a stage");
      std::vector<int> own;
      const auto& all = plan_.stages[at(stage)].parameters;
      std::copy_if(all.rbegin(), all.rend(), std::back_inserter(own), [&](int parameter) { return elsewhere.insert(parameter).second; });
      for (auto& bucket : assign_buckets(bytes, own, kBucketCap, kBucketCap)) bucket_of(bucket.parameters, stage, group);
    }
    std::vector<int> numbers;
    for (std::size_t b = 0; b < role.buckets.size(); ++b) {
      auto reduce = reduction(role, static_cast<int>(b));
      reduce.group = groups[b];
      reduce.stage = role.stages.front();
      // Several of a worker's stages may use what is tied: it is complete after the last backward of all.
      if (b < tied)
        reduce.after = {last_};
      else
        reduce.waits_for = static_cast<int>(b);
      numbers.push_back(static_cast<int>(role.tasks.size()));
      role.tasks.push_back(std::move(reduce));
    }
    return numbers;
  }

  void write_role(int worker) {
    Role role{"", worker * pipeline_.replicas, pipeline_.replicas};
    for (int stage = 0; stage < static_cast<int>(plan_.stages.size()); ++stage)
      if (holds(worker, stage)) role.stages.push_back(stage);
    if (!pipeline_.staleness.empty()) role.staleness = pipeline_.staleness[at(worker)];
    const int first = role.stages.front();
    role.name = role.stages.size() > 1                      ? fmt::format("stages {}", fmt::join(role.stages, ", "))
                : pipeline_.order.replicas_of(first) > 1 ? fmt::format("stage {}, replica {}", first, worker - pipeline_.order.worker_of_stage[at(first)])
                                                            : fmt::format("stage {}", first);
    Task load;
    load.label = "load";
    role.tasks.push_back(load);
    last_ = before_last_ = kNone;
    for (const auto& action : pipeline_.order.actions[at(worker)]) write_action(role, worker, action);
    const int last_backward = last_;
    const auto exchanges = write_exchange(role, worker);

    int control = kNone;
    if (plan_.workers() > 1) {
      Task task;
      task.kind = TaskKind::collective;
      task.stream = Stream::communication;
      task.label = "control";
      task.cargo = Cargo::control;
      task.group = 0;
      task.bytes = 3 * sizeof(double);
      task.after = {last_backward};
      if (input_.whole_gradient) task.after.insert(task.after.end(), exchanges.begin(), exchanges.end());
      control = static_cast<int>(role.tasks.size());
      role.tasks.push_back(std::move(task));
    }
    std::vector<int> parameters, in_bucket;
    for (const int stage : role.stages) parameters.insert(parameters.end(), plan_.stages[at(stage)].parameters.begin(), plan_.stages[at(stage)].parameters.end());
    std::sort(parameters.begin(), parameters.end());
    parameters.erase(std::unique(parameters.begin(), parameters.end()), parameters.end());
    for (const auto& bucket : role.buckets) in_bucket.insert(in_bucket.end(), bucket.parameters.begin(), bucket.parameters.end());
    for (int b = 0; b <= static_cast<int>(exchanges.size()); ++b) {
      const bool rest = b == static_cast<int>(exchanges.size());
      if (rest && in_bucket.size() == parameters.size()) continue;
      Task update;
      update.kind = TaskKind::update;
      update.label = rest ? "update" : fmt::format("update {}", b);
      update.stage = role.stages.front();
      update.after = {last_backward};
      if (!rest) {
        update.bucket = b;
        update.after.push_back(exchanges[at(b)]);
      }
      if (input_.whole_gradient && control != kNone) update.after.push_back(control);
      role.tasks.push_back(std::move(update));
    }
    hold(role, worker, parameters);
    plan_.roles.push_back(std::move(role));
  }

  /// Parameters once, and activations at the order's worst moment.
  void hold(Role& role, int worker, const std::vector<int>& parameters) {
    const auto each = parameter_bytes(input_);
    std::int64_t trains = 0;
    for (const int parameter : parameters) trains += each[at(parameter)];
    role.holds.parameters = trains * (pipeline_.weight_versions.empty() ? 1 : pipeline_.weight_versions[at(worker)]);
    for (const int stage : role.stages) role.holds.parameters += frozen_parameters_of(input_.graph, plan_.stages[at(stage)]) * input_.element_bytes;
    role.holds.gradients = trains - role.holds.buckets;
    role.holds.optimizer = trains * input_.optimizer_tensors;
    struct Kept {
      std::int64_t given, made;
      bool again;  ///< what it made is dropped, and made again
    };
    const auto kept = [&](const Action& action) {
      Kept bytes{0, kept_elements_of(input_.graph, plan_.stages[at(action.stage)]) * samples_ * input_.element_bytes, recomputes(action.micro_batch)};
      for (const int c : into_[at(action.stage)]) bytes.given += moves_[at(c)].bytes;
      return bytes;
    };
    // Of an asynchronous order what steps before left in flight is there when a step begins.
    std::int64_t now = 0;
    for (const auto& action : pipeline_.order.actions[at(worker)]) {
      const auto bytes = kept(action);
      if (is_forward(action.pass)) now += action.ahead * (bytes.given + (bytes.again ? 0 : bytes.made));
    }
    role.holds.activations = now;
    for (const auto& action : pipeline_.order.actions[at(worker)]) {
      const auto bytes = kept(action);
      // Between its two parts a backward holds what products were fed and the gradients of what they made: about as much as was kept before it.
      const bool first = action.pass == Pass::backward_input, second = action.pass == Pass::backward_weight;
      if (is_forward(action.pass)) now += bytes.given + (bytes.again ? 0 : bytes.made);
      if (first && bytes.again) now += bytes.made;
      role.holds.activations = std::max(role.holds.activations, now + (bytes.again && !first && !second ? bytes.made : 0));
      if (finishes(action.pass)) now -= bytes.given + (bytes.again && !second ? 0 : bytes.made);
    }
  }

  const StrategyInput& input_;
  const PipelinePlan& pipeline_;
  int workers_;
  std::int64_t samples_ = 1;  ///< of a micro-batch
  std::vector<Crossing> crossings_;
  std::map<std::vector<int>, std::vector<int>> shared_;  ///< by places: parameters
  std::map<std::vector<int>, int> groups_;               ///< by places
  std::vector<Move> moves_;                         ///< by crossing
  std::vector<std::vector<int>> into_, out_of_;     ///< by stage: crossings
  struct Sequence {
    std::vector<Parcel> parcels;
    std::map<std::pair<int, int>, std::size_t> places;  ///< by crossing and micro-batch
  };
  std::map<Route, Sequence> routes_;
  std::map<Route, std::pair<std::size_t, std::vector<int>>> received_;  ///< how many so far, and their tasks
  int last_ = kNone, before_last_ = kNone;  ///< of the role's tasks that compute
  Plan plan_;
};

}  // namespace

Plan pipeline_plan(const StrategyInput& input, const PipelinePlan& pipeline) { return Writer(input, pipeline).write(); }

}  // namespace ddl
