#include "ddl/collective/compressed_all_reduce.h"

#include <cmath>

#include "ddl/collective/compression/compressions.h"
#include "ddl/collective/compression/kernels.h"
#include "ddl/collective/queue.h"
#include "ddl/collective/reduce.h"
#include "ddl/core/hash.h"
#include "ddl/core/random.h"

namespace ddl {
namespace {

/// |x| and |x - transmitted|; the difference itself goes to `left`, where that is not empty. Memory is read once.
template <typename T>
void measure(std::span<const T> x, std::span<const T> transmitted, std::span<T> left, CompressionReport& report) {
  constexpr std::size_t kBlock = 2048;
  T differences[kBlock];
  double input = 0, lost = 0;
  for (std::size_t at = 0; at < x.size(); at += kBlock) {
    const std::size_t count = std::min(kBlock, x.size() - at);
    const T *const a = x.data() + at, *const b = transmitted.data() + at;
    T* const into = left.empty() ? differences : left.data() + at;
    for (std::size_t i = 0; i < count; ++i) into[i] = a[i] - b[i];
    input += dot(a, a, count);
    lost += dot(into, into, count);
  }
  report.input = std::sqrt(input);
  report.lost = std::sqrt(lost);
}

}  // namespace

CompressionReport& CompressionReport::operator+=(const CompressionReport& other) {
  sent.value += other.sent.value;
  uncompressed.value += other.uncompressed.value;
  input = std::hypot(input, other.input);
  lost = std::hypot(lost, other.lost);
  return *this;
}

CompressedAllReduce::CompressedAllReduce(Communicator& group, std::string_view compression, CompressedAllReduceOptions options)
    : group_(group), chosen_(choose_compression(compression)), options_(std::move(options)), queue_(std::make_shared<CommunicationQueue>()) {
  if (chosen_.seed) options_.seed = *chosen_.seed;
  agree();
  thread_ = std::thread([queue = queue_] { queue->serve(); });
}

CompressedAllReduce::~CompressedAllReduce() {
  queue_->stop([&] { group_.transport().interrupt(); });
  thread_.join();
}

/// Ranks with another ratio would fail later, ranks with another seed add up what does not belong together.
void CompressedAllReduce::agree() {
  const auto text = to_string(chosen_.spec);
  std::vector<std::int64_t> all(static_cast<std::size_t>(group_.size()));
  auto& mine = all[static_cast<std::size_t>(group_.rank())];
  mine = static_cast<std::int64_t>(std::stoull(digest(fmt::format("{} {}", text, options_.seed)).substr(0, 16), nullptr, 16));
  const auto own = mine;
  group_.run({Goal::all_gather}, as_buffer(std::span(all)));
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != all[0] || all[rank] != own)
      throw Error(Code::invalid_argument, fmt::format("[compression] ranks must choose the same compression and seed; got {} with seed {} on rank "
                                                      "{}, expected that of rank {} too", text, options_.seed, group_.rank(),
                                                      all[rank] != own ? rank : std::size_t{0}));
}

CompressionReport CompressedAllReduce::run(std::uint64_t bucket, const Buffer& buffer, ReduceOp op, double factor, const BucketLayout& layout) {
  CompressionReport report;
  queue_->run_now([&] { report = call(bucket, buffer, op, factor, layout); });
  return report;
}

Handle CompressedAllReduce::start(std::uint64_t bucket, const Buffer& buffer, ReduceOp op, double factor, const BucketLayout& layout,
                                  CompressionReport* report, Start when, std::function<void()> ready) {
  auto state = std::make_shared<Handle::State>();
  state->queue = queue_;
  state->ready = ready_or_abandon(std::move(ready), group_.transport());
  state->work = [=, this] {
    const auto made = call(bucket, buffer, op, factor, layout);
    if (report != nullptr) *report = made;
  };
  queue_->push(state, when);
  return Handle(std::move(state));
}

CompressionReport CompressedAllReduce::total() const {
  CompressionReport report;
  queue_->run_now([&] { report = total_; });
  return report;
}

std::vector<double> CompressedAllReduce::residual(std::uint64_t bucket) const {
  std::vector<double> all;
  queue_->run_now([&] {
    if (const auto found = buckets_.find(bucket); found != buckets_.end())
      std::visit([&](const auto& state) { all.assign(state.residual.begin(), state.residual.end()); }, found->second);
  });
  return all;
}

void CompressedAllReduce::forget() {
  queue_->run_now([&] { buckets_.clear(); });
}

Bytes CompressedAllReduce::bytes(std::size_t elements, ElementType type, const BucketLayout& layout) {
  check(type);
  std::vector<Transfer> transfers;
  const auto of = [&](const auto& made) {
    if (made == nullptr) {
      transfers.push_back({Goal::all_reduce, type, elements});
      return;
    }
    transfers = made->transfers(group_.size());
    if (layout.exact != 0) transfers.push_back({Goal::all_reduce, type, layout.exact});
  };
  Bytes sum;
  queue_->run_now([&] {
    type == ElementType::fp64 ? of(compressor<double>(0, elements, layout)) : of(compressor<float>(0, elements, layout));
    for (const auto& transfer : transfers) {
      const std::string_view algorithm = transfer.goal == Goal::all_reduce ? std::string_view(options_.algorithm) : "auto";
      sum.value += group_.bytes_sent({transfer.goal, ReduceOp::sum, algorithm}, transfer.elements, transfer.type);
    }
  });
  return sum;
}

void CompressedAllReduce::check(ElementType type) const {
  if (type != ElementType::fp32 && type != ElementType::fp64)
    throw Error(Code::invalid_argument, fmt::format("[compression] {}: got elements of {}, expected fp32 or fp64", chosen_.spec.name, name(type)));
}

CompressionReport CompressedAllReduce::call(std::uint64_t key, const Buffer& buffer, ReduceOp op, double factor, const BucketLayout& layout) {
  if (op == ReduceOp::max || op == ReduceOp::min)
    throw Error(Code::invalid_argument, fmt::format("[compression] {}: got {}, expected sum, average or weighted_sum", chosen_.spec.name, name(op)));
  check(buffer.type);
  const auto before = group_.transport().traffic().sent;
  auto report = buffer.type == ElementType::fp32
                    ? compress(key, std::span(reinterpret_cast<float*>(buffer.data), buffer.elements), op, factor, layout)
                    : compress(key, std::span(reinterpret_cast<double*>(buffer.data), buffer.elements), op, factor, layout);
  report.sent = {group_.transport().traffic().sent - before};
  total_ += report;
  return report;
}

template <typename T>
CompressionReport CompressedAllReduce::compress(std::uint64_t key, std::span<T> all, ReduceOp op, double factor, const BucketLayout& layout) {
  auto& state = bucket<T>(key, all.size(), layout);
  CompressionReport report;
  report.uncompressed = state.uncompressed;
  const Collective plain{Goal::all_reduce, op, options_.algorithm, factor};
  if (state.compressor == nullptr) {
    group_.run(plain, as_buffer(all));
    return report;
  }
  const auto values = all.first(all.size() - state.exact);
  const auto x = scratch<T>(input_, values.size());
  const auto transmitted = scratch<T>(transmitted_, values.size());
  auto* const bytes = reinterpret_cast<std::byte*>(x.data());
  scale_into(kTypeOf<T>, bytes, reinterpret_cast<const std::byte*>(values.data()), x.size(), op == ReduceOp::weighted_sum ? factor : 1,
             op == ReduceOp::average ? group_.size() : 1);
  if (!state.residual.empty())
    reduce_into(ReduceOp::sum, kTypeOf<T>, bytes, reinterpret_cast<const std::byte*>(state.residual.data()), x.size());
  state.compressor->all_reduce({group_, options_.algorithm, state.calls++}, x, transmitted, values);
  if (state.exact != 0) group_.run(plain, as_buffer(all.last(state.exact)));
  const bool keeps = !state.residual.empty() && all_finite<T>(values);
  measure<T>(x, transmitted, keeps ? std::span<T>(state.residual) : std::span<T>(), report);
  return report;
}

template <typename T>
CompressedAllReduce::Bucket<T>& CompressedAllReduce::bucket(std::uint64_t key, std::size_t elements, const BucketLayout& layout) {
  const auto found = buckets_.find(key);
  if (found == buckets_.end()) {
    Bucket<T> made{elements, layout.exact, compressor<T>(key, elements, layout)};
    if (made.compressor != nullptr && chosen_.compression.feedback) made.residual.resize(elements - layout.exact);
    made.uncompressed = {group_.bytes_sent({Goal::all_reduce, ReduceOp::sum, options_.algorithm}, elements, kTypeOf<T>)};
    return std::get<Bucket<T>>(buckets_.emplace(key, std::move(made)).first->second);
  }
  auto* const state = std::get_if<Bucket<T>>(&found->second);
  if (state == nullptr || state->elements != elements)
    throw Error(Code::invalid_argument, fmt::format("[compression] bucket {}: got {} {}, expected {} {} as before", key, elements,
                                                    name(kTypeOf<T>), std::visit([](const auto& b) { return b.elements; }, found->second),
                                                    found->second.index() == 0 ? "fp32" : "fp64"));
  return *state;
}

template <typename T>
std::unique_ptr<Compressor<T>> CompressedAllReduce::compressor(std::uint64_t key, std::size_t elements, const BucketLayout& layout) const {
  if (layout.exact > elements)
    throw Error(Code::invalid_argument, fmt::format("[compression] got {} exact elements, expected at most the bucket's {}", layout.exact, elements));
  // Of nothing there is nothing to compress, but ranks still meet.
  if (layout.exact == elements) return nullptr;
  const CompressedBuffer buffer{elements - layout.exact, layout.tensors, Random(options_.seed, key).bits()};
  if constexpr (std::is_same_v<T, float>)
    return chosen_.compression.fp32(chosen_.spec, buffer);
  else
    return chosen_.compression.fp64(chosen_.spec, buffer);
}

template <typename T>
std::span<T> CompressedAllReduce::scratch(std::vector<std::byte>& memory, std::size_t elements) const {
  if (memory.size() < elements * sizeof(T)) memory.resize(elements * sizeof(T));
  return {reinterpret_cast<T*>(memory.data()), elements};
}

}  // namespace ddl
