#include <algorithm>
#include <numeric>

#include "ddl/core/error.h"
#include "ddl/core/options.h"
#include "ddl/core/text.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/common.h"
#include "ddl/strategy/own_options.h"
#include "ddl/strategy/tasks.h"

namespace ddl {
namespace {

/// Parameters over servers by bytes, none split: the largest first, each to the server that has least (Graham's rule: at most 4/3 of the best balance). Within a server in
/// the order in which backward gives gradients, if it goes from the last to the first.
std::vector<Bucket> shards(const StrategyInput& input, int servers) {
  const auto bytes = parameter_bytes(input);
  std::vector<int> order(bytes.size());
  std::iota(order.rbegin(), order.rend(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return bytes[static_cast<std::size_t>(a)] > bytes[static_cast<std::size_t>(b)]; });
  std::vector<Bucket> all(static_cast<std::size_t>(servers));
  for (const int parameter : order) {
    auto& least = *std::min_element(all.begin(), all.end(), [](const Bucket& a, const Bucket& b) { return a.bytes < b.bytes; });
    least.parameters.push_back(parameter);
    least.bytes += bytes[static_cast<std::size_t>(parameter)];
  }
  for (auto& each : all) std::sort(each.parameters.rbegin(), each.parameters.rend());
  return all;
}

/// Of a sum that a server has at once: enough for as many parts (train/parameter_server.cpp) as there are workers who add to one each, and small beside a cache of the third level.
constexpr std::int64_t kWindow = std::int64_t{2} << 20;

Task transfer(TaskKind kind, Stream stream, Cargo cargo, int bucket, int peer, std::int64_t bytes, std::string label) {
  Task task;
  task.kind = kind;
  task.stream = stream;
  task.cargo = cargo;
  task.bucket = bucket;
  task.peer = peer;
  task.bytes = bytes;
  task.label = std::move(label);
  return task;
}

/// Pushes each gradient shard as backward completes it, pulls what became of the parameters.
void write_worker(const StrategyInput& input, Role& role) {
  role.tasks = compute_tasks(input);
  const auto backward = static_cast<int>(role.tasks.size()) - 1;
  std::vector<int> pulls;
  for (int s = 0; s < static_cast<int>(role.buckets.size()); ++s) {
    auto push = transfer(TaskKind::send, Stream::communication, Cargo::gradients, s, s, role.buckets[static_cast<std::size_t>(s)].bytes, fmt::format("push {}", s));
    push.waits_for = s;
    auto pull = transfer(TaskKind::receive, Stream::communication, Cargo::parameters, s, s, push.bytes, fmt::format("pull {}", s));
    pull.after = {add(role, push), backward};
    pulls.push_back(add(role, pull));
  }
  for (int s = 0; s < static_cast<int>(role.buckets.size()); ++s) {
    Task take;
    take.kind = TaskKind::average;
    take.cargo = Cargo::parameters;
    take.bucket = s;
    take.label = fmt::format("take {}", s);
    take.after = {pulls[static_cast<std::size_t>(s)]};
    add(role, take);
  }
}

/// What the server in role `server` does of a step: events, in whatever order they come.
void write_server(Plan& plan, int server) {
  auto& role = plan.roles[static_cast<std::size_t>(server)];
  const auto bytes = role.buckets[static_cast<std::size_t>(server)].bytes;
  Task update;
  update.kind = TaskKind::update;
  update.stream = Stream::server;
  update.bucket = server;
  update.label = "serve: update";
  for (int r = 0; r < static_cast<int>(plan.roles.size()); ++r)
    update.after.push_back(add(role, transfer(TaskKind::receive, Stream::server, Cargo::gradients, server, r, bytes, fmt::format("serve: gradients of {}", plan.roles[static_cast<std::size_t>(r)].name))));
  const int updated = add(role, update);
  for (int r = 0; r < static_cast<int>(plan.roles.size()); ++r) {
    auto answer = transfer(TaskKind::send, Stream::server, Cargo::parameters, server, r, bytes, fmt::format("serve: parameters to {}", plan.roles[static_cast<std::size_t>(r)].name));
    answer.after = {updated};
    add(role, answer);
  }
}

/// Of when gradients are applied.
void require_one_rule(const Spec& spec, bool bounded, bool async) {
  std::vector<std::string> told;
  if (switch_option(spec, "sync", false)) told.emplace_back("sync");
  if (async) told.emplace_back("async");
  if (bounded) told.emplace_back(fmt::format("stale={}", spec.options.at("stale")));
  if (told.size() > 1)
    throw Error(Code::invalid_argument, fmt::format("[parameter-server] gradients are applied by one rule; got {}, expected one of them: sync, async, or stale=STEPS, which is async with a bound",
                                                    join(told, " and ")));
  if (told.empty() && spec.options.contains("sync"))
    throw Error(Code::invalid_argument, "[parameter-server] sync=off does not say what else; got neither async nor stale, expected one of them, or no sync=off");
}

}  // namespace

/// Parameters live with servers, threads in the processes of workers 0 to servers - 1, divided by bytes. Every worker has the whole network and a part of the batch, pushes its gradients
/// to all servers and pulls their parameters.
/// Options: sync (if nothing else is said): gradients of a step are added in the order of workers and applied once, to the gradient of the global batch; async: each is applied as it
///          comes; stale=S: as async, and a worker waits until the slowest is at most S steps behind it. In both a gradient is that of the mean over the worker's own samples.
///          servers=1: how many.
/// A message between a worker and a server is one between a role of many and a role of one: the one has a message with each of the many.
/// Errors:  unsupported where an update depends on the whole gradient (clipping, fp16), which no server has.
/// Source:  Dean et al., Large Scale Distributed Deep Networks, NIPS 2012; Li et al., Scaling Distributed Machine Learning with the Parameter Server, OSDI 2014;
///          stale: Ho et al., More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server, NIPS 2013.
Plan parameter_server(const StrategyInput& input) {
  require_own_options(input.spec, {"sync", "async", "stale", "servers"}, {{"collective", {"workers and servers exchange messages, and no collective", "no collective, or strategy data"}}});
  const int servers = whole_option(input.spec, "servers", 1, 1);
  const bool bounded = input.spec.options.contains("stale"), async = switch_option(input.spec, "async", false);
  require_one_rule(input.spec, bounded, async);
  const int stale = whole_option(input.spec, "stale", kNone, 0);
  const auto most = std::min<std::size_t>(static_cast<std::size_t>(input.workers), input.graph.parameter_specs().size());
  if (static_cast<std::size_t>(servers) > most)
    throw Error(Code::invalid_argument, fmt::format("[parameter-server] a server lives with a worker and has parameters; got {} servers, {} workers and {} parameters, expected at most {}", servers,
                                                    input.workers, input.graph.parameter_specs().size(), most));
  if (input.whole_gradient)
    throw Error(Code::unsupported, fmt::format("[parameter-server] unsupported: clipping and fp16 depend on the whole gradient, of which a server has a part; got {}, expected clip 0 and fp32, bf16 or "
                                               "tf32, or strategy data", input.whole_gradient_word));
  if (input.workers == 1) return alone(input);

  auto plan = replicas(input);
  plan.serving = {servers, !async && !bounded, stale};
  // Norms of whole parameters want whole sums.
  if (!input.parameter_norms) plan.serving.window = kWindow;
  auto whole = plan.roles[0];
  whole.holds = in_buckets(input, whole.holds);
  const auto buckets = shards(input, servers);
  plan.roles.clear();
  for (int r = 0; r <= servers; ++r) {
    const bool serves = r < servers;
    if (!serves && input.workers == servers) break;
    Role role{serves ? fmt::format("server {}", r) : "worker", r, serves ? 1 : input.workers - servers, {}, whole.holds, whole.stages, buckets};
    write_worker(input, role);
    role.holds.optimizer = 0;
    for (const auto& each : buckets) role.holds.buckets += each.bytes;
    if (serves) {
      const auto own = buckets[static_cast<std::size_t>(r)].bytes;
      role.holds.parameters += own;
      role.holds.optimizer = own * input.optimizer_tensors;
      if (plan.serving.sums) role.holds.buckets += plan.serving.window > 0 ? std::min(own, plan.serving.window) : own;
    }
    plan.roles.push_back(std::move(role));
  }
  for (int s = 0; s < servers; ++s) write_server(plan, s);
  number_meetings(plan);
  return plan;
}

}  // namespace ddl
