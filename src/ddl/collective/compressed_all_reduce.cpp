#include "ddl/collective/compressed_all_reduce.h"

#include <cmath>

#include "ddl/collective/reduce.h"
#include "ddl/core/random.h"

namespace ddl {
namespace {

template <typename T>
double norm(std::span<const T> values) {
  double squares = 0;
  for (const T value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

/// left = x - transmitted, where that is a number: what was not finite went to all ranks, and is not sent a second time.
/// Gives |x - transmitted|. `left` may be `x`.
template <typename T>
double leave(std::span<const T> x, std::span<const T> transmitted, std::span<T> left) {
  double squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const T difference = x[i] - transmitted[i];
    squares += static_cast<double>(difference) * static_cast<double>(difference);
    left[i] = std::isfinite(difference) ? difference : T{0};
  }
  return std::sqrt(squares);
}

}  // namespace

CompressedAllReduce::CompressedAllReduce(Communicator& group, std::string_view compression, CompressedAllReduceOptions options)
    : group_(group), chosen_(choose_compression(compression)), options_(std::move(options)) {}

CompressionReport CompressedAllReduce::run(std::uint64_t bucket, const Buffer& buffer, ReduceOp op, double factor, MatrixShape matrix) {
  if (op == ReduceOp::max || op == ReduceOp::min)
    throw Error(Code::invalid_argument, fmt::format("[compression] {}: got {}, expected sum, average or weighted_sum", chosen_.spec.name, name(op)));
  if (buffer.type != ElementType::fp32 && buffer.type != ElementType::fp64)
    throw Error(Code::invalid_argument, fmt::format("[compression] {}: got elements of {}, expected fp32 or fp64", chosen_.spec.name, name(buffer.type)));
  CompressionReport report;
  report.uncompressed = {group_.bytes_sent({Goal::all_reduce, op, options_.algorithm}, buffer.elements, buffer.type)};
  const auto before = group_.transport().traffic().sent;
  report.relative_error = buffer.type == ElementType::fp32
                              ? run_bucket(bucket, std::span(reinterpret_cast<float*>(buffer.data), buffer.elements), op, factor, matrix)
                              : run_bucket(bucket, std::span(reinterpret_cast<double*>(buffer.data), buffer.elements), op, factor, matrix);
  report.sent = {group_.transport().traffic().sent - before};
  return report;
}

template <typename T>
double CompressedAllReduce::run_bucket(std::uint64_t key, std::span<T> values, ReduceOp op, double factor, MatrixShape matrix) {
  constexpr auto kType = std::is_same_v<T, float> ? ElementType::fp32 : ElementType::fp64;
  auto& state = bucket<T>(key, values.size(), matrix);
  auto* const bytes = reinterpret_cast<std::byte*>(values.data());
  if (state.compressor == nullptr) {
    group_.run({Goal::all_reduce, op, options_.algorithm, factor}, {bytes, values.size(), kType});
    return 0;
  }
  const double weight = op == ReduceOp::weighted_sum ? factor : 1;
  scale_into(kType, bytes, bytes, values.size(), weight, op == ReduceOp::average ? group_.size() : 1);
  if (!state.residual.empty())
    reduce_into(ReduceOp::sum, kType, bytes, reinterpret_cast<const std::byte*>(state.residual.data()), values.size());
  // What was compressed is needed afterwards, when the result is where it was.
  std::vector<T> input(values.begin(), values.end());
  if (transmitted_.size() < values.size_bytes()) transmitted_.resize(values.size_bytes());
  const std::span transmitted(reinterpret_cast<T*>(transmitted_.data()), values.size());
  state.compressor->all_reduce({group_, options_.algorithm, state.calls}, input, transmitted, values);
  const double size = norm<T>(input);
  const double lost = leave<T>(input, transmitted, input);
  if (!state.residual.empty()) state.residual = std::move(input);
  ++state.calls;
  return size == 0 ? 0 : lost / size;
}

template <typename T>
CompressedAllReduce::Bucket<T>& CompressedAllReduce::bucket(std::uint64_t key, std::size_t elements, MatrixShape matrix) {
  const auto found = buckets_.find(key);
  if (found == buckets_.end()) {
    Bucket<T> made{elements};
    const CompressedBuffer buffer{elements, matrix, Random(options_.seed, key).bits()};
    // Of nothing there is nothing to compress, but ranks still meet.
    if (elements != 0) {
      if constexpr (std::is_same_v<T, float>)
        made.compressor = chosen_.compression.fp32(chosen_.spec, buffer);
      else
        made.compressor = chosen_.compression.fp64(chosen_.spec, buffer);
    }
    if (made.compressor != nullptr && chosen_.compression.feedback) made.residual.resize(elements);
    return std::get<Bucket<T>>(buckets_.emplace(key, std::move(made)).first->second);
  }
  auto* const state = std::get_if<Bucket<T>>(&found->second);
  if (state == nullptr || state->elements != elements)
    throw Error(Code::invalid_argument, fmt::format("[compression] bucket {}: got {} {}, expected {} {} as before", key, elements,
                                                    std::is_same_v<T, float> ? "fp32" : "fp64",
                                                    std::visit([](const auto& b) { return b.elements; }, found->second),
                                                    found->second.index() == 0 ? "fp32" : "fp64"));
  return *state;
}

double CompressedAllReduce::residual_norm(std::uint64_t bucket) const {
  const auto found = buckets_.find(bucket);
  if (found == buckets_.end()) return 0;
  return std::visit([]<typename T>(const Bucket<T>& state) { return norm<T>(state.residual); }, found->second);
}

}  // namespace ddl
