#include "ddl/predict/step/cost_source.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/core/proportions.h"
#include "ddl/nn/matrix_products.h"
#include "ddl/nn/recompute_cuts.h"
#include "ddl/nn/sharing.h"
#include "ddl/plan/meetings.h"
#include "ddl/plan/occasion.h"
#include "ddl/plan/peers.h"
#include "ddl/predict/link_bytes.h"
#include "ddl/predict/step/compressed.h"
#include "ddl/strategy/stages.h"

namespace ddl {
namespace {

std::int64_t part(std::int64_t whole, std::int64_t parts) { return parts < 1 ? whole : (whole + parts - 1) / parts; }

/// One after the other: of what both take of one thing, the mean over both.
TaskCost then(TaskCost first, const TaskCost& second) {
  const double whole = first.seconds + second.seconds;
  if (whole <= 0) return first;
  for (auto& demand : first.demands) demand.share *= first.seconds / whole;
  for (const auto& demand : second.demands) {
    const double share = demand.share * second.seconds / whole;
    const auto known = std::find_if(first.demands.begin(), first.demands.end(), [&](const Demand& other) { return other.resource == demand.resource; });
    if (known == first.demands.end()) first.demands.push_back({demand.resource, share});
    else known->share += share;
  }
  std::erase_if(first.demands, [](const Demand& demand) { return demand.share <= 0; });
  first.seconds = whole;
  return first;
}

class Writer {
 public:
  Writer(const Plan& plan, const ModelGraph& graph, std::int64_t batch, const CostSource& source, const Loading& loading, const std::string& compression, const std::vector<std::int64_t>& shares, StepCosts& out)
      : plan_(plan), graph_(graph), source_(source), loading_(loading), compression_(compression), proportions_(shares), out_(out), batch_(batch), local_(part(batch, plan.shares())), owners_(owners_of_parameters(graph)), summed_(summed_by_autograd(graph)), specs_(graph.parameter_specs()) {}

  void write(const Actor& actor) {
    const auto& role = plan_.roles[at(actor.role)];
    if (!proportions_.empty()) {
      const auto [begin, end] = proportional_part(batch_, proportions_, at(plan_.share_of(actor.worker)));
      local_ = end - begin;
    }
    // Micro-batches that do not divide are not alike; each is taken for the mean of all, so that a step has as many samples as it has.
    micro_ = part(local_, plan_.micro_batches);
    const std::int64_t parts = std::max(1, plan_.micro_batches), larger = micro_ > 0 ? local_ - parts * (micro_ - 1) : parts;
    largest_ = static_cast<double>(larger) / static_cast<double>(parts);
    filled_ = static_cast<double>(local_) / static_cast<double>(places_of_share(plan_, batch_));
    again_.clear();
    for (const auto& task : role.tasks)
      if (task.kind == TaskKind::forward && task.recompute) again_.emplace(task.stage, task.micro_batch);
    first_in_place_ = 0;
    // A single stage is run again in segments that hand gradients on, all but the last (train/recompute.h).
    if (plan_.stages.size() == 1 && !again_.empty())
      if (const auto cuts = recompute_cuts(graph_); cuts.size() > 1) first_in_place_ = static_cast<int>(cuts[cuts.size() - 2]);
    auto& own = out_.tasks.emplace_back();
    for (const auto& task : role.tasks) own.push_back(cost(actor, role, task));
    double computes = 0;
    for (std::size_t t = 0; t < own.size(); ++t)
      if (role.tasks[t].stream == Stream::compute && role.tasks[t].kind != TaskKind::load) computes += own[t].seconds * share_of_steps(role.tasks[t]);
    out_.harness.push_back(source_.harness(actor.worker, computes, out_));
    out_.loader.push_back(reads(role) && loading_.threads > 0 ? batches(actor) : TaskCost{});
  }

  /// A bucket's event comes when backward, from the last layer of its stage to the first, is through with the layer that comes first of those whose parameters it has.
  std::vector<double> ready(const Role& role) {
    std::vector<double> out;
    for (const auto& bucket : role.buckets) {
      if (bucket.stage == kNone || bucket.parameters.empty()) {
        out.push_back(1);
        continue;
      }
      const auto& stage = plan_.stages[at(bucket.stage)];
      int first = stage.last;
      for (const int parameter : bucket.parameters) first = std::min(first, owners_.at(at(parameter)).layer);
      double all = 0, until = 0;
      for (int l = stage.first; l < stage.last; ++l) {
        const double seconds = layer(role.first, l).backward();
        all += seconds;
        if (l >= first) until += seconds;
      }
      out.push_back(all > 0 ? until / all : 1);
    }
    return out;
  }

 private:
  const LayerCost& layer(int worker, int number) {
    const auto [place, unknown] = layers_.try_emplace({worker, number});
    if (unknown) place->second = of_mean([&](std::int64_t samples) { return source_.layer(worker, graph_, at(number), samples); });
    return place->second;
  }

  /// Over micro-batches of the larger and the smaller size; an empty one takes nothing.
  template <typename Body>
  LayerCost of_mean(const Body& body) const {
    auto cost = body(micro_);
    if (largest_ >= 1) return cost;
    const auto smaller = micro_ > 1 ? body(micro_ - 1) : LayerCost{};
    const auto mean = [&](double large, double small) { return largest_ * large + (1 - largest_) * small; };
    return {mean(cost.forward, smaller.forward), mean(cost.backward_input, smaller.backward_input), mean(cost.backward_weight, smaller.backward_weight)};
  }

  /// Bytes that a task moves, of the samples that there are.
  std::int64_t bytes_of(const Task& task) const { return filled_ >= 1 || !goes_by_samples(task) ? task.bytes : static_cast<std::int64_t>(std::llround(static_cast<double>(task.bytes) * filled_)); }

  LayerCost stage(int worker, int number) {
    LayerCost sum;
    const auto& stage = plan_.stages[at(number)];
    for (int l = stage.first; l < stage.last; ++l) sum += layer(worker, l);
    // The last, of which one may have no layers: the loss of threads that compute the others together.
    if (number + 1 == static_cast<int>(plan_.stages.size())) {
      const auto loss = of_mean([&](std::int64_t samples) { return source_.loss(worker, graph_, samples); });
      sum.forward += loss.forward;
      sum.backward_input += loss.backward_input;
    }
    return sum;
  }

  TaskCost cost(const Actor& actor, const Role& role, const Task& task) {
    const int worker = actor.worker;
    switch (task.kind) {
      case TaskKind::load: return load(actor, role);
      case TaskKind::forward: return computed(worker, known(worker, task.stage).forward);
      case TaskKind::backward: return computed(worker, known(worker, task.stage).backward() + again(worker, task) + gathered(worker, role, task.stage));
      case TaskKind::backward_input: return computed(worker, known(worker, task.stage).backward_input + again(worker, task));
      case TaskKind::backward_weight: return computed(worker, known(worker, task.stage).backward_weight + gathered(worker, role, task.stage));
      case TaskKind::update: return {source_.update(worker, updated(role, task)), source_.updating(worker, held(role), out_)};
      case TaskKind::release: return {};
      case TaskKind::average: return computed(worker, source_.copy(worker, task.bucket == kNone ? 0 : role.buckets[at(task.bucket)].bytes));
      case TaskKind::collective: return collective(worker, role, task);
      case TaskKind::send:
      case TaskKind::receive: return message(actor, role, task);
    }
    return {};
  }

  TaskCost collective(int worker, const Role& role, const Task& task) {
    const auto among = members(plan_.mesh, plan_.groups[at(task.group)], worker);
    if (task.cargo == Cargo::control || task.cargo == Cargo::norms) return source_.numbers(task.goal, task.bytes, among, out_);
    if (task.layer != kNone) return source_.exchange(task.goal, bytes_of(task), among, out_);
    if (task.cargo == Cargo::parameters && task.goal == Goal::all_gather && role.releases()) {
      // The worker's own part, which is kept elsewhere, goes to its place among the others' first.
      std::int64_t gathered = 0;
      for (const auto& bucket : role.buckets) gathered += bucket.bytes;
      // What is gathered was last touched a step ago, and all that is held since.
      auto cost = source_.collective_after(Goal::all_gather, task.bytes, gathered, among, out_);
      cost.seconds += source_.copy(worker, part(task.bytes, static_cast<std::int64_t>(among.size())));
      return cost;
    }
    // Gradients that were copied from where they were made: three arrays in the place of two.
    if (compression_.empty() && task.cargo == Cargo::gradients && task.goal == Goal::reduce_scatter && role.keeps_parts() && !(source_.writes_in_place(worker) && first_in_place_ == 0))
      return source_.collective_after(task.goal, task.bytes, task.bytes * 3 / 2, among, out_);
    if (compression_.empty() || task.cargo != Cargo::gradients || task.bucket == kNone || among.size() < 2) return source_.collective(task.goal, task.bytes, among, out_);
    const auto ranks = static_cast<int>(among.size());
    const auto [place, unknown] = compressed_.try_emplace({&role, task.bucket});
    if (unknown) place->second = compressed_bucket(compression_, role.buckets[at(task.bucket)], specs_, ranks);
    const auto& bucket = place->second;
    auto sum = source_.compressing(worker, compression_, bucket.bytes, ranks, out_);
    sum.seconds += source_.copy(worker, bucket.gathered);
    for (const auto& part : bucket.parts) sum = then(std::move(sum), source_.collective(part.goal, part.bytes, among, out_));
    return sum;
  }

  /// One batch after the other, from all threads of a loader together: what one of them takes, so many times as often. Of storage or cores that may be more than there is.
  TaskCost batches(const Actor& actor) const {
    const auto samples = static_cast<double>(local_);
    auto made = source_.loader(actor.worker, local_, out_);
    if (loading_.making) made.seconds = *loading_.making * samples;
    const double read = loading_.bytes_per_s > 0 ? samples * loading_.sample_bytes / loading_.bytes_per_s : 0;
    const double alone = made.seconds + read + (read > 0 ? samples * loading_.read_seconds : 0), threads = std::max(1, loading_.threads);
    if (alone <= 0) return {};
    TaskCost cost{alone / threads};
    for (const auto& demand : made.demands) cost.demands.push_back({demand.resource, demand.share * threads * made.seconds / alone});
    if (read > 0) cost.demands.push_back({out_.resource(fmt::format("storage of place {}", place_of(actor.worker))), threads * read / alone * fellows(actor)});
    std::erase_if(cost.demands, [](const Demand& demand) { return demand.share <= 0; });
    return cost;
  }

  /// Who has neither the first layers nor the last, or is given samples by another, takes none from its loader.
  bool reads(const Role& role) const {
    const bool loads = std::any_of(role.tasks.begin(), role.tasks.end(), [](const Task& task) { return task.kind == TaskKind::load; });
    const bool given = std::any_of(role.tasks.begin(), role.tasks.end(), [](const Task& task) { return task.kind == TaskKind::receive && task.cargo == Cargo::inputs; });
    return loads && !given && std::any_of(role.stages.begin(), role.stages.end(), [&](int stage) { return needs_batch(graph_, plan_.stages, stage); });
  }

  int place_of(int worker) const { return loading_.places.empty() ? 0 : loading_.places.at(at(worker)); }

  /// Of those that an actor stands for, how many read from the storage that is told of.
  int fellows(const Actor& actor) const {
    if (actor.count < 2) return 1;
    int count = 0;
    const int first = plan_.roles[at(actor.role)].first;
    for (int worker = first; worker < first + actor.count; ++worker) count += place_of(worker) == place_of(actor.worker);
    return count;
  }

  TaskCost load(const Actor& actor, const Role& role) const {
    const double taking = source_.load(actor.worker, local_);
    if (loading_.threads > 0 || !reads(role)) return {taking};
    auto cost = batches(actor);
    const double made = cost.seconds;
    cost.seconds += taking;
    if (cost.seconds > 0)
      for (auto& demand : cost.demands) demand.share *= made / cost.seconds;
    return cost;
  }

  TaskCost computed(int worker, double seconds) { return {seconds, source_.computing(worker, out_)}; }

  /// Backward runs forward again first.
  double again(int worker, const Task& backward) {
    return again_.contains({backward.stage, backward.micro_batch}) ? known(worker, backward.stage).forward : 0;
  }

  /// Each gradient is copied to its place in a bucket, or added to what is there, as soon as backward has it; but for those that are made there.
  double gathered(int worker, const Role& role, int stage) {
    const auto [place, unknown] = gathered_.try_emplace({worker, stage});
    if (!unknown) return place->second;
    const bool in_place = source_.writes_in_place(worker);
    for (const auto& bucket : role.buckets)
      for (const int parameter : bucket.parameters) {
        const auto& owner = owners_.at(at(parameter));
        if (owner.layer < plan_.stages[at(stage)].first || owner.layer >= plan_.stages[at(stage)].last) continue;
        if (in_place && owner.layer >= first_in_place_ && !summed_[at(owner.layer)] && beside_gradient(graph_, owner.layer, owner.number, micro_)) continue;
        place->second += source_.copy(worker, specs_.at(at(parameter)).elements() * source_.parameter_bytes());
      }
    // Buckets that are filled for each micro-batch do so by turns: what was reduced of one is taken out of its place before another comes there.
    for (int bucket = 0; bucket < static_cast<int>(role.buckets.size()); ++bucket)
      if (const auto& each = role.buckets[at(bucket)]; each.every_pass && each.stage == stage && role.keeps_parts()) place->second += source_.copy(worker, part(each.bytes, parts_of(role, bucket)));
    return place->second;
  }

  /// In how many parts a bucket's parameters are kept: those of whoever gathers them.
  std::int64_t parts_of(const Role& role, int bucket) const {
    for (const auto& task : role.tasks)
      if (task.kind == TaskKind::collective && task.goal == Goal::all_gather && task.cargo == Cargo::parameters && task.bucket == bucket)
        return static_cast<std::int64_t>(members(plan_.mesh, plan_.groups[at(task.group)], role.first).size());
    return 1;
  }

  std::int64_t updated(const Role& role, const Task& task) {
    if (task.bucket != kNone) {
      const auto [place, unknown] = updated_.try_emplace({&role, task.bucket});
      if (unknown) place->second = part(role.buckets[at(task.bucket)].bytes, parts_of(role, task.bucket));
      return place->second;
    }
    std::vector<bool> in_bucket(owners_.size());
    for (const auto& bucket : role.buckets)
      for (const int parameter : bucket.parameters) in_bucket.at(at(parameter)) = true;
    std::int64_t bytes = 0;
    for (const int number : role.stages)
      for (const int parameter : plan_.stages[at(number)].parameters)
        if (!in_bucket.at(at(parameter))) {
          bytes += specs_.at(at(parameter)).elements() * source_.parameter_bytes();
          in_bucket.at(at(parameter)) = true;
        }
    return bytes;
  }

  /// Bytes of all parameters that a worker of a role updates, whether in one task or several.
  std::int64_t held(const Role& role) {
    const auto [place, unknown] = held_.try_emplace(&role);
    if (unknown)
      for (const auto& task : role.tasks)
        if (task.kind == TaskKind::update) place->second += updated(role, task);
    return place->second;
  }

  TaskCost message(const Actor& actor, const Role& role, const Task& task) {
    const auto& other = plan_.roles[at(task.peer)];
    const bool of_layers = task.cargo == Cargo::activations || task.cargo == Cargo::activation_gradients;
    const auto bytes = bytes_of(task);
    const auto with = [&](int peer) {
      const auto from = task.kind == TaskKind::send ? actor.worker : peer, to = task.kind == TaskKind::send ? peer : actor.worker;
      return of_layers ? source_.activation(bytes, from, to, out_) : source_.message(bytes, from, to, out_);
    };
    if (role.count > 1 || other.count == 1) {
      const int peer = peer_of(plan_, actor.worker, task);
      auto cost = peer == kNone ? TaskCost{} : with(peer);
      // Also for the other end, whose task it is one of several messages of.
      if (out_.each_alone && role.count > 1 && other.count == 1)
        for (auto& demand : cost.demands) demand.share *= 2;
      return cost;
    }
    // With each of several, wherever they are: they say what it takes, unless one actor stands for all of them.
    TaskCost sum;
    if (out_.each_alone) return sum;
    std::map<int, TaskCost> by_place;
    for (int peer = other.first; peer < other.first + other.count; ++peer) {
      const auto [place, unknown] = by_place.try_emplace(source_.place(peer));
      if (unknown) place->second = with(peer);
      sum = then(std::move(sum), place->second);
    }
    return sum;
  }

  const LayerCost& known(int worker, int number) {
    const auto [place, unknown] = stages_.try_emplace({worker, number});
    if (unknown) place->second = stage(worker, number);
    return place->second;
  }

  const Plan& plan_;
  const ModelGraph& graph_;
  const CostSource& source_;
  const Loading& loading_;
  const std::string& compression_;
  const std::vector<std::int64_t>& proportions_;
  StepCosts& out_;
  double largest_ = 1, filled_ = 1;  ///< the share of micro-batches that have micro_ samples, and of their places that have a sample
  std::int64_t batch_ = 0, local_ = 0, micro_ = 0;
  std::vector<ParameterOwner> owners_;
  std::vector<bool> summed_;  ///< by layer
  std::vector<ParameterSpec> specs_;
  std::map<std::pair<int, int>, LayerCost> layers_;  ///< by worker and layer
  std::map<std::pair<int, int>, LayerCost> stages_;  ///< by worker and stage
  std::map<std::pair<int, int>, double> gathered_;   ///< s, by worker and stage
  std::map<std::pair<const Role*, int>, std::int64_t> updated_;  ///< bytes, by role and bucket
  std::map<const Role*, std::int64_t> held_;                                    ///< bytes
  std::map<std::pair<const Role*, int>, CompressedBucket> compressed_;  ///< by role and bucket
  int first_in_place_ = 0;  ///< layer from which on the actor's products write gradients to their place
  std::set<std::pair<int, int>> again_;              ///< stages and micro-batches whose forward the actor's backward runs again
};

}  // namespace

NetworkSeconds layer_seconds(const CostSource& source, int worker, const ModelGraph& graph, std::int64_t samples) {
  NetworkSeconds found;
  for (std::size_t layer = 0; layer < graph.layers.size(); ++layer) {
    const auto cost = source.layer(worker, graph, layer, samples);
    found.forward.push_back(cost.forward);
    found.backward.push_back(cost.backward());
  }
  return found;
}

std::vector<std::int16_t> span_workers(const std::vector<Actor>& actors) {
  constexpr int kMost = std::numeric_limits<std::int16_t>::max();
  const bool fit = std::all_of(actors.begin(), actors.end(), [](const Actor& actor) { return actor.worker <= kMost; });
  std::vector<std::int16_t> out;
  for (std::size_t a = 0; a < actors.size(); ++a) out.push_back(static_cast<std::int16_t>(fit ? actors[a].worker : static_cast<int>(std::min<std::size_t>(a, kMost))));
  return out;
}

StepCosts step_costs(const Plan& plan, const ModelGraph& graph, std::int64_t batch, const std::vector<Actor>& actors, const CostSource& source, const Loading& loading,
                     const std::string& compression, const std::vector<std::int64_t>& shares) {
  StepCosts out;
  out.actors = actors;
  out.each_alone = std::all_of(actors.begin(), actors.end(), [](const Actor& actor) { return actor.count < 2; });
  out.jitter = source.jitter(plan.workers());
  Writer writer(plan, graph, batch, source, loading, compression, shares, out);
  for (const auto& actor : actors) writer.write(actor);
  for (const auto& role : plan.roles) out.ready.push_back(writer.ready(role));
  return out;
}

}  // namespace ddl
