#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/core/numbers.h"
#include "ddl/core/options.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/common.h"
#include "ddl/strategy/own_options.h"
#include "ddl/strategy/pass_memory.h"
#include "ddl/strategy/sharded.h"
#include "ddl/strategy/sharded_units.h"
#include "ddl/strategy/stages.h"
#include "ddl/strategy/tasks.h"

namespace ddl {
namespace {

struct Options {
  int level = 3;
  bool overlap = true;
  std::int64_t bucket = kBucketCap;
  std::optional<UnitSize> unit;
  int prefetch = 1;
  bool reshard = true;
  bool recompute = false;
};

Options parse(const StrategyInput& input) {
  const auto& spec = input.spec;
  Options options;
  options.level = whole_option(spec, "level", options.level, 1, 3);
  const auto belongs = [&](const char* key, bool fits, const char* levels) {
    if (const auto found = spec.options.find(key); found != spec.options.end() && !fits)
      throw Error(Code::invalid_argument, fmt::format("[{}] {} is an option of {}; got {}={} with level={}{}, expected {}, or no {}", spec.name, key, levels, key, found->second, options.level,
                                                      spec.options.count("level") > 0 ? "" : " (unless told)", levels, key));
  };
  for (const auto* key : {"bucket", "overlap"}) belongs(key, options.level < 3, "level=1 or level=2");
  for (const auto* key : {"unit", "prefetch", "reshard"}) belongs(key, options.level == 3, "level=3");
  options.overlap = switch_option(spec, "overlap", options.overlap);
  options.bucket = size_option(spec, "bucket", options.bucket);
  if (const auto found = spec.options.find("unit"); found != spec.options.end()) {
    const bool number = found->second.find_first_not_of("0123456789") == std::string::npos;
    options.unit = number ? UnitSize{0, whole_option(spec, "unit", 1, 1, 1 << 20)} : UnitSize{size_option(spec, "unit", 0), 0};
  }
  options.prefetch = whole_option(spec, "prefetch", options.prefetch, 0, 64);
  options.reshard = switch_option(spec, "reshard", options.reshard);
  options.recompute = switch_option(spec, "recompute", input.recompute);
  return options;
}

/// Writes the tasks of the one role that all workers are in.
class Writer {
 public:
  Writer(const StrategyInput& input, const Options& options, int shards) : input_(input), options_(options), shards_(shards), bytes_(parameter_bytes(input)) {}

  Plan write() && {
    plan_ = replicas(input_);
    plan_.groups = {{"data", {{0}}}};
    if (shards_ < input_.workers) {
      plan_.mesh.axes = {{"data", input_.workers / shards_}, {"sharded", shards_}};
      plan_.groups = {{"everyone", {{0}, {1}}}, {"shards", {{1}}}, {"replicas", {{0}}}};
      of_parts_ = 1;
      of_replicas_ = 2;
    }
    role_ = &plan_.roles[0];
    auto once = input_;
    once.recompute = input_.recompute && options_.level < 3;  // units are run again one by one
    role_->holds = in_buckets(once, role_->holds);
    options_.level == 3 ? write_units() : write_whole();
    number_meetings(plan_);
    return std::move(plan_);
  }

 private:
  int count() const { return static_cast<int>(role_->tasks.size()); }
  int add(Task task) { return ddl::add(*role_, std::move(task)); }

  Task among_parts(Goal goal, Cargo cargo, int bucket, std::string label) const { return collective(goal, cargo, of_parts_, *role_, bucket, std::move(label)); }

  std::int64_t part(std::int64_t bytes) const { return longest_part(input_, bytes, shards_); }
  std::int64_t parts() const {
    std::int64_t sum = 0;
    for (const auto& bucket : role_->buckets) sum += part(bucket.bytes);
    return sum;
  }

  void reduce_scatter(int bucket, int micro_batch, std::string label) {
    auto task = among_parts(Goal::reduce_scatter, Cargo::gradients, bucket, std::move(label));
    task.micro_batch = micro_batch;
    task.stage = std::max(0, role_->buckets[at(bucket)].stage);
    task.waits_for = bucket;
    scatters_.resize(role_->buckets.size());
    scatters_[at(bucket)].push_back(add(std::move(task)));
  }

  /// Two slots, in turn: one bucket is filled while the one before is reduced.
  std::int64_t slots(const std::vector<std::int64_t>& in_turn, int count) const {
    std::vector<std::int64_t> size(at(count));
    for (std::size_t i = 0; i < in_turn.size(); ++i) size[i % size.size()] = std::max(size[i % size.size()], in_turn[i]);
    return std::accumulate(size.begin(), size.end(), std::int64_t{0});
  }

  /// A bucket of what several parts of the network use, reduced once a step. `stage`: whose last backward completes it; kNone: the step's end does.
  void add_tied(std::vector<int> parameters, int stage) {
    tied_ = static_cast<int>(role_->buckets.size());
    Bucket bucket{std::move(parameters), 0, stage};
    for (const int parameter : bucket.parameters) bucket.bytes += bytes_[at(parameter)];
    role_->buckets.push_back(std::move(bucket));
  }

  void write_whole() {
    const bool each = options_.level == 2;
    auto order = gradient_order(input_);
    // What several blocks use: its gradient is in the making from the first of them on to the last, and would keep a slot from all others meanwhile.
    std::vector<int> tied;
    if (each) {
      const auto shared = shared_parameters(make_stages(input_.graph, network_blocks(input_.graph)));
      const auto own = std::stable_partition(order.begin(), order.end(), [&](int parameter) { return !shared.contains(parameter); });
      tied.assign(own, order.end());
      order.erase(own, order.end());
    }
    role_->buckets = assign_buckets(bytes_, order, std::min(options_.bucket, std::int64_t{1} << 20), options_.bucket);
    for (auto& bucket : role_->buckets) bucket.every_pass = each;
    if (!tied.empty()) add_tied(std::move(tied), 0);
    std::vector<int> backward;  // by micro-batch
    for (int t = 0; t < count(); ++t)
      if (role_->tasks[at(t)].kind == TaskKind::backward) backward.push_back(t);
    const int buckets = static_cast<int>(role_->buckets.size());
    for (int micro = each ? 0 : input_.micro_batches - 1; micro < input_.micro_batches; ++micro)
      for (int b = 0; b < buckets; ++b) {
        const bool often = role_->buckets[at(b)].every_pass;
        if (!often && micro + 1 < input_.micro_batches) continue;
        reduce_scatter(b, often ? micro : 0, often && input_.micro_batches > 1 ? fmt::format("reduce-scatter {} {}", b, micro) : fmt::format("reduce-scatter {}", b));
        if (!options_.overlap) role_->tasks.back().after = {backward[at(micro)]};
      }
    write_updates(backward.back());
    for (int b = 0; b < buckets; ++b) {
      auto gather = among_parts(Goal::all_gather, Cargo::parameters, b, fmt::format("all-gather {}", b));
      gather.after = {updates_[at(b)]};
      add(std::move(gather));
    }
    auto& holds = role_->holds;
    std::vector<std::int64_t> in_turn;
    std::int64_t own = 0;
    for (const auto& bucket : role_->buckets)
      if (bucket.every_pass) {
        in_turn.push_back(bucket.bytes);
        holds.gradients += part(bucket.bytes);
      } else {
        own += bucket.bytes;
      }
    holds.buckets = own + slots(in_turn, 2);
    holds.optimizer = parts() * input_.optimizer_tensors;
  }

  /// A unit's parameters from the first task that reads them to the last.
  struct Stay {
    int unit, first, last;
  };
  struct Pass {
    int unit, micro_batch;
    bool forward;
  };

  std::vector<Pass> passes() const {
    std::vector<Pass> all;
    const int units = static_cast<int>(plan_.stages.size());
    for (int micro = 0; micro < input_.micro_batches; ++micro) {
      for (int unit = 0; unit < units; ++unit) all.push_back({unit, micro, true});
      for (int unit = units; unit-- > 0;) all.push_back({unit, micro, false});
    }
    return all;
  }

  /// In the order in which they begin, which is that in which they end. The last unit stays for its own backward, and the first for the next
  /// micro-batch's forward.
  std::vector<Stay> stays(const std::vector<Pass>& passes) const {
    std::vector<Stay> all;
    for (int p = 0; p < static_cast<int>(passes.size()); ++p) {
      const int unit = passes[at(p)].unit;
      if (bucket_of_unit_[at(unit)] == kNone) continue;
      const auto same = options_.reshard ? (all.empty() || all.back().unit != unit ? all.end() : std::prev(all.end()))
                                         : std::find_if(all.begin(), all.end(), [&](const Stay& stay) { return stay.unit == unit; });
      if (same == all.end())
        all.push_back({unit, p, p});
      else
        same->last = p;
    }
    return all;
  }

  void cut() {
    auto untied = bytes_;
    const auto all = std::accumulate(bytes_.begin(), bytes_.end(), std::int64_t{0});
    const auto blocks = network_blocks(input_.graph);
    for (const auto& [parameter, users] : shared_parameters(make_stages(input_.graph, blocks))) untied[at(parameter)] = 0;
    const auto cuts = cut_units(input_.graph, untied, options_.unit.value_or(UnitSize{usual_unit_bytes(all), 0}));
    plan_.stages = make_stages(input_.graph, cuts);
    role_->stages = first_numbers(static_cast<int>(plan_.stages.size()));
    const auto shared = shared_parameters(plan_.stages);
    for (int unit = 0; unit < static_cast<int>(plan_.stages.size()); ++unit) {
      Bucket bucket{{}, 0, unit};
      bucket.every_pass = true;
      for (const int parameter : plan_.stages[at(unit)].parameters)
        if (!shared.contains(parameter)) bucket.parameters.push_back(parameter);
      bucket_of_unit_.push_back(bucket.parameters.empty() ? kNone : static_cast<int>(role_->buckets.size()));
      if (!bucket.parameters.empty()) role_->buckets.push_back(std::move(bucket));
    }
    for (auto& bucket : role_->buckets)
      for (const int parameter : bucket.parameters) bucket.bytes += bytes_[at(parameter)];
    std::vector<int> tied;
    for (const auto& [parameter, users] : shared) tied.push_back(parameter);
    if (!tied.empty()) add_tied(std::move(tied), kNone);
  }

  bool reads_tied(int unit) const {
    if (tied_ == kNone) return false;
    const auto& tied = role_->buckets[at(tied_)].parameters;
    const auto& all = plan_.stages[at(unit)].parameters;
    return std::any_of(tied.begin(), tied.end(), [&](int parameter) { return std::binary_search(all.begin(), all.end(), parameter); });
  }

  Task computation(const Pass& pass) const {
    const bool several = input_.micro_batches > 1;
    const double samples = static_cast<double>(local_batch(input_, input_.workers)) / input_.micro_batches;
    Task task;
    task.kind = pass.forward ? TaskKind::forward : TaskKind::backward;
    task.stage = pass.unit;
    task.micro_batch = pass.micro_batch;
    task.label = fmt::format("{} {}{}", name(task.kind), pass.unit, several ? fmt::format(" {}", pass.micro_batch) : "");
    // One stage alone is run again in the segments that the executor finds in it.
    task.recompute = options_.recompute && plan_.stages.size() > 1;
    const double once = static_cast<double>(flops_of(input_.graph, plan_.stages[at(pass.unit)])) * samples;
    // One product for the gradient of the input, one for that of the weights.
    task.flops = pass.forward ? once : once * (task.recompute ? 3 : 2);
    return task;
  }

  void write_units() {
    cut();
    role_->tasks.resize(1);  // the load
    const auto order = passes();
    const auto all = stays(order);
    const std::size_t allowed = options_.reshard ? at(options_.prefetch) + 1 : all.size();
    std::size_t together = 0;
    std::vector<int> gathers;         // tasks, by stay
    std::vector<int> drops;           // so far
    std::vector<bool> there(plan_.stages.size());
    // As many as are allowed; a unit that is still there is gathered again once it was dropped: there is one of each.
    const auto gather = [&] {
      for (auto number = gathers.size(); number < all.size() && number < drops.size() + allowed && !there[at(all[number].unit)]; ++number) {
        auto task = among_parts(Goal::all_gather, Cargo::parameters, bucket_of_unit_[at(all[number].unit)], fmt::format("all-gather {} ({})", all[number].unit, number));
        task.stage = all[number].unit;
        if (!drops.empty()) task.after = {drops.back()};
        gathers.push_back(add(std::move(task)));
        there[at(all[number].unit)] = true;
        together = std::max(together, gathers.size() - drops.size());
      }
    };
    int tied_gather = kNone, last = 0, tied_last = kNone;
    if (tied_ != kNone) tied_gather = add(among_parts(Goal::all_gather, Cargo::parameters, tied_, "all-gather tied"));
    gather();
    std::size_t stay = 0;  // the next that begins
    for (int p = 0; p < static_cast<int>(order.size()); ++p) {
      const auto& pass = order[at(p)];
      auto task = computation(pass);
      task.after = {last};
      if (stay < all.size() && all[stay].first == p) task.after.push_back(gathers[stay++]);
      if (reads_tied(pass.unit)) task.after.push_back(tied_gather);
      last = add(std::move(task));
      if (reads_tied(pass.unit)) tied_last = last;
      for (std::size_t s = 0; s < all.size(); ++s) {
        if (all[s].last != p) continue;
        // What is next wanted is gathered before what was just found is reduced.
        drops.push_back(release(bucket_of_unit_[at(pass.unit)], fmt::format("release {} ({})", pass.unit, s), last));
        there[at(pass.unit)] = false;
        gather();
      }
      const int bucket = bucket_of_unit_[at(pass.unit)];
      if (!pass.forward && bucket != kNone)
        reduce_scatter(bucket, pass.micro_batch, fmt::format("reduce-scatter {}{}", pass.unit, input_.micro_batches > 1 ? fmt::format(" {}", pass.micro_batch) : ""));
    }
    if (tied_ != kNone) {
      release(tied_, "release tied", tied_last);
      reduce_scatter(tied_, 0, "reduce-scatter tied");
    }
    write_updates(last);
    hold(all, static_cast<int>(together));
  }

  int release(int bucket, std::string label, int after) {
    Task task;
    task.kind = TaskKind::release;
    task.label = std::move(label);
    task.bucket = bucket;
    task.stage = std::max(0, role_->buckets[at(bucket)].stage);
    task.after = {after};
    return add(std::move(task));
  }

  void hold(const std::vector<Stay>& stays, int together) {
    auto& holds = role_->holds;
    std::vector<std::int64_t> gathered, reduced;
    for (const auto& stay : stays) gathered.push_back(role_->buckets[at(bucket_of_unit_[at(stay.unit)])].bytes);
    for (const auto& bucket : role_->buckets)
      if (bucket.every_pass) reduced.push_back(bucket.bytes);
    const auto tied = tied_ == kNone ? 0 : role_->buckets[at(tied_)].bytes;
    const auto own = parts();
    holds.parameters = own + (gathered.empty() ? 0 : slots(gathered, together)) + tied + input_.graph.frozen_parameters() * input_.element_bytes;
    holds.gradients += own - part(tied);
    holds.buckets = slots(reduced, 2) + tied;
    holds.optimizer = own * input_.optimizer_tensors;
    if (options_.recompute) hold_recomputed();
  }

  /// Of units that are run again in backward, one by one. Their gradients go to slots.
  void hold_recomputed() {
    const auto samples = (local_batch(input_, input_.workers) + input_.micro_batches - 1) / input_.micro_batches;
    const auto all = first_numbers(static_cast<int>(bytes_.size()));
    role_->holds.activations = NetworkMemory(input_).passes_in_segments(plan_.stages, samples, {all.begin(), all.end()}).later_peak;
  }

  /// Parts are summed over replicas once all that is reduced into them is there, in the order in which that comes.
  void sum_over_replicas() {
    std::vector<int> order(scatters_.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int a, int b) { return scatters_[at(a)].back() < scatters_[at(b)].back(); });
    for (const int bucket : order) {
      auto reduce = collective(Goal::all_reduce, Cargo::gradients, of_replicas_, *role_, bucket, fmt::format("all-reduce {}", bucket));
      reduce.bytes = part(reduce.bytes);
      reduce.after = scatters_[at(bucket)];
      scatters_[at(bucket)] = {add(std::move(reduce))};
    }
  }

  /// What everybody must know of everybody, then each its own parts.
  void write_updates(int last_backward) {
    if (of_replicas_ != kNone) sum_over_replicas();
    std::vector<int> all;
    for (const auto& each : scatters_) all.insert(all.end(), each.begin(), each.end());
    std::sort(all.begin(), all.end());
    int judged = add(control(input_, last_backward, all));
    if (input_.parameter_norms) {
      auto norms = collective(Goal::all_reduce, Cargo::norms, of_parts_, "norms");
      norms.bytes = static_cast<std::int64_t>(2 * bytes_.size() * sizeof(double));
      norms.after = all;
      norms.after.insert(norms.after.begin(), {last_backward, judged});
      judged = add(std::move(norms));
    }
    for (int b = 0; b < static_cast<int>(role_->buckets.size()); ++b) {
      std::vector<int> after{last_backward};
      after.insert(after.end(), scatters_[at(b)].begin(), scatters_[at(b)].end());
      if (input_.whole_gradient || input_.parameter_norms) after.push_back(judged);
      updates_.push_back(add(update(b, std::move(after))));
    }
  }

  const StrategyInput& input_;
  const Options& options_;
  int shards_;                             ///< workers that have parts of one and the same
  int of_parts_ = 0;                       ///< their group
  int of_replicas_ = kNone;                ///< group of those who have the same part of different ones
  std::vector<std::int64_t> bytes_;        ///< by parameter
  Plan plan_;
  Role* role_ = nullptr;
  std::vector<std::vector<int>> scatters_; ///< tasks, by bucket
  std::vector<int> updates_;               ///< tasks, by bucket
  std::vector<int> bucket_of_unit_;
  int tied_ = kNone;                       ///< bucket
};

}  // namespace

/// Every worker has a part of the batch, as with `data`, and keeps its own part of what a parameter needs: of the optimizer's state (level=1), of its
/// gradients too (2), of the parameters themselves too (3). Buckets are flat; worker r's part of each is part_of(elements, P, r).
///
/// Level 1 reduce-scatters whole gradients, once a step, and all-gathers what was updated: 2(P-1)/P of the parameters' bytes, as one all-reduce
/// moves; an all-reduce before the gather would move 3(P-1)/P. Level 2 moves as much for each micro-batch's gradients, since it keeps
/// none of others': two slots of memory serve all buckets in turn, but for what several blocks use (tied words), reduced once into memory of its own. Level 3 has units of layers, whose parameters are gathered before they are used,
/// forward and again backward, `prefetch` units ahead (a unit that is still there from forward is not gathered before it was dropped), and dropped after (reshard=off: kept from their first forward to the step's last
/// backward). What layers of several units use (tied words) is gathered for the whole step, its gradient reduced once.
///
/// Options: level=3; bucket=25MiB, overlap=on|off (levels 1, 2); unit=BLOCKS or unit=8MiB (a sixteenth of the parameters, 1 MiB at least),
/// prefetch=1, reshard=on|off, recompute=on|off (level 3).
/// Errors:  invalid_argument for options that do not go together, with those that would.
/// Source:  Rajbhandari et al., ZeRO, SC20; Zhao et al., PyTorch FSDP, VLDB 2023.
Plan sharded(const StrategyInput& input) {
  require_own_options(input.spec, {"level", "overlap", "bucket", "unit", "prefetch", "reshard", "recompute", "collective"});
  return sharded_plan(input, input.workers);
}

Plan sharded_plan(const StrategyInput& input, int shards) {
  const auto options = parse(input);
  if (input.graph.parameter_specs().empty())
    throw Error(Code::invalid_argument, fmt::format("[{}] parameters are what is kept in parts; got {}, which has none, expected strategy data", input.spec.name, input.graph.name));
  // Nobody to share with: what is left is one worker's step.
  if (input.workers == 1) return alone(input);
  return Writer(input, options, shards).write();
}

}  // namespace ddl
