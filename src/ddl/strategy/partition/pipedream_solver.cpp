#include "ddl/strategy/partition/pipedream_solver.h"

#include <algorithm>
#include <limits>

#include "ddl/core/at.h"

namespace ddl {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

PipedreamSolver::PipedreamSolver(const PartitionInput& input, const Intervals& blocks, int stages)
    : input_(input), blocks_(blocks), stages_(stages), limited_(input.memory_limit < kNever) {
  int inner = 1;
  for (const auto& machine : input.machines) {
    const int most_stages = std::min(stages, inner * machine.count);
    levels_.push_back({machine.count, inner, most_stages, machine.bandwidth});
    inner *= machine.count;
  }
  levels_.back().top = true;
  for (int place = 0; place < blocks.size(); ++place) edges_.push_back(blocks.crossing_bytes(place));
}

PipedreamSolver::Cell& PipedreamSolver::cell(std::size_t level, int offset, int first, int last, int workers, int stages) {
  const auto& at_level = levels_[level];
  const auto run = at(last - 1) + (at_level.top ? 0 : at(first) * at(blocks_.size()));
  return levels_[level].cells[at(offset)][(run * at(at_level.count) + at(workers - 1)) * at(at_level.most_stages + 1) + at(stages)];
}

/// A^{k-1}(i→j, m_{k-1}): of one whole component of the level below, the pipeline's stages from `stage` on.
double PipedreamSolver::whole(std::size_t level, int stage, int first, int last, int stages) {
  if (level > 0) {
    const auto& below = levels_[level - 1];
    return stages > below.most_stages ? kNever : cell(level - 1, offset(stage), first, last, below.count, stages).seconds;
  }
  if (stages > 1) return kNever;
  if (limited_ && blocks_.held_bytes(first, last, input_.in_flight(stage, stages_)) > input_.memory_limit) return kNever;
  return blocks_.seconds(first, last);
}

/// T^k(i→j, m).
double PipedreamSolver::stage_seconds(std::size_t level, int stage, int first, int last, int workers, int stages) {
  const double compute = whole(level, stage, first, last, stages);
  if (workers == 1 || compute == kNever) return compute;
  const double exchange = 2.0 * (workers - 1) / workers * blocks_.trained_bytes(first, last) * input_.exchanges / levels_[level].bandwidth;
  return std::max(compute, exchange) / workers;
}

void PipedreamSolver::find(std::size_t level, int stage, int first, int last, int workers, int stages) {
  const auto& here = levels_[level];
  auto& best = cell(level, offset(stage), first, last, workers, stages);
  best = {kNever};
  if (const double one = stage_seconds(level, stage, first, last, workers, stages); one < here.bound) best = {one};
  for (int own = 1; own < workers; ++own)
    // Its last stage has `own` components, which can be as many stages as one of them has workers.
    for (int own_stages = free() ? 0 : 1; own_stages <= (free() ? 0 : std::min(stages - 1, here.inner)); ++own_stages) {
      if (!free() && stages - own_stages > (workers - own) * here.inner) continue;
      for (int split = last - 1; split > first; --split) {
        ++operations_;
        const double limit = std::min(best.seconds, here.bound);
        // Nothing is faster than all of its workers at once.
        if (blocks_.seconds(split, last) >= limit * own * here.inner) break;
        const double before = cell(level, offset(stage), first, split, workers - own, stages - own_stages).seconds;
        const double edge = edges_[at(split)] / here.bandwidth;
        if (before >= limit || edge >= limit) continue;
        const double after = stage_seconds(level, stage + stages - own_stages, split, last, own, own_stages);
        if (after < limit)
          best = {std::max({before, edge, after}), static_cast<std::int16_t>(split), static_cast<std::int16_t>(own), static_cast<std::int16_t>(own_stages)};
      }
    }
}

/// Every A^k, those of the level below given; stages are counted from `stage` on.
void PipedreamSolver::fill(std::size_t level, int stage) {
  const auto& here = levels_[level];
  const int size = blocks_.size();
  const double all = blocks_.seconds(0, size);
  for (int first = 0; first < (here.top ? 1 : size); ++first)
    for (int last = first + 1; last <= size; ++last)
      for (int workers = 1; workers <= here.count; ++workers)
        for (int stages = free() ? 0 : 1; stages <= here.most_stages; ++stages) {
          auto& found = cell(level, offset(stage), first, last, workers, stages);
          found = {kNever};
          if (!free() && (stages > workers * here.inner || stages > last - first || stage + stages > stages_)) continue;
          // What is too much for these workers, or leaves too much for the others, need not be looked at.
          if (blocks_.seconds(first, last) >= here.bound * workers * here.inner) continue;
          if (here.top && (last == size) != (workers == here.count)) continue;
          if (here.top && last < size && all - blocks_.seconds(0, last) >= here.bound * (here.count - workers) * here.inner) continue;
          find(level, stage, first, last, workers, stages);
        }
}

void PipedreamSolver::collect(std::size_t level, int stage, int first, int last, int workers, int stages, int replicas, Partition& into) {
  const auto found = cell(level, offset(stage), first, last, workers, stages);
  const auto one = [&](int from, int at_stage, int own, int own_stages) {
    if (level > 0) {
      collect(level - 1, at_stage, from, last, levels_[level - 1].count, own_stages, replicas * own, into);
    } else {
      into.cuts.push_back(blocks_.layer(from));
      into.replicas.push_back(replicas * own);
    }
  };
  if (found.split < 0) return one(first, stage, workers, stages);
  collect(level, stage, first, found.split, workers - found.workers, stages - found.stages, replicas, into);
  one(found.split, stage + stages - found.stages, found.workers, found.stages);
}

Partition PipedreamSolver::solve(double bound) {
  for (auto level = levels_.size(); level-- > 0;) {
    levels_[level].bound = bound;
    // One of `count` replicas may take `count` times as long.
    bound *= levels_[level].count;
  }
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    auto& here = levels_[level];
    const int offsets = limited_ && !here.top ? stages_ : 1;
    const auto runs = at(blocks_.size()) * (here.top ? 1 : at(blocks_.size()));
    here.cells.assign(at(offsets), std::vector<Cell>(runs * at(here.count) * at(here.most_stages + 1)));
    for (int stage = 0; stage < offsets; ++stage) fill(level, stage);
  }
  const auto top = levels_.size() - 1;
  const auto found = cell(top, 0, 0, blocks_.size(), levels_[top].count, stages_);
  Partition made;
  if (found.seconds == kNever) return made;
  made.largest = found.seconds;
  collect(top, 0, 0, blocks_.size(), levels_[top].count, stages_, 1, made);
  return made;
}

}  // namespace ddl
