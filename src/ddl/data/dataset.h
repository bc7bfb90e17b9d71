#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ddl/core/registry.h"

namespace ddl {

/// What every sample of a classification data set looks like.
struct ImageShape {
  int channels = 0;
  int height = 0;
  int width = 0;
  int classes = 0;

  std::int64_t pixels() const { return std::int64_t{channels} * height * width; }
  bool operator==(const ImageShape&) const = default;
};

/// Samples by index; where they are bytes, it is a RawImages (raw_images.h) too. Threads: any number may read at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual ImageShape shape() const = 0;
  /// Writes the normalised image (channels x height x width, fp32, mean 0 and variance about 1 over the training
  /// set) to `image` and returns its label, 0 … classes-1. Errors: corrupt, io, each naming the sample.
  virtual std::int64_t read(std::int64_t index, float* image) const = 0;
  /// The same for the same content: part of a run's identity.
  virtual std::string digest() const = 0;
};

struct DatasetPair {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> test;
};

struct DatasetOptions {
  /// Where the files are. Empty: $DDLBENCH_DATA/<name>, then where Debian's packages put them.
  std::string folder = {};
  /// Made up in memory: same shape and classes, learnable, from `seed`.
  bool synthetic = false;
  std::uint64_t seed = 0;
  /// Sizes of a synthetic data set; 0 means the real one's.
  std::int64_t train_samples = 0;
  std::int64_t test_samples = 0;
};

using DatasetFactory = std::function<DatasetPair(const DatasetOptions&)>;

/// mnist, fashion-mnist (IDX files or synthetic); cifar10 (synthetic only, until its reader comes).
Registry<DatasetFactory> builtin_datasets();

/// The shape of a data set without opening it. Errors: not_found.
ImageShape dataset_shape(const std::string& name);

}  // namespace ddl
