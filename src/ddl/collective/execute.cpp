#include "ddl/collective/execute.h"

#include <algorithm>

#include "ddl/collective/reduce.h"
#include "ddl/transport/deadline.h"

namespace ddl {
namespace {

bool overlap(Range a, Range b) { return std::max(a.begin, b.begin) < std::min(a.end, b.end); }

Final finality(const Schedule& schedule, std::size_t round, Range range) {
  // The parts of `range` that no later round writes.
  std::vector<Range> kept{range};
  for (++round; round < schedule.rounds.size(); ++round)
    for (const auto& step : schedule.rounds[round]) {
      if (step.kind == StepKind::send) continue;
      std::vector<Range> left;
      for (const Range part : kept) {
        if (!overlap(part, step.range)) {
          left.push_back(part);
          continue;
        }
        if (part.begin < step.range.begin) left.push_back({part.begin, step.range.begin});
        if (step.range.end < part.end) left.push_back({step.range.end, part.end});
      }
      kept = std::move(left);
    }
  if (kept.empty()) return Final::no;
  return kept == std::vector<Range>{range} ? Final::yes : Final::partly;
}

/// What a reduce step's sink needs while pieces come in.
struct Reduction {
  ReduceKernel kernel = nullptr;
  std::byte* ours = nullptr;
  std::size_t element = 0;
  std::int64_t divisor = 1;

  static void take(void* context, std::size_t offset, std::span<const std::byte> piece) {
    const auto& self = *static_cast<const Reduction*>(context);
    self.kernel(self.ours + offset, piece.data(), piece.size() / self.element, self.divisor);
  }
};

}  // namespace

Prepared prepare(Schedule schedule) {
  Prepared prepared{std::move(schedule), {}};
  for (std::size_t round = 0; round < prepared.schedule.rounds.size(); ++round) {
    auto& finals = prepared.finals.emplace_back();
    for (const auto& step : prepared.schedule.rounds[round])
      finals.push_back(step.kind == StepKind::reduce ? finality(prepared.schedule, round, step.range) : Final::no);
  }
  return prepared;
}

void execute(const Prepared& prepared, const Buffer& buffer, ReduceOp op, Transport& transport, Nanoseconds deadline) {
  const std::size_t element = size_of(buffer.type);
  const auto& schedule = prepared.schedule;
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  std::vector<Reduction> reductions;
  for (std::size_t round = 0; round < schedule.rounds.size(); ++round) {
    const auto& steps = schedule.rounds[round];
    outgoing.clear();
    incoming.clear();
    reductions.clear();
    reductions.reserve(steps.size());  // sinks point into it
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto& [kind, peer, range] = steps[i];
      std::byte* ours = buffer.data + range.begin * element;
      const std::size_t bytes = range.size() * element;
      if (kind == StepKind::send) {
        outgoing.push_back({peer, {ours, bytes}});
      } else if (kind == StepKind::receive) {
        incoming.push_back({peer, bytes, ours, {}});
      } else {
        const Final final = prepared.finals[round][i];
        if (op == ReduceOp::average && final == Final::partly)
          throw Error(Code::unsupported, fmt::format("[average] rank {} round {}: elements [{}, {}) are complete in part; "
                                                     "expected a reduce step to complete all of its range or nothing",
                                                     schedule.rank, round, range.begin, range.end));
        reductions.push_back({reduce_kernel(op, buffer.type, final == Final::yes), ours, element, schedule.ranks});
        incoming.push_back({peer, bytes, nullptr, {Reduction::take, &reductions.back()}});
      }
    }
    transport.exchange(outgoing, incoming, left_until(deadline));
  }
}

}  // namespace ddl
