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
#include "ddl/strategy/pipeline_memory.h"
#include "ddl/strategy/split_parts.h"
#include "ddl/strategy/stages.h"
#include "ddl/strategy/tasks.h"

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
  Writer(const StrategyInput& input, const Pipeline& pipeline) : input_(input), pipeline_(pipeline), workers_(pipeline.order.workers()) {
    plan_.strategy = input.spec.name;
    plan_.mesh.axes = {{"pipeline", workers_}, {"data", pipeline.replicas}};
    plan_.split = pipeline.split;
    cut_segments();
    plan_.micro_batches = pipeline.micro_batches;
    plan_.deferred_statistics = pipeline.deferred_statistics;
    plan_.groups = {{"everyone", {{0}, {1}}}, {"replicas", {{1}}}};
    const auto add_axis = [&](const char* axis, int size) {
      plan_.mesh.axes.push_back({axis, size});
      plan_.groups[kEveryone].along.push_back({static_cast<int>(plan_.mesh.axes.size()) - 1});
      return static_cast<int>(plan_.mesh.axes.size()) - 1;
    };
    const auto add_group = [&](const char* name, std::vector<Group::Along> along) {
      plan_.groups.push_back({name, std::move(along)});
      return static_cast<int>(plan_.groups.size()) - 1;
    };
    if (pipeline.shards > 1) shards_ = add_group("shards", {{add_axis("sharded", pipeline.shards)}});
    if (pipeline.parts > 1) {
      tensor_axis_ = add_axis("tensor", pipeline.parts);
      parts_ = add_group("parts", {{tensor_axis_}});
      summands_ = add_group("summands", {{1}, {tensor_axis_}});
    }
    crossings_ = crossings(input.graph, plan_.stages);
    for (const auto& spec : input.graph.parameter_specs()) summand_.push_back(spec.partial_gradient);
    const std::int64_t local = local_batch(input, pipeline.replicas * pipeline.shards);
    samples_ = (local + pipeline.micro_batches - 1) / pipeline.micro_batches;
    find_moves();
    find_shared();
    if (!pipeline.staleness.empty() && !shared_.empty()) {
      const auto name = input.graph.parameter_specs()[at(shared_.begin()->second.front())].name;
      throw Error(Code::unsupported, fmt::format("[{}] unsupported: asynchronous stages cannot share a weight; got {} on workers {}, expected a network without tied weights, "
                                                 "or a synchronous schedule", input.spec.name, name, fmt::join(shared_.begin()->first.places, ", ")));
    }
    find_routes();
  }

  Plan write() && {
    for (int worker = 0; worker < workers_; ++worker) write_role(worker);
    number_meetings(plan_);
    return std::move(plan_);
  }

 private:
  static constexpr int kEveryone = 0, kReplicas = 1;  // groups

  /// A segment for each stage of the order, or several where parts exchange values within it.
  void cut_segments() {
    auto cuts = pipeline_.cuts;
    for (int layer = 1; layer < static_cast<int>(input_.graph.layers.size()); ++layer)
      if (communicates(input_.graph.layers[at(layer)])) cuts.push_back(layer);
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    plan_.stages = make_stages(input_.graph, cuts);
    segments_.resize(pipeline_.cuts.size());
    for (std::size_t s = 0, of = 0; s < cuts.size(); ++s) {
      if (of + 1 < pipeline_.cuts.size() && cuts[s] == pipeline_.cuts[of + 1]) ++of;
      segments_[of].push_back(static_cast<int>(s));
      stage_of_segment_.push_back(static_cast<int>(of));
    }
  }

  int holder(int segment, int micro_batch) const { return pipeline_.order.worker_of(stage_of_segment_[at(segment)], micro_batch); }

  /// The places of the pipeline that hold a segment.
  std::vector<int> places(int segment) const {
    const int stage = stage_of_segment_[at(segment)];
    auto all = first_numbers(pipeline_.order.replicas_of(stage));
    for (int& place : all) place += pipeline_.order.worker_of_stage[at(stage)];
    return all;
  }

  bool holds(int worker, int stage) const {
    const int place = worker - pipeline_.order.worker_of_stage[at(stage)];
    return place >= 0 && place < pipeline_.order.replicas_of(stage);
  }

  /// Workers at some places that add up what they have, or summands of it: one group, however many stages they hold.
  int group_of(const std::vector<int>& places, bool summands, const char* name) {
    const auto [found, is_new] = groups_.try_emplace({places, summands}, static_cast<int>(plan_.groups.size()));
    if (is_new) {
      plan_.groups.push_back({fmt::format("{} {}", name, groups_.size() - 1), {{0, places}, {1}}});
      if (summands) plan_.groups.back().along.push_back({tensor_axis_});
    }
    return found->second;
  }

  /// The exchange that a segment begins with, if its parts communicate in it.
  const PartExchange* exchange_of(int segment) const {
    const auto& layer = input_.graph.layers[at(plan_.stages[at(segment)].first)];
    return communicates(layer) ? &*layer.exchange : nullptr;
  }

  bool recomputes(int micro_batch) const {
    return pipeline_.recompute == Recompute::always || (pipeline_.recompute == Recompute::except_last && micro_batch + 1 < pipeline_.micro_batches);
  }

  /// Whether each part of a split network computes a summand of the parameter's gradient.
  bool is_summand(int parameter) const { return summand_[at(parameter)]; }

  /// Parameters that several places of the pipeline hold, by those places: each set of places is a group of its own.
  void find_shared() {
    for (const auto& [parameter, segments] : shared_parameters(plan_.stages)) {
      std::set<std::vector<int>> users;
      std::vector<int> all;
      for (const int segment : segments)
        if (const auto some = places(segment); users.insert(some).second) all.insert(all.end(), some.begin(), some.end());
      if (users.size() < 2) continue;
      std::sort(all.begin(), all.end());
      shared_[{all, is_summand(parameter)}].push_back(parameter);
    }
    for (const auto& [who, parameters] : shared_) group_of(who.places, who.summands, "tied");
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
          for (const int segment : segments_in_order(action))
            for (const int c : (forward ? out_of_ : into_)[at(segment)]) {
              if (!moves_[at(c)].moves || (!forward && !moves_[at(c)].returns)) continue;
              const auto& crossing = crossings_[at(c)];
              auto& [parcels, places] = routes_[{worker, holder(forward ? crossing.to : crossing.from, action.micro_batch), forward ? Cargo::activations : Cargo::activation_gradients}];
              places[{c, action.micro_batch}] = parcels.size();
              parcels.push_back({c, action.micro_batch, action.ahead});
            }
        }
  }

  std::vector<int> segments_in_order(const Action& action) const {
    auto segments = segments_[at(action.stage)];
    if (!is_forward(action.pass)) std::reverse(segments.begin(), segments.end());
    return segments;
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

  /// Appends what the parts exchange at the beginning of a segment, forward or, of the gradient, backward, after some tasks. Returns its number; kNone: they need not.
  int exchange(Role& role, const Action& action, bool forward, std::vector<int> after) {
    const auto* how = exchange_of(action.stage);
    if (how == nullptr || !communicates(forward ? how->forward : how->backward)) return kNone;
    Task task;
    task.kind = TaskKind::collective;
    task.stream = Stream::communication;
    task.label = fmt::format("exchange {}{} {}", forward ? "" : "gradient ", action.stage, action.micro_batch);
    task.goal = goal_of(forward ? how->forward : how->backward);
    task.cargo = forward ? Cargo::activations : Cargo::activation_gradients;
    task.group = parts_;
    task.stage = action.stage;
    task.layer = plan_.stages[at(action.stage)].first;
    task.micro_batch = action.micro_batch;
    task.bytes = move_buffer(*how, forward, pipeline_.parts).elements() * (how->per_batch ? 1 : samples_) * input_.element_bytes;
    task.after = std::move(after);
    role.tasks.push_back(std::move(task));
    return static_cast<int>(role.tasks.size()) - 1;
  }

  void write_action(Role& role, int worker, const Action& action) {
    auto each = action;
    for (const int segment : segments_in_order(action)) {
      each.stage = segment;
      write_segment(role, worker, each);
    }
  }

  /// `action` is of a segment.
  void write_segment(Role& role, int worker, const Action& action) {
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
    if (forward) {
      auto before = task.after;
      before.push_back(last_ == kNone ? 0 : last_);
      if (const int conversion = exchange(role, action, true, std::move(before)); conversion != kNone) task.after.push_back(conversion);
    } else {
      for (const int c : out_of_[at(action.stage)])
        if (const auto found = returned_.find({crossings_[at(c)].to, action.micro_batch}); found != returned_.end()) task.after.push_back(found->second);
    }
    compute(role, std::move(task));
    const int conversion = hands_back && learns ? exchange(role, action, false, {last_}) : kNone;
    if (conversion != kNone) returned_[{action.stage, action.micro_batch}] = conversion;
    for (const int c : forward ? out_of_[at(action.stage)] : given) {
      const auto& move = moves_[at(c)];
      if (!move.moves || !(forward || (hands_back && move.returns))) continue;
      auto send = message(TaskKind::send, cargo, holder(forward ? crossings_[at(c)].to : crossings_[at(c)].from, action.micro_batch), parcel(c));
      send.after = {conversion == kNone ? last_ : conversion};
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
    for (const auto& [who, parameters] : shared_) {
      if (std::find(who.places.begin(), who.places.end(), worker) == who.places.end()) continue;
      elsewhere.insert(parameters.begin(), parameters.end());
      bucket_of(parameters, kNone, groups_.at(who));
    }
    const auto travels = [&](int parameter) { return pipeline_.replicas > 1 || pipeline_.shards > 1 || is_summand(parameter); };
    std::map<int, int> users, lowest;  // how many segments use a parameter, and the first: its backward is the last
    for (const int stage : role.stages)
      for (const int parameter : plan_.stages[at(stage)].parameters) {
        ++users[parameter];
        lowest.emplace(parameter, stage);
      }
    for (const bool summands : {false, true}) {
      std::vector<int> several;
      for (const auto& [parameter, stages] : users)
        if (stages > 1 && is_summand(parameter) == summands && travels(parameter) && elsewhere.insert(parameter).second) several.push_back(parameter);
      if (!several.empty()) bucket_of(several, kNone, summands ? summands_ : kReplicas);
    }
    const auto tied = role.buckets.size();
    for (const auto& segments : segments_)
      for (const bool summands : {false, true}) {
        if (!holds(worker, stage_of_segment_[at(segments.front())])) continue;
        const auto together = places(segments.front());
        const bool several_places = together.size() > 1;
        std::vector<int> own;
        for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
          const auto& all = plan_.stages[at(*segment)].parameters;
          std::copy_if(all.rbegin(), all.rend(), std::back_inserter(own),
                       [&](int parameter) { return is_summand(parameter) == summands && (several_places || travels(parameter)) && elsewhere.insert(parameter).second; });
        }
        if (own.empty()) continue;
        const int group = several_places ? group_of(together, summands, "replicas of a stage") : summands ? summands_ : kReplicas;
        for (const auto& bucket : assign_buckets(bytes, own, kBucketCap, kBucketCap)) {
          int stage = segments.back();
          for (const int parameter : bucket.parameters) stage = std::min(stage, lowest.at(parameter));
          bucket_of(bucket.parameters, stage, group);
        }
      }
    std::vector<int> numbers(role.buckets.size());
    // Several of a worker's stages may use what is tied: it is complete after the last backward of all, and comes last.
    for (std::size_t k = 0; k < role.buckets.size(); ++k) {
      const auto b = (k + tied) % role.buckets.size();
      auto reduce = reduction(role, static_cast<int>(b));
      reduce.stage = role.stages.front();
      if (b < tied)
        reduce.after = {last_};
      else
        reduce.waits_for = static_cast<int>(b);
      reduce.group = groups[b];
      if (shards_ != kNone) {
        auto scatter = reduce;
        scatter.label = fmt::format("reduce-scatter {}", b);
        scatter.goal = Goal::reduce_scatter;
        scatter.group = shards_;
        numbers[b] = add(role, std::move(scatter));
        reduce.bytes = part_of_bucket(role, static_cast<int>(b));
        reduce.waits_for = kNone;
        reduce.after = {numbers[b]};
        if (members(plan_.mesh, plan_.groups[at(groups[b])], role.first).size() == 1) continue;
      }
      numbers[b] = add(role, std::move(reduce));
    }
    return numbers;
  }

  /// Of the worker with the longest part; bytes.
  std::int64_t part_of_bucket(const Role& role, int bucket) const {
    const auto elements = role.buckets[at(bucket)].bytes / input_.element_bytes;
    return (elements + pipeline_.shards - 1) / pipeline_.shards * input_.element_bytes;
  }

  std::vector<int> stages_of(int worker) const {
    std::vector<int> stages;
    for (int stage = 0; stage < pipeline_.order.stages(); ++stage)
      if (holds(worker, stage)) stages.push_back(stage);
    return stages;
  }

  void write_role(int worker) {
    const int abreast = pipeline_.replicas * pipeline_.shards * pipeline_.parts;
    Role role{"", worker * abreast, abreast};
    returned_.clear();
    const auto own = stages_of(worker);
    for (const int stage : own) role.stages.insert(role.stages.end(), segments_[at(stage)].begin(), segments_[at(stage)].end());
    if (!pipeline_.staleness.empty()) role.staleness = pipeline_.staleness[at(worker)];
    role.name = own.size() > 1                                   ? fmt::format("stages {}", fmt::join(own, ", "))
                : pipeline_.order.replicas_of(own.front()) > 1 ? fmt::format("stage {}, replica {}", own.front(), worker - pipeline_.order.worker_of_stage[at(own.front())])
                                                               : fmt::format("stage {}", own.front());
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
      task.group = kEveryone;
      task.bytes = 3 * sizeof(double);
      task.after = {last_backward};
      if (input_.whole_gradient) task.after.insert(task.after.end(), exchanges.begin(), exchanges.end());
      control = add(role, std::move(task));
    }
    std::vector<int> parameters, in_bucket, updates;
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
      updates.push_back(add(role, std::move(update)));
    }
    for (int b = 0; b < static_cast<int>(role.buckets.size()) && shards_ != kNone; ++b) {
      Task gather;
      gather.kind = TaskKind::collective;
      gather.stream = Stream::communication;
      gather.label = fmt::format("all-gather {}", b);
      gather.goal = Goal::all_gather;
      gather.cargo = Cargo::parameters;
      gather.group = shards_;
      gather.stage = role.stages.front();
      gather.bucket = b;
      gather.bytes = role.buckets[at(b)].bytes;
      gather.after = {updates[at(b)]};
      add(role, std::move(gather));
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
    role.holds.optimizer = trains * input_.optimizer_tensors;
    if (shards_ != kNone) {
      role.holds.optimizer = 0;
      for (int b = 0; b < static_cast<int>(role.buckets.size()); ++b) role.holds.optimizer += part_of_bucket(role, b) * input_.optimizer_tensors;
    }
    std::map<int, StageBytes> stages;
    for (const int stage : stages_of(worker)) stages[stage] = bytes_of_stage(role, stage, each);
    hold_worst(pipeline_.order.actions[at(worker)], stages, [&](int micro_batch) { return recomputes(micro_batch); }, role.holds);
  }

  StageBytes bytes_of_stage(const Role& role, int stage, const std::vector<std::int64_t>& parameter_bytes) const {
    StageBytes bytes;
    if (stage + 1 == pipeline_.order.stages()) {
      bytes.made = logits_bytes(input_, samples_);
      bytes.late = 2 * bytes.made;
    }
    std::set<int> in_bucket;
    for (const auto& bucket : role.buckets) in_bucket.insert(bucket.parameters.begin(), bucket.parameters.end());
    for (const int segment : segments_[at(stage)]) {
      bytes.made += kept_elements_of(input_.graph, plan_.stages[at(segment)]) * samples_ * input_.element_bytes;
      // What comes from a segment of the same stage is counted where it was made.
      for (const int c : into_[at(segment)])
        if (stage_of_segment_[at(crossings_[at(c)].from)] != stage) bytes.given += moves_[at(c)].bytes;
      for (const int parameter : plan_.stages[at(segment)].parameters) {
        bytes.largest_parameter = std::max(bytes.largest_parameter, parameter_bytes[at(parameter)]);
        if (in_bucket.count(parameter) == 0) bytes.gradients += parameter_bytes[at(parameter)];
      }
    }
    return bytes;
  }

  const StrategyInput& input_;
  const Pipeline& pipeline_;
  int workers_;
  std::int64_t samples_ = 1;  ///< of a micro-batch
  std::vector<Crossing> crossings_;
  std::vector<std::vector<int>> segments_;          ///< by stage of the order
  std::vector<int> stage_of_segment_;
  std::vector<bool> summand_;                       ///< by parameter
  int shards_ = kNone, parts_ = kNone, summands_ = kNone;  ///< groups
  int tensor_axis_ = kNone;
  struct Sharers {
    std::vector<int> places;
    bool summands;
    auto operator<=>(const Sharers&) const = default;
  };
  std::map<Sharers, std::vector<int>> shared_;      ///< parameters
  std::map<Sharers, int> groups_;
  std::map<std::pair<int, int>, int> returned_;     ///< by segment and micro-batch: the exchange of its gradient among the role's tasks
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

Plan pipeline_plan(const StrategyInput& input, const Pipeline& pipeline) { return Writer(input, pipeline).write(); }

}  // namespace ddl
