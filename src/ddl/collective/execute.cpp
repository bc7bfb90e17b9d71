#include "ddl/collective/execute.h"

#include <algorithm>
#include <cstring>

namespace ddl {
namespace {

/// Two chunks come in and two go out: what a rank works on lies in its second-level cache.
constexpr std::size_t kStages = 4;
constexpr std::size_t kStage = std::size_t{256} << 10;

bool all_of(Extent extent, const Step& step, const Schedule& schedule, std::size_t round, const char* what) {
  if (extent == Extent::partly)
    throw Error(Code::unsupported, fmt::format("[collective] rank {} round {}: elements [{}, {}) are {} in part; expected all of "
                                               "a step's range to be, or none", schedule.rank, round, step.range.begin,
                                               step.range.end, what));
  return extent == Extent::whole;
}

Traffic moved(const Prepared& prepared, std::size_t element) {
  return {static_cast<std::int64_t>(prepared.sent * element), static_cast<std::int64_t>(prepared.received * element)};
}

}  // namespace

void ScheduleExecutor::Reduction::take(void* context, std::size_t offset, std::span<const std::byte> piece, double factor) {
  const auto& self = *static_cast<const Reduction*>(context);
  const std::size_t elements = piece.size() / size_of(self.type);
  if (self.replaces) return scale_into(self.type, self.ours + offset, piece.data(), elements, factor);
  Scaling scaling = self.scaling;
  scaling.theirs = factor;
  reduce_into(self.op, self.type, self.ours + offset, piece.data(), elements, scaling);
}

void ScheduleExecutor::run(const Prepared& prepared, const Collective& what, const Buffer& buffer, const Signature& signature,
                   Seconds timeout) {
  if (prepared.one_shot && transport_.shares_memory() && buffer.elements != 0)
    run_one_shot(prepared, what, buffer, signature, timeout);
  else
    run_rounds(prepared, what, buffer, signature, timeout);
}

void ScheduleExecutor::run_rounds(const Prepared& prepared, const Collective& what, const Buffer& buffer, const Signature& signature,
                          Seconds timeout) {
  const auto& schedule = prepared.schedule;
  const std::size_t element = size_of(buffer.type);
  const bool averages = reduces(what.goal) && what.op == ReduceOp::average;
  const bool weighs = reduces(what.goal) && what.op == ReduceOp::weighted_sum;
  std::byte* const extra = schedule.scratch != 0 ? scratch(schedule.scratch * element) : nullptr;
  const auto place = [&](std::size_t at) {
    return at < schedule.elements || extra == nullptr ? buffer.data + at * element : extra + (at - schedule.elements) * element;
  };
  for (std::size_t round = 0; round < schedule.rounds.size(); ++round) {
    const auto& steps = schedule.rounds[round];
    outgoing_.clear();
    incoming_.clear();
    reductions_.clear();
    reductions_.reserve(steps.size());  // sinks point into it
    bool local = false;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto& step = steps[i];
      const auto& facts = prepared.facts[round][i];
      std::byte* const ours = place(step.range.begin);
      const std::size_t bytes = step.range.size() * element;
      const auto factor = [&] { return weighs && all_of(facts.raw, step, schedule, round, "this rank's own") ? what.factor : 1.0; };
      const auto divisor = [&] {
        return averages && all_of(facts.final, step, schedule, round, "complete") ? schedule.ranks : 1;
      };
      switch (step.kind) {
        case StepKind::send: outgoing_.push_back({step.peer, {ours, bytes}, factor()}); break;
        case StepKind::receive:
          if (weighs) {
            reductions_.push_back({what.op, buffer.type, ours, {}, true});
            incoming_.push_back({step.peer, bytes, nullptr, {Reduction::take, &reductions_.back()}});
          } else {
            incoming_.push_back({step.peer, bytes, ours, {}});
          }
          break;
        case StepKind::reduce:
          reductions_.push_back({what.op, buffer.type, ours, {factor(), 1, divisor()}, false});
          incoming_.push_back({step.peer, bytes, nullptr, {Reduction::take, &reductions_.back()}});
          break;
        case StepKind::copy:
          if (bytes != 0) std::memcpy(ours, place(step.source), bytes);
          local = true;
          break;
        case StepKind::combine:
          reduce_into(what.op, buffer.type, ours, place(step.source), step.range.size(), {factor(), 1, divisor()});
          local = true;
          break;
      }
    }
    if (!local || !outgoing_.empty() || !incoming_.empty()) transport_.exchange(outgoing_, incoming_, timeout, signature);
  }
  if (weighs)
    for (const Range range : prepared.untouched)
      scale_into(buffer.type, place(range.begin), place(range.begin), range.size(), what.factor);
}

void ScheduleExecutor::run_one_shot(const Prepared& prepared, const Collective& what, const Buffer& buffer, const Signature& signature,
                            Seconds timeout) {
  const auto& shot = *prepared.one_shot;
  const std::size_t element = size_of(buffer.type);
  const bool weighs = what.op == ReduceOp::weighted_sum;
  transport_.share({buffer.data, buffer.elements * element}, what.factor, shared_, timeout, signature);
  bool reachable = true;
  for (const auto& each : shared_) reachable &= each.data != nullptr;
  if (!reachable) return run_staged(prepared, what, buffer, signature, timeout);
  places_.clear();
  factors_.clear();
  for (const int rank : shot.order) {
    const auto& theirs = shared_[static_cast<std::size_t>(rank)];
    places_.push_back(theirs.data + shot.mine.begin * element);
    factors_.push_back(theirs.factor);
  }
  reduce_all(what.op, buffer.type, places_.data(), weighs ? factors_.data() : nullptr, static_cast<int>(places_.size()),
             nullptr, shot.mine.size(), what.op == ReduceOp::average ? prepared.schedule.ranks : 1);
  transport_.unshare(timeout, moved(prepared, element));
}

/// For buffers that the others cannot reach: through a stage in memory that they can, chunk by chunk, a chunk being the
/// same part of every rank's slice, so that the order of reduction is that of the direct way. Copying in the next chunk
/// overlaps with the others' reducing this one.
void ScheduleExecutor::run_staged(const Prepared& prepared, const Collective& what, const Buffer& buffer, const Signature& signature,
                          Seconds timeout) {
  const auto& shot = *prepared.one_shot;
  const int ranks = prepared.schedule.ranks;
  const int rank = prepared.schedule.rank;
  const std::size_t element = size_of(buffer.type);
  if (stage_.empty()) stage_ = transport_.allocate(kStages * kStage);
  transport_.unshare(timeout);
  transport_.share(stage_, what.factor, shared_, timeout, signature);
  // The longest part of a slice that fits, so many times, into one stage; starts on a cache line.
  const std::size_t room = kStage / static_cast<std::size_t>(ranks) / 64 * 64;
  const std::size_t most = room / element;
  const std::size_t longest = part_of(buffer.elements, ranks, 0).size();
  const int chunks = static_cast<int>((longest + most - 1) / most);
  const auto part = [&](int slice, int chunk) {
    const Range whole = part_of(buffer.elements, ranks, slice);
    const Range within = part_of(whole.size(), chunks, chunk);
    return Range{whole.begin + within.begin, whole.begin + within.end};
  };
  // Stages 0 and 1 hold what comes in, by turns; 2 and 3 what was reduced here.
  const auto input = [&](int owner, int slice, int chunk) {
    return shared_[static_cast<std::size_t>(owner)].data + static_cast<std::size_t>(chunk % 2) * kStage + static_cast<std::size_t>(slice) * room;
  };
  const auto output = [&](int owner, int chunk) { return shared_[static_cast<std::size_t>(owner)].data + static_cast<std::size_t>(2 + chunk % 2) * kStage; };
  const auto copy_in = [&](int chunk) {
    for (int slice = 0; slice < ranks; ++slice) {
      const Range range = part(slice, chunk);
      if (range.size() != 0) std::memcpy(input(rank, slice, chunk), buffer.data + range.begin * element, range.size() * element);
    }
  };
  const auto copy_out = [&](int chunk) {
    for (int k = 0; k < ranks; ++k) {
      const int slice = (rank + k) % ranks;
      const Range range = part(slice, chunk);
      if (range.size() != 0) std::memcpy(buffer.data + range.begin * element, output(slice, chunk), range.size() * element);
    }
  };
  factors_.clear();
  for (const int each : shot.order) factors_.push_back(shared_[static_cast<std::size_t>(each)].factor);
  copy_in(0);
  transport_.unshare(timeout);  // everyone's chunk 0 is in
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const Range range = part(rank, chunk);
    places_.clear();
    for (const int each : shot.order) places_.push_back(input(each, rank, chunk));
    reduce_all(what.op, buffer.type, places_.data(), what.op == ReduceOp::weighted_sum ? factors_.data() : nullptr, ranks,
               output(rank, chunk), range.size(), what.op == ReduceOp::average ? ranks : 1);
    if (chunk + 1 < chunks) copy_in(chunk + 1);
    // Everyone has reduced this chunk, and the next one is in.
    transport_.unshare(timeout, chunk + 1 < chunks ? Traffic{} : moved(prepared, element));
    copy_out(chunk);
  }
  // Who writes into a stage again has met everyone after this: share() of the next collective.
}

std::byte* ScheduleExecutor::scratch(std::size_t bytes) {
  if (bytes > scratch_size_) {
    scratch_.reset(new std::byte[bytes]);
    scratch_size_ = bytes;
  }
  return scratch_.get();
}

}  // namespace ddl
