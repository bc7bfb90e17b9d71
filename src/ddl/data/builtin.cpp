#include "ddl/core/text.h"
#include "ddl/data/dataset.h"
#include "ddl/data/idx_dataset.h"
#include "ddl/data/synthetic.h"

namespace ddl {
namespace {

/// What is published under a name.
struct Published {
  IdxSource source;
  std::int64_t train_samples;
  std::int64_t test_samples;
  std::string summary;
  bool files;  ///< a reader of its files is in this build
};

const std::vector<Published>& published() {
  static const std::vector<Published> all{
      {{"mnist", {1, 28, 28, 10}, "", ""},
       60'000,
       10'000,
       "handwritten digits, 28x28 grey, IDX files (LeCun et al. 1998)",
       true},
      {{"fashion-mnist", {1, 28, 28, 10}, "/usr/share/datasets/fashion-mnist", "dataset-fashion-mnist"},
       60'000,
       10'000,
       "clothes, 28x28 grey, IDX files (Xiao, Rasul & Vollgraf 2017)",
       true},
      {{"cifar10", {3, 32, 32, 10}, "", ""},
       50'000,
       10'000,
       "objects, 32x32 colour (Krizhevsky 2009); synthetic only for now",
       false},
  };
  return all;
}

DatasetPair open(const Published& known, const DatasetOptions& options) {
  const auto& source = known.source;
  if (options.synthetic)
    return make_synthetic(source.name, source.shape,
                          options.train_samples != 0 ? options.train_samples : known.train_samples,
                          options.test_samples != 0 ? options.test_samples : known.test_samples, options.seed);
  if (!known.files)
    throw Error(
        Code::unsupported,
        fmt::format("[dataset] unsupported: {} from files: this build has no reader of its format; use --synthetic",
                    source.name));
  return open_idx_dataset(source, options);
}

}  // namespace

Registry<DatasetFactory> builtin_datasets() {
  Registry<DatasetFactory> registry("dataset");
  for (const auto& known : published())
    registry.add(
        {known.source.name, known.summary, [known](const DatasetOptions& options) { return open(known, options); }});
  return registry;
}

SampleShape dataset_shape(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& known : published()) {
    if (known.source.name == name) return known.source.shape;
    names.push_back(known.source.name);
  }
  throw Error(Code::not_found, fmt::format("[dataset] unknown dataset '{}'{}; expected one of: {}", name,
                                           did_you_mean(name, names), join(names, " ")));
}

}  // namespace ddl
