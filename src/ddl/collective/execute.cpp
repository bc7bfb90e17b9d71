#include "ddl/collective/execute.h"

#include <algorithm>
#include <cstring>

namespace ddl {
namespace {

/// The others reduce in one while this rank fills the other: both lie in its second-level cache.
constexpr int kStages = 2;
constexpr std::size_t kStage = std::size_t{256} << 10;
constexpr std::size_t kLine = 64;

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

/// A rank whose buffer the others cannot reach shows a stage instead, and copies into it what they reduce, and out of it
/// what they reduced: its own slice stays where it is, so that what is copied is 2 (P - 1) / P of a buffer, once all of it
/// for two ranks. It goes chunk by chunk, a chunk being the same part of every rank's slice, so that the order of reduction
/// is that of the direct way; copying in the next chunk overlaps with the others' reducing this one.
void ScheduleExecutor::run_one_shot(const Prepared& prepared, const Collective& what, const Buffer& buffer, const Signature& signature,
                            Seconds timeout) {
  const auto& shot = *prepared.one_shot;
  const int ranks = prepared.schedule.ranks;
  const int rank = prepared.schedule.rank;
  const std::size_t element = size_of(buffer.type);
  const std::span<std::byte> data{buffer.data, buffer.elements * element};
  const bool stages = !transport_.reachable(data);
  // The longest part of a slice that fits, so many times, into one stage; starts on a cache line.
  const std::size_t room = std::max(kLine, kStage / static_cast<std::size_t>(ranks) / kLine * kLine);
  const std::size_t stage = room * static_cast<std::size_t>(ranks);
  if (stages && stage_.empty()) {
    try {
      stage_ = transport_.allocate(std::size_t{kStages} * stage);
    } catch (const Error& error) {
      transport_.abandon(error);  // the others wait for this rank, and are to hear why it does not come
      throw;
    }
  }
  int chunks = static_cast<int>((part_of(buffer.elements, ranks, 0).size() * element + room - 1) / room);
  const auto part = [&](int slice, int chunk) {
    const Range whole = slice == rank ? shot.mine : part_of(buffer.elements, ranks, slice);
    if (chunks == 1) return whole;
    const Range within = part_of(whole.size(), chunks, chunk);
    return Range{whole.begin + within.begin, whole.begin + within.end};
  };
  const auto staged = [&](int slice, int chunk) { return static_cast<std::size_t>(chunk % kStages) * stage + static_cast<std::size_t>(slice) * room; };
  const auto copy_others = [&](int chunk, const auto& copy) {
    for (int k = 1; k < ranks; ++k) {
      const int slice = (rank + k) % ranks;
      const Range range = part(slice, chunk);
      copy(stage_.data() + staged(slice, chunk), buffer.data + range.begin * element, range.size() * element);
    }
  };
  const auto copy_in = [&](int chunk) {
    copy_others(chunk, [](std::byte* place, std::byte* ours, std::size_t bytes) { std::memcpy(place, ours, bytes); });
  };
  const auto copy_out = [&](int chunk) {
    copy_others(chunk, [](std::byte* place, std::byte* ours, std::size_t bytes) { std::memcpy(ours, place, bytes); });
  };

  // Nobody else is at the stage: whoever was has met this rank since, in the last unshare().
  if (stages) copy_in(0);
  transport_.share({stages ? stage_ : data, what.factor, stages}, shared_, timeout, signature);
  // Where everyone reaches everything there is nothing to cut for.
  if (std::none_of(shared_.begin(), shared_.end(), [](const Shared& each) { return each.stand_in; })) chunks = 1;
  factors_.clear();
  for (const int each : shot.order) factors_.push_back(shared_[static_cast<std::size_t>(each)].factor);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const Range range = part(rank, chunk);
    places_.clear();
    for (const int each : shot.order) {
      const auto& theirs = shared_[static_cast<std::size_t>(each)];
      places_.push_back(each == rank ? buffer.data + range.begin * element
                                     : theirs.data + (theirs.stand_in ? staged(rank, chunk) : range.begin * element));
    }
    reduce_all(what.op, buffer.type, places_.data(), what.op == ReduceOp::weighted_sum ? factors_.data() : nullptr, ranks, range.size(),
               what.op == ReduceOp::average ? ranks : 1);
    const bool last = chunk + 1 == chunks;
    if (stages && !last) copy_in(chunk + 1);
    // Everyone has reduced this chunk, and the next one is in.
    transport_.unshare(timeout, last ? moved(prepared, element) : Traffic{});
    if (stages) copy_out(chunk);
  }
}

std::byte* ScheduleExecutor::scratch(std::size_t bytes) {
  if (bytes > scratch_size_) {
    scratch_.reset(new std::byte[bytes]);
    scratch_size_ = bytes;
  }
  return scratch_.get();
}

}  // namespace ddl
