// MLCommons' Chakra execution traces: a file per rank of length-delimited messages, GlobalMetadata and then nodes, by schema/protobuf/et_def.proto of 2025 (field numbers below).
// Attributes are those that its feeder reads (src/feeder/et_feeder_node.cpp). tests/trace_formats_test.py reads the files back with MLCommons' own package. docs/traces.md says what becomes of what.
#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <protozero/pbf_writer.hpp>
#include <protozero/varint.hpp>

#include "ddl/core/error.h"
#include "ddl/report/export.h"
#include "ddl/report/run_view.h"
#include "ddl/report/trace_view.h"

namespace ddl {
namespace {

namespace metadata { constexpr protozero::pbf_tag_type kVersion = 1, kAttribute = 2; }
namespace node { constexpr protozero::pbf_tag_type kId = 1, kName = 2, kType = 3, kDataDependencies = 5, kStart = 6, kDuration = 7, kAttribute = 10; }
namespace attribute { constexpr protozero::pbf_tag_type kName = 1, kInt32 = 7, kInt64 = 9, kUint64 = 13, kBool = 27, kString = 29; }

enum NodeType : std::int32_t { kLoad = 2, kCompute = 4, kSend = 5, kReceive = 6, kCollective = 7 };

/// CollectiveCommType. What has no counterpart there (point-to-point) is a send or a receive.
std::optional<int> collective_type(const std::string& goal) {
  static const std::map<std::string, int> known{{"all-reduce", 0}, {"reduce", 1}, {"all-gather", 2}, {"gather", 3}, {"scatter", 4}, {"broadcast", 5}, {"all-to-all", 6}, {"reduce-scatter", 7}, {"barrier", 9}};
  const auto found = known.find(goal);
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

struct Node {
  std::string name;
  NodeType type = kCompute;
  std::vector<std::uint64_t> after;
  Period when;
  int task = -1;
  const TracedSpan* of = nullptr;
};

/// The nodes of one rank in one step. Computation is cut where something was sent or begun beside it, so that what began within it depends on the part before.
class RankNodes {
 public:
  RankNodes(const TraceView& view, int step, int rank) {
    for (const auto& each : view.spans) {
      if (each.span.step != step || each.span.worker != rank || each.span.task < 0) continue;
      if (each.span.stream == Stream::communication) messages_.push_back(&each);
      else if (each.span.stream == Stream::compute && (computes(each.span.cause) || each.task.kind == "load")) computed_.push_back(&each);
    }
    const auto by_begin = [](const TracedSpan* a, const TracedSpan* b) { return a->span.begin < b->span.begin; };
    std::sort(messages_.begin(), messages_.end(), by_begin);
    std::sort(computed_.begin(), computed_.end(), by_begin);
    for (const auto* span : computed_) add_computation(*span);
    for (const auto* span : messages_) add_message(*span);
    // What computation waits for came after it in this list.
    for (auto& each : nodes_)
      for (const int task : each.of->task.after)
        if (const auto last = last_of_.find(task); last != last_of_.end() && last->second != number_of(each) && first_of_.at(each.task) == number_of(each)) each.after.push_back(last->second);
    for (auto& each : nodes_) {
      std::sort(each.after.begin(), each.after.end());
      each.after.erase(std::unique(each.after.begin(), each.after.end()), each.after.end());
    }
  }

  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  std::uint64_t number_of(const Node& one) const { return static_cast<std::uint64_t>(&one - nodes_.data()); }

  std::uint64_t add(Node one) {
    const auto number = static_cast<std::uint64_t>(nodes_.size());
    first_of_.try_emplace(one.task, number);
    last_of_[one.task] = number;
    nodes_.push_back(std::move(one));
    return number;
  }

  void add_computation(const TracedSpan& span) {
    std::vector<Nanoseconds> cuts;
    for (const auto* message : messages_)
      if (message->span.begin > span.span.begin && message->span.begin < span.span.end) cuts.push_back(message->span.begin);
    cuts.push_back(span.span.end);
    Nanoseconds from = span.span.begin;
    for (const auto to : cuts) {
      if (to <= from && to != span.span.end) continue;
      std::vector<std::uint64_t> after;
      if (last_computed_) after.push_back(*last_computed_);
      last_computed_ = add({span.name, span.task.kind == "load" ? kLoad : kCompute, std::move(after), {from, to}, span.span.task, &span});
      from = to;
    }
  }

  /// After the computation that was over when it began.
  void add_message(const TracedSpan& span) {
    std::vector<std::uint64_t> after;
    for (std::size_t i = nodes_.size(); i-- > 0;)
      if (nodes_[i].type != kSend && nodes_[i].type != kReceive && nodes_[i].type != kCollective && nodes_[i].when.end <= span.span.begin) {
        after.push_back(i);
        break;
      }
    const auto type = span.task.kind == "send" ? kSend : span.task.kind == "receive" ? kReceive : kCollective;
    add({span.name, type, std::move(after), {span.span.begin, span.span.end}, span.span.task, &span});
  }

  std::vector<const TracedSpan*> messages_, computed_;
  std::vector<Node> nodes_;
  std::map<int, std::uint64_t> first_of_, last_of_;  ///< by task
  std::optional<std::uint64_t> last_computed_;
};

template <typename Write>
std::string named(const std::string& name, const Write& write) {
  std::string text;
  protozero::pbf_writer out(text);
  out.add_string(attribute::kName, name);
  write(out);
  return text;
}
std::string of_int64(const std::string& name, std::int64_t value) { return named(name, [&](auto& out) { out.add_int64(attribute::kInt64, value); }); }
std::string of_int32(const std::string& name, std::int32_t value) { return named(name, [&](auto& out) { out.add_int32(attribute::kInt32, value); }); }
std::string of_uint64(const std::string& name, std::uint64_t value) { return named(name, [&](auto& out) { out.add_uint64(attribute::kUint64, value); }); }
std::string of_bool(const std::string& name, bool value) { return named(name, [&](auto& out) { out.add_bool(attribute::kBool, value); }); }
std::string of_string(const std::string& name, const std::string& value) { return named(name, [&](auto& out) { out.add_string(attribute::kString, value); }); }

void append(std::string& file, const std::string& message) {
  protozero::add_varint_to_buffer(&file, message.size());
  file += message;
}

/// The other end of each message, by the number of its span.
using Peers = std::map<const TracedSpan*, int>;

std::string message_of(const Node& one, std::uint64_t number, Nanoseconds begin, const Peers& peers) {
  std::string text;
  protozero::pbf_writer out(text);
  out.add_uint64(node::kId, number);
  out.add_string(node::kName, one.name);
  out.add_enum(node::kType, one.type);
  out.add_packed_uint64(node::kDataDependencies, one.after.begin(), one.after.end());
  out.add_uint64(node::kStart, static_cast<std::uint64_t>((one.when.begin - begin) / 1000));
  out.add_uint64(node::kDuration, static_cast<std::uint64_t>((one.when.end - one.when.begin + 500) / 1000));
  const auto add = [&](const std::string& attribute) { out.add_message(node::kAttribute, attribute); };
  const bool moves = one.type == kSend || one.type == kReceive || one.type == kCollective;
  add(of_bool("is_cpu_op", false));
  const auto& task = one.of->task;
  if (!moves) {
    add(of_uint64("tensor_size", 0));
    add(of_string("kind", task.kind));
    if (task.stage >= 0) add(of_int32("stage", task.stage));
    if (task.micro_batch >= 0) add(of_int32("micro_batch", task.micro_batch));
    return text;
  }
  add(of_int64("comm_size", static_cast<std::int64_t>(std::max(0.0, task.bytes))));
  if (const auto type = collective_type(task.goal); one.type == kCollective && type) add(of_int64("comm_type", *type));
  if (one.type == kCollective) add(of_string("pg_name", task.group));
  if (one.type != kCollective) {
    const auto peer = peers.find(one.of);
    const int other = peer == peers.end() ? -1 : peer->second, own = one.of->span.worker;
    add(of_int32("comm_src", one.type == kSend ? own : other));
    add(of_int32("comm_dst", one.type == kSend ? other : own));
    add(of_int32("comm_tag", static_cast<std::int32_t>(one.of->span.meeting)));
  }
  return text;
}

/// What the trace is of, for whoever imports it (lab/import_chakra.h): the experiment, where its network was cut, on what machine, and what ddlbench itself added to a step.
void tell_run(protozero::pbf_writer& out, const Json& record, int rank) {
  const auto add = [&](const std::string& attribute) { out.add_message(metadata::kAttribute, attribute); };
  if (const auto config = record.find("config"); config != record.end() && config->is_object()) add(of_string("config", config->dump()));
  if (const auto stages = record.find("stages"); stages != record.end() && stages->is_array()) {
    std::string cuts;
    for (const auto& stage : *stages) cuts += fmt::format("{}{}", cuts.empty() ? "" : "/", stage.value("layers", 0));
    add(of_string("stages", cuts));
  }
  if (const auto model = text_at(record, {"environment", "before", "cpu", "model"}); !model.empty()) add(of_string("cpu", model));
  if (const auto cores = number_at(record, {"environment", "before", "cpu", "usable_cores"})) add(of_int32("usable_cores", static_cast<std::int32_t>(*cores)));
  if (const auto host = text_at(record, {"environment", "before", "host"}); !host.empty()) add(of_string("host", host));
  const auto ranks = record.find("ranks");
  if (ranks == record.end() || !ranks->is_array()) return;
  for (const auto& each : *ranks)
    if (number_at(each, {"rank"}) == static_cast<double>(rank)) {
      const auto nanoseconds = [&](double milliseconds) { return static_cast<std::int64_t>(milliseconds * 1e6); };
      if (const auto harness = number_at(each, {"ledger_ms", "harness"}), rest = number_at(each, {"ledger_ms", "residual"}); harness && rest)
        add(of_int64("harness_ns", nanoseconds(*harness + std::max(0.0, *rest))));
      // Of the mean step: one alone may be any.
      for (const auto* cause : {"forward", "backward"})
        if (const auto mean = number_at(each, {"ledger_ms", cause})) add(of_int64(fmt::format("{}_ns", cause), nanoseconds(*mean)));
    }
}

/// The last step that all ranks went through whole, with as many passes as any: of asynchronous pipelines the last ones of a run have none forward, as the first have none back.
int step_of(const TraceView& view, const Json& record) {
  const auto ranks = view.ranks();
  std::map<int, std::size_t> seen;
  for (const auto& [key, period] : view.steps) ++seen[key.first];
  std::erase_if(seen, [&](const auto& step) { return step.second < ranks.size(); });
  if (seen.empty()) throw no_trace(record, "chakra");
  std::map<int, std::set<std::pair<int, int>>> passes;  // rank and task, by step
  for (const auto& each : view.spans)
    if (seen.contains(each.span.step) && (each.task.kind == "forward" || each.task.kind.starts_with("backward"))) passes[each.span.step].emplace(each.span.worker, each.span.task);
  std::size_t most = 0;
  for (const auto& [step, own] : passes) most = std::max(most, own.size());
  for (auto step = seen.rbegin(); step != seen.rend(); ++step)
    if (passes[step->first].size() >= most) return step->first;
  return seen.rbegin()->first;
}

}  // namespace

std::vector<ExportedFile> export_chakra(const Json& record) {
  const auto view = view_trace(record);
  if (view.empty()) throw no_trace(record, "chakra");
  const int step = step_of(view, record);
  Peers peers;
  for (const auto& flow : flows(view)) {
    peers[&view.spans[flow.send]] = view.spans[flow.receive].span.worker;
    peers[&view.spans[flow.receive]] = view.spans[flow.send].span.worker;
  }
  std::vector<ExportedFile> files;
  for (const int rank : view.ranks()) {
    std::string file, about;
    {
      protozero::pbf_writer out(about);
      out.add_string(metadata::kVersion, "0.0.4");
      out.add_message(metadata::kAttribute, of_string("run", text_at(record, {"id"})));
      out.add_message(metadata::kAttribute, of_int64("rank", rank));
      out.add_message(metadata::kAttribute, of_int64("step", step));
      tell_run(out, record, rank);
    }
    append(file, about);
    const RankNodes own(view, step, rank);
    const auto period = view.steps.find({step, rank});
    const auto begin = period == view.steps.end() ? Nanoseconds{0} : period->second.begin;
    for (std::size_t i = 0; i < own.nodes().size(); ++i) append(file, message_of(own.nodes()[i], i, std::min(begin, own.nodes()[i].when.begin), peers));
    files.push_back({fmt::format("ddlbench.{}.et", rank), std::move(file)});
  }
  return files;
}

}  // namespace ddl
