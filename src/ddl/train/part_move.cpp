#include "ddl/train/part_move.h"

#include <algorithm>
#include <utility>

#include "ddl/nn/split/layout.h"
#include "ddl/nn/split/split.h"
#include "ddl/strategy/split_parts.h"

namespace ddl {
namespace {

/// Indices that two lists of ranges share, and where they lie in what has the one's, and the other's, one behind the other.
struct Common {
  std::int64_t in_a, in_b, size;
};
std::vector<Common> common(const Ranges& a, const Ranges& b) {
  std::vector<Common> all;
  std::int64_t before_a = 0;
  for (const auto& one : a) {
    std::int64_t before_b = 0;
    for (const auto& other : b) {
      const auto begin = std::max(one.begin, other.begin), end = std::min(one.end, other.end);
      if (begin < end) all.push_back({before_a + begin - one.begin, before_b + begin - other.begin, end - begin});
      before_b += other.size();
    }
    before_a += one.size();
  }
  return all;
}

std::int64_t indices_of(const std::vector<Common>& pieces) {
  std::int64_t sum = 0;
  for (const auto& piece : pieces) sum += piece.size;
  return sum;
}

at::MemoryFormat format_of(std::int64_t dimensions) { return dimensions == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous; }

}  // namespace

PartMove::PartMove(const PartExchange& how, bool forward, at::Tensor from, bool overwrite)
    : how_(how),
      move_(forward ? how.forward : how.backward),
      before_(forward ? how.before : how.after),
      after_(forward ? how.after : how.before),
      from_(std::move(from)),
      samples_(from_.size(0)),
      slot_elements_(move_buffer(how, forward).slot * samples_) {
  if (!communicates(move_)) return;
  if (move_ == Move::all_reduce) {
    const auto format = format_of(from_.dim());
    buffer_ = overwrite && from_.is_contiguous(format) ? from_ : at::empty_like(from_, format).copy_(from_);
    from_.reset();
    return;
  }
  buffer_ = at::empty({slot_elements_ * how.parts}, from_.options());
  if (move_ == Move::all_gather) {
    slot(how_.part, from_.size(how.dimension + 1)).copy_(from_);
    from_.reset();
  } else if (move_ == Move::reduce_scatter) {
    fill({{0, how.whole[static_cast<std::size_t>(how.dimension)]}});
    from_.reset();
  } else {
    fill(before_[static_cast<std::size_t>(how.part)]);
  }
}

std::vector<std::int64_t> PartMove::shape(std::int64_t indices) const {
  auto shape = how_.whole;
  shape[static_cast<std::size_t>(how_.dimension)] = indices;
  shape.insert(shape.begin(), samples_);
  return shape;
}

at::Tensor PartMove::slot(int number, std::int64_t indices) const {
  auto sizes = shape(indices);
  const auto place = buffer_.narrow(0, number * slot_elements_, elements_of(sizes));
  return sizes.size() == 4 ? place.view({sizes[0], sizes[2], sizes[3], sizes[1]}).permute({0, 3, 1, 2}) : place.view(sizes);
}

/// What each part is to have of the ranges that are here, into its slot.
void PartMove::fill(const Ranges& own) {
  const auto dimension = how_.dimension + 1;
  for (int other = 0; other < how_.parts; ++other) {
    if (other == how_.part && move_ != Move::reduce_scatter) continue;
    const auto pieces = common(own, after_[static_cast<std::size_t>(other)]);
    const auto indices = indices_of(pieces);
    if (indices == 0) continue;
    const auto place = slot(other, indices);
    std::int64_t at = 0;
    for (const auto& piece : pieces) {
      place.narrow(dimension, at, piece.size).copy_(from_.narrow(dimension, piece.in_a, piece.size));
      at += piece.size;
    }
  }
}

Collective PartMove::collective() const { return {goal_of(move_), ReduceOp::sum, "auto"}; }

at::Tensor PartMove::result() {
  const auto dimension = how_.dimension + 1;
  const auto whole = how_.whole[static_cast<std::size_t>(how_.dimension)];
  const auto made = [&](std::int64_t indices) { return at::empty(shape(indices), (buffer_.defined() ? buffer_ : from_).options().memory_format(format_of(static_cast<std::int64_t>(how_.whole.size()) + 1))); };
  switch (move_) {
    case Move::none: return from_;
    case Move::all_reduce: return buffer_;
    case Move::slice: {
      std::vector<at::Tensor> pieces;
      for (const auto& [begin, end] : after_[static_cast<std::size_t>(how_.part)]) pieces.push_back(from_.narrow(dimension, begin, end - begin));
      return pieces.size() == 1 ? pieces.front() : at::cat(pieces, dimension);
    }
    case Move::all_gather: {
      auto all = made(whole);
      for (int other = 0; other < how_.parts; ++other) {
        std::int64_t at = 0;
        const auto& ranges = before_[static_cast<std::size_t>(other)];
        const auto piece = slot(other, size_of(ranges));
        for (const auto& [begin, end] : ranges) {
          all.narrow(dimension, begin, end - begin).copy_(piece.narrow(dimension, at, end - begin));
          at += end - begin;
        }
      }
      return all;
    }
    // A copy: the other slots are not kept with it.
    case Move::reduce_scatter: return slot(how_.part, size_of(after_[static_cast<std::size_t>(how_.part)])).clone(at::MemoryFormat::Preserve);
    case Move::halo:
    case Move::halo_add: break;
  }
  const auto& mine = after_[static_cast<std::size_t>(how_.part)];
  auto all = made(size_of(mine));
  if (move_ == Move::halo_add) all.zero_();
  for (int other = 0; other < how_.parts; ++other) {
    const auto pieces = common(mine, before_[static_cast<std::size_t>(other)]);
    const auto indices = indices_of(pieces);
    if (indices == 0) continue;
    const auto came = other == how_.part ? from_ : slot(other, indices);
    std::int64_t at = 0;
    for (const auto& piece : pieces) {
      const auto place = all.narrow(dimension, piece.in_a, piece.size);
      const auto values = came.narrow(dimension, other == how_.part ? piece.in_b : at, piece.size);
      move_ == Move::halo_add ? place.add_(values) : place.copy_(values);
      at += piece.size;
    }
  }
  return all;
}

}  // namespace ddl
