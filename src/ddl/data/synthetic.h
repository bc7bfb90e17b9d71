#pragma once

#include <memory>
#include <string>

#include "ddl/data/dataset.h"

namespace ddl {

/// A made-up classification data set that a network can learn.
///
/// Each class has a few templates, sums of low-frequency plane waves that are periodic over the image. A sample is one
/// of its class's templates moved by a few pixels, scaled, and put under noise, rounded to bytes as an image file would
/// hold it. Templates depend on (seed, name); a sample on (seed, name, part, index) alone, so that any worker can make
/// any sample, in integer arithmetic, the same on every machine. Training and test samples never share a stream.
/// Made when read, about 1 us for 28x28: no sample is stored. Images with a side above 64 have templates of 32x32
/// values, read in between, so that a thousand classes take 37 MB. digest() hashes what the content follows from.
/// Errors: invalid_argument on a shape or size that is not positive, a side above 4,096, or more than 65,536 classes.
DatasetPair make_synthetic(const std::string& name, const SampleShape& shape, std::int64_t train_samples,
                           std::int64_t test_samples, std::uint64_t seed);

}  // namespace ddl
