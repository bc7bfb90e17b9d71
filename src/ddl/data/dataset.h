#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "ddl/core/registry.h"
#include "ddl/core/spec.h"

namespace ddl {

/// What is learnt, and with it what a sample consists of.
enum class Objective : std::uint8_t {
  classification,  ///< an image and its label
  language,        ///< words; the next word at each place is to be said
  translation,     ///< words of a sentence, and those of its translation
  captioning,      ///< an image and words about it
};

/// What every sample of a data set looks like. Words are numbers from 0 on; sentences are padded with kPadding.
struct SampleShape {
  int channels = 0;  ///< of the image; 0 where there is none
  int height = 0;
  int width = 0;
  int classes = 0;   ///< of labels; of an objective with words: the vocabulary, special ones included
  Objective objective = Objective::classification;
  int source_length = 0;  ///< words of what is translated, at most
  int target_length = 0;  ///< words that are to be said, with their begin and end, at most

  static constexpr std::int64_t kPadding = 0, kBegin = 1, kEnd = 2;

  std::int64_t pixels() const { return std::int64_t{channels} * height * width; }
  bool operator==(const SampleShape&) const = default;
};

/// Samples by index; where they are bytes, it is a RawImages (raw_images.h) too. Threads: any number may read at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual SampleShape shape() const = 0;
  /// Writes the normalised image (channels x height x width, fp32, mean 0 and variance about 1 over the training
  /// set) to `image` and returns its label, 0 … classes-1. Errors: corrupt, io, each naming the sample.
  /// Without an image or a label it writes, or returns, none: 0.
  virtual std::int64_t read(std::int64_t index, float* image) const = 0;
  /// Writes the sample's words: shape().source_length to `source` (words, padding), shape().target_length to `target`
  /// (begin, words, end, padding; of Objective::language begin and a window of a stream, in which ends part texts).
  /// Only where the objective has words. Errors: as read().
  virtual void read_words(std::int64_t index, std::int64_t* source, std::int64_t* target) const;
  /// What the sample counts in the loss: 1, or with words how many of `target` are to be said (all but the begin and
  /// padding). Cheap: every worker asks for the whole group's.
  virtual std::int64_t weight(std::int64_t index) const;
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
  /// Of this data set: what stands in brackets behind its name.
  std::map<std::string, std::string> options = {};
};

/// How a data set comes to be.
struct DatasetFactory {
  std::function<DatasetPair(const DatasetOptions&)> open;
  /// Its shape without opening it. Errors: invalid_argument on an option in brackets.
  std::function<SampleShape(const DatasetOptions&)> shape;
  /// Why only `synthetic` can be had here, in a line; empty where its real samples can. Cheap.
  std::function<std::string(const DatasetOptions&)> missing;

  DatasetPair operator()(const DatasetOptions& options) const { return open(options); }
};

/// mnist, fashion-mnist (IDX files), translation, language (message catalogues), captions (rendered); all of these, and
/// cifar10, cifar100, imagenet, highres, made up.
Registry<DatasetFactory> builtin_datasets();

/// A data set by name and options in brackets: `translation[to=fr,vocabulary=4000]`. Those of `options` are replaced.
/// Errors: not_found; those of its factory.
DatasetPair open_dataset(const Spec& dataset, DatasetOptions options);

/// Its shape without opening it. Errors: not_found; invalid_argument on an option.
SampleShape dataset_shape(const Spec& dataset, bool synthetic = false);
/// The same of `name` or `name[key=value,…]`.
SampleShape dataset_shape(const std::string& dataset, bool synthetic = false);

}  // namespace ddl
