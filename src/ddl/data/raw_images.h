#pragma once

#include <cstdint>
#include <vector>

#include "ddl/data/dataset.h"

namespace ddl {

/// How bytes become the numbers that a network sees: (byte / 255 - mean) / deviation, in fp32, per channel.
struct Normalisation {
  std::vector<float> mean;
  std::vector<float> deviation;
};

/// The optional power of a Dataset whose samples are bytes, as an image file holds them: for writing them out, and
/// for handing the same data to another program. Reached by dynamic_cast from Dataset. Threads: any number at once.
class RawImages {
 public:
  virtual ~RawImages() = default;
  /// Writes channels x height x width bytes to `image` and returns the label. Errors: those of Dataset::read.
  virtual std::int64_t read_raw(std::int64_t index, std::uint8_t* image) const = 0;
  virtual const Normalisation& normalisation() const = 0;
};

/// Mean and deviation per channel, exact to rounding (sums of integers), over whole images of `shape` in `bytes`.
/// A channel without variance gets deviation 1.
class NormalisationSum {
 public:
  explicit NormalisationSum(const SampleShape& shape);
  void add(const std::uint8_t* image);
  Normalisation result() const;

 private:
  struct Channel {
    std::uint64_t sum = 0;
    std::uint64_t squares = 0;
  };
  std::size_t plane_;
  std::uint64_t images_ = 0;
  std::vector<Channel> channels_;
};

/// Bytes to normalised numbers by table.
class Normaliser {
 public:
  Normaliser(const SampleShape& shape, const Normalisation& normalisation);
  void apply(const std::uint8_t* bytes, float* image) const;

 private:
  std::size_t plane_;
  std::vector<float> table_;  ///< 256 entries per channel
};

/// Errors: invalid_argument unless 0 <= index < size.
void require_sample(std::int64_t index, std::int64_t size);

}  // namespace ddl
