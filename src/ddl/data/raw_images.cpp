#include "ddl/data/raw_images.h"

#include <algorithm>
#include <cmath>

#include "ddl/core/error.h"

namespace ddl {

NormalisationSum::NormalisationSum(const SampleShape& shape)
    : plane_(static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width)),
      channels_(static_cast<std::size_t>(shape.channels)) {}

void NormalisationSum::add(const std::uint8_t* image) {
  for (auto& channel : channels_) {
    // 32 bits hold the squares of 66,000 pixels; wider sums would halve the speed of the loop.
    constexpr std::size_t kRun = 1U << 15;
    for (std::size_t begin = 0; begin < plane_; begin += kRun) {
      const std::size_t end = std::min(plane_, begin + kRun);
      std::uint32_t sum = 0, squares = 0;
      for (std::size_t i = begin; i < end; ++i) {
        sum += image[i];
        squares += std::uint32_t{image[i]} * image[i];
      }
      channel.sum += sum;
      channel.squares += squares;
    }
    image += plane_;
  }
  ++images_;
}

Normalisation NormalisationSum::result() const {
  Normalisation result;
  const auto n = static_cast<double>(images_ * plane_);
  for (const auto& channel : channels_) {
    const double mean = n > 0 ? static_cast<double>(channel.sum) / n : 0;
    const double variance = n > 0 ? static_cast<double>(channel.squares) / n - mean * mean : 0;
    result.mean.push_back(static_cast<float>(mean / 255));
    result.deviation.push_back(variance > 0 ? static_cast<float>(std::sqrt(variance) / 255) : 1.0F);
  }
  return result;
}

Normaliser::Normaliser(const SampleShape& shape, const Normalisation& normalisation)
    : plane_(static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width)) {
  invariant(normalisation.mean.size() == static_cast<std::size_t>(shape.channels) &&
                normalisation.deviation.size() == normalisation.mean.size(),
            "a normalisation has one mean and deviation per channel");
  for (std::size_t c = 0; c < normalisation.mean.size(); ++c)
    for (int byte = 0; byte < 256; ++byte)
      table_.push_back((static_cast<float>(byte) / 255.0F - normalisation.mean[c]) / normalisation.deviation[c]);
}

void Normaliser::apply(const std::uint8_t* bytes, float* image) const {
  for (const float* table = table_.data(); table != table_.data() + table_.size(); table += 256) {
    for (std::size_t i = 0; i < plane_; ++i) image[i] = table[bytes[i]];
    bytes += plane_;
    image += plane_;
  }
}

void require_sample(std::int64_t index, std::int64_t size) {
  if (index < 0 || index >= size)
    throw Error(Code::invalid_argument,
                fmt::format("[dataset] no such sample; got {}, expected 0 to {}", index, size - 1));
}

}  // namespace ddl
