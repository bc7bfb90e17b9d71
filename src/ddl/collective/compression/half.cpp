#include <array>

#include "ddl/collective/compression/compressions.h"
#include "ddl/collective/reduce.h"

namespace ddl {
namespace {

/// C(x) = x rounded to nearest even in 16 bits; the sum is taken in them too, each partial sum rounded.
/// Error:   per element at most u*|x| where the type has a normal number there, u = 2^-11 for fp16 and 2^-8 for bf16; fp16
///          is infinite from 65,520 on, and below 6e-8 keeps nothing: scale the loss (Micikevicius et al. 2018, section
///          3.2). bf16 has the range of fp32.
/// Bytes:   half of the all-reduce of fp32, a quarter of that of fp64.
/// Source:  Micikevicius et al. 2018, Mixed Precision Training; Kalamkar et al. 2019, A Study of BFLOAT16 for Deep Learning
///          Training.
template <typename T>
class Half final : public Compressor<T> {
 public:
  Half(ElementType type, std::size_t elements) : type_(type), elements_(elements) {}

  void all_reduce(const CompressionStep& step, std::span<const T> input, std::span<T> transmitted, std::span<T> result) override {
    wire_.resize(elements_);  // not before: whoever asks for transfers() alone needs none
    round(input);
    unpack(transmitted);
    step.group.run({Goal::all_reduce, ReduceOp::sum, step.algorithm}, {bytes(0), wire_.size(), type_});
    unpack(result);
  }

  std::vector<Transfer> transfers(int) const override { return {{Goal::all_reduce, type_, elements_}}; }

 private:
  // fp64 goes through fp32 block by block, small enough for the nearest cache.
  static constexpr std::size_t kBlock = 2048;

  std::byte* bytes(std::size_t at) { return reinterpret_cast<std::byte*>(wire_.data() + at); }

  void round(std::span<const T> from) {
    if constexpr (std::is_same_v<T, float>) {
      narrow(type_, bytes(0), from.data(), from.size());
    } else {
      std::array<float, kBlock> block;
      for (std::size_t at = 0; at < from.size(); at += kBlock) {
        const std::size_t count = std::min(kBlock, from.size() - at);
        for (std::size_t i = 0; i < count; ++i) block[i] = static_cast<float>(from[at + i]);
        narrow(type_, bytes(at), block.data(), count);
      }
    }
  }

  void unpack(std::span<T> into) {
    if constexpr (std::is_same_v<T, float>) {
      widen(type_, into.data(), bytes(0), into.size());
    } else {
      std::array<float, kBlock> block;
      for (std::size_t at = 0; at < into.size(); at += kBlock) {
        const std::size_t count = std::min(kBlock, into.size() - at);
        widen(type_, block.data(), bytes(at), count);
        for (std::size_t i = 0; i < count; ++i) into[at + i] = block[i];
      }
    }
  }

  ElementType type_;
  std::size_t elements_;
  std::vector<std::uint16_t> wire_;
};

}  // namespace

template <typename T>
std::unique_ptr<Compressor<T>> fp16_compressor(const Spec&, const CompressedBuffer& buffer) {
  return std::make_unique<Half<T>>(ElementType::fp16, buffer.elements);
}
template <typename T>
std::unique_ptr<Compressor<T>> bf16_compressor(const Spec&, const CompressedBuffer& buffer) {
  return std::make_unique<Half<T>>(ElementType::bf16, buffer.elements);
}
template std::unique_ptr<Compressor<float>> fp16_compressor(const Spec&, const CompressedBuffer&);
template std::unique_ptr<Compressor<double>> fp16_compressor(const Spec&, const CompressedBuffer&);
template std::unique_ptr<Compressor<float>> bf16_compressor(const Spec&, const CompressedBuffer&);
template std::unique_ptr<Compressor<double>> bf16_compressor(const Spec&, const CompressedBuffer&);

}  // namespace ddl
