#include <string>
#include <utility>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/core/options.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/common.h"
#include "ddl/strategy/own_options.h"
#include "ddl/strategy/tasks.h"

namespace ddl {
namespace {

/// What goes where in one exchange of gossip: to the worker `shift` places on, or to the one whose place differs in bits `flip`.
struct Way {
  int shift = 0;
  int flip = 0;
};

/// Exchanges that follow each other in turn, each of one or two ways.
/// ring:        x_i <- (x_i + x_(i-1) + x_(i+1)) / 3; of two workers (x_0 + x_1) / 2. Source: Lian et al., Can Decentralized Algorithms Outperform
///              Centralized Algorithms?, NeurIPS 2017, algorithm 1.
/// exponential: the t-th exchange is (x_i + x_j) / 2 with j = i xor 2^(t mod ceil(log2 P)), at that distance; who has no such j goes without. Source: Assran et
///              al., Stochastic Gradient Push, ICML 2019, section 3, in the symmetric form. Where P is a power of two, log2 P exchanges in a row give the mean.
std::vector<std::vector<Way>> exchanges(const std::string& topology, int workers) {
  if (topology == "ring") return {workers == 2 ? std::vector<Way>{{1, 0}} : std::vector<Way>{{1, 0}, {-1, 0}}};
  std::vector<std::vector<Way>> turns;
  for (int distance = 1; distance < workers; distance *= 2) turns.push_back({{0, distance}});
  return turns;
}

/// What is averaged, of each bucket, and in which steps. Its members are Task's.
struct Item {
  Cargo cargo = Cargo::parameters;
  int tensor = 0;
  int first_step = 0, every = 1;
  bool at_end = false, by_samples = false;
};

/// Writes what comes after the updates: who averages what with whom, and when.
class Averaging {
 public:
  Averaging(Plan& plan, int every, int post, std::vector<int> updates)
      : role_(plan.roles[0]), every_(every), post_(post), last_(std::move(updates)) {}

  /// What travels: the parameters, and, where they are averaged too, the optimizer's tensors.
  void all(const std::vector<Item>& items) {
    for (auto item : items) {
      item.first_step = post_ + every_ - 1;
      item.every = every_;
      item.at_end = item.by_samples = true;
      mean_of_all(item, "mean of");
    }
  }

  void gossip(const std::vector<Item>& items, const std::vector<std::vector<Way>>& turns) {
    for (std::size_t turn = 0; turn < turns.size(); ++turn)
      for (auto item : items) {
        item.first_step = post_ + every_ * static_cast<int>(turn + 1) - 1;
        item.every = every_ * static_cast<int>(turns.size());
        with_neighbours(item, turns[turn], turns.size() > 1 ? fmt::format("{}, ", turn) : "");
      }
    // One model at the end.
    Item item;
    item.first_step = kNone;
    item.at_end = true;
    mean_of_all(item, "final mean of");
  }

 private:
  std::string what(const Item& item, int bucket) const {
    return item.cargo == Cargo::parameters ? fmt::format("parameters {}", bucket) : fmt::format("state {} of {}", item.tensor, bucket);
  }

  int add(const Item& item, int bucket, Task task, std::vector<int> after) {
    task.cargo = item.cargo;
    task.tensor = item.tensor;
    task.first_step = item.first_step;
    task.every = item.every;
    task.at_end = item.at_end;
    task.by_samples = item.by_samples;
    task.bucket = bucket;
    task.after = std::move(after);
    return ddl::add(role_, std::move(task));
  }

  static Task average(std::string label) {
    Task task;
    task.kind = TaskKind::average;
    task.label = std::move(label);
    return task;
  }

  Task message(TaskKind kind, int bucket, const Way& way, std::string label) const {
    Task task;
    task.kind = kind;
    task.stream = Stream::communication;
    task.label = std::move(label);
    task.bytes = role_.buckets[static_cast<std::size_t>(bucket)].bytes;
    task.peer = 0;
    task.shift = kind == TaskKind::send ? way.shift : -way.shift;
    task.flip = way.flip;
    return task;
  }

  // A bucket's memory is used by one thing after the other: each is after the last.
  void mean_of_all(const Item& item, const std::string& label) {
    std::vector<int> means;
    for (int b = 0; b < static_cast<int>(last_.size()); ++b)
      means.push_back(add(item, b, collective(Goal::all_reduce, item.cargo, 0, role_, b, fmt::format("{} {}", label, what(item, b))), {last_[static_cast<std::size_t>(b)]}));
    for (int b = 0; b < static_cast<int>(last_.size()); ++b)
      last_[static_cast<std::size_t>(b)] = add(item, b, average(fmt::format("take {} {}", label, what(item, b))), {means[static_cast<std::size_t>(b)]});
  }

  void with_neighbours(const Item& item, const std::vector<Way>& ways, const std::string& turn) {
    std::vector<std::vector<int>> moves(last_.size());
    for (int b = 0; b < static_cast<int>(last_.size()); ++b)
      for (const auto& way : ways) {
        auto& own = moves[static_cast<std::size_t>(b)];
        const int last = last_[static_cast<std::size_t>(b)];
        const auto to = way.flip != 0 ? fmt::format("flip {}", way.flip) : fmt::format("{:+}", way.shift);
        own.push_back(add(item, b, message(TaskKind::send, b, way, fmt::format("send {} {}{}", what(item, b), turn, to)), {last}));
        own.push_back(add(item, b, message(TaskKind::receive, b, way, fmt::format("receive {} {}{}", what(item, b), turn, to)), {last}));
        // Where it comes to lie; kept, since each way's channel writes to one place.
        role_.holds.buckets += role_.buckets[static_cast<std::size_t>(b)].bytes;
      }
    for (int b = 0; b < static_cast<int>(last_.size()); ++b)
      last_[static_cast<std::size_t>(b)] = add(item, b, average(fmt::format("average {}{}", what(item, b), turn.empty() ? "" : fmt::format(" {}", turn.substr(0, turn.size() - 2)))), moves[static_cast<std::size_t>(b)]);
  }

  Role& role_;
  int every_, post_;
  std::vector<int> last_;  ///< by bucket: the task that had its memory last
};

}  // namespace

/// Each worker trains alone on its part of the batch, with the gradient of the mean over its own samples; parameters are averaged after every `every` steps and after
/// the last. In the mean of all a worker counts by its samples since the last averaging, as clients do in FedAvg; with its neighbours (gossip) all count alike, as
/// the mean of all that gossip keeps must have it.
/// Options: every=8; post=N: synchronous data parallelism before step N; average=all|gossip; topology=ring|exponential (of gossip); momentum=local|average: whether what the
///          optimizer keeps is averaged too; bucket=25MiB, first-bucket=1MiB, collective=…: as of data.
/// Disagreement: 0 right after an averaging over all. Before the next a worker is at most 2 every eta G from the mean, where no step is longer than the learning rate
///          eta times G (Stich, lemma 3.3).
/// A vote to stop travels where workers meet: a run stops with the averaging after it, of gossip after as many as reach all.
/// Source:  McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017, algorithm 1; Stich, Local SGD Converges Fast and
///          Communicates Little, ICLR 2019, algorithm 1; post: Lin et al., Don't Use Large Mini-Batches, Use Local SGD, ICLR 2020, algorithm 2.
Plan local_sgd(const StrategyInput& input) {
  require_own_options(input.spec, {"every", "post", "average", "topology", "momentum", "bucket", "first-bucket", "collective"});
  const int every = whole_option(input.spec, "every", 8, 1), post = whole_option(input.spec, "post", 0, 0);
  const bool gossip = word_option(input.spec, "average", {"all", "gossip"}) == "gossip";
  const auto topology = word_option(input.spec, "topology", {"ring", "exponential"});
  if (!gossip && input.spec.options.contains("topology"))
    throw Error(Code::invalid_argument, fmt::format("[local] topology is that of gossip; got topology={} with average=all, expected average=gossip", topology));
  const bool whole_state = word_option(input.spec, "momentum", {"local", "average"}) == "average";
  if (input.workers == 1) return alone(input);

  auto plan = replicas(input);
  plan.groups = {{"data", {{0}}}};
  plan.local_from = post;
  auto& role = plan.roles[0];
  role.buckets = network_buckets(input);
  const auto count = static_cast<int>(role.buckets.size());
  const auto backward = static_cast<int>(role.tasks.size()) - 1;
  for (int b = 0; b < count; ++b) {
    // Parameters travel in the same memory, whether gradients do or not.
    auto reduce = reduction(role, b);
    if (post == 0) continue;
    reduce.waits_for = b;
    reduce.until_step = post;
    add(role, std::move(reduce));
  }
  auto updates = append_updates(input, role, backward, post > 0 ? backward + 1 : kNone);

  std::vector<Item> items{{Cargo::parameters}};
  for (int tensor = 0; tensor < input.optimizer_tensors && whole_state; ++tensor) items.push_back({Cargo::state, tensor});
  Averaging averaging(plan, every, post, std::move(updates));
  if (gossip) {
    const auto turns = exchanges(topology, input.workers);
    averaging.gossip(items, turns);
    // Around the ring the farther way is half of it. Over bits: those that must go are cleared within one round of turns, those that must come are set within the next.
    plan.hops = topology == "ring" ? input.workers / 2 : 2 * static_cast<int>(turns.size());
  } else {
    averaging.all(items);
  }
  // A worker's own gradients are gathered in the memory that parameters travel in.
  role.holds = in_buckets(input, role.holds);
  number_meetings(plan);
  return plan;
}

}  // namespace ddl
