#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/data/captions.h"
#include "ddl/data/dataset.h"
#include "ddl/data/idx_dataset.h"
#include "ddl/data/language.h"
#include "ddl/data/options.h"
#include "ddl/data/synthetic.h"
#include "ddl/data/translation.h"

namespace ddl {
namespace {

/// Images with labels, as published under a name.
struct Published {
  IdxSource source;
  std::int64_t train_samples;
  std::int64_t test_samples;
  std::string summary;
  bool files;        ///< a reader of its files is in this build
  bool sized = false;  ///< of photographs: networks take them at the size that they like
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
       "objects, 32x32 colour, 10 classes (Krizhevsky 2009)",
       false},
      {{"cifar100", {3, 32, 32, 100}, "", ""},
       50'000,
       10'000,
       "objects, 32x32 colour, 100 classes (Krizhevsky 2009)",
       false},
      {{"imagenet", {3, 224, 224, 1000}, "", ""},
       1'281'167,
       50'000,
       "photographs, 224x224 colour, 1,000 classes (Russakovsky et al. 2015); [size=224]",
       false,
       true},
      {{"highres", {3, 512, 512, 1000}, "", ""},
       100'000,
       5'000,
       "large images, 512x512 colour, 1,000 classes; [size=512]",
       false,
       true},
  };
  return all;
}

DatasetFactory images(const Published& known) {
  const auto shape = [known](const DatasetOptions& options) {
    auto shape_of = known.source.shape;
    require_options(known.source.name, options, known.sized ? std::vector<std::string>{"size"} : std::vector<std::string>{});
    if (known.sized)
      shape_of.height = shape_of.width =
          static_cast<int>(integer_option(known.source.name, options, "size", shape_of.height, 32, 4096));
    return shape_of;
  };
  const auto missing = [known](const DatasetOptions& options) {
    return known.files ? missing_idx_dataset(known.source, options)
                       : std::string("this build has no reader of its files");
  };
  const auto open = [known, shape, missing](const DatasetOptions& options) {
    const auto& source = known.source;
    const auto wanted = shape(options);
    if (options.synthetic)
      return make_synthetic(source.name, wanted, samples_option(options.train_samples, known.train_samples),
                            samples_option(options.test_samples, known.test_samples), options.seed);
    if (!known.files)
      throw Error(Code::unsupported, fmt::format("[dataset] unsupported: {} from files: {}; use --synthetic",
                                                 source.name, missing(options)));
    return open_idx_dataset(source, options);
  };
  return {open, shape, missing};
}

}  // namespace

Registry<DatasetFactory> builtin_datasets() {
  Registry<DatasetFactory> registry("dataset");
  for (const auto& known : published()) registry.add({known.source.name, known.summary, images(known)});
  registry.add(
      {"translation",
       "messages of Debian's programs and their translations, byte pairs; [from=en,to=de,vocabulary=8000,length=64]",
       {open_translation, translation_shape, missing_translation}});
  registry.add({"captions",
                "rendered scenes of coloured shapes with exact captions; [size=64]",
                {open_captions, captions_shape, [](const DatasetOptions&) { return std::string(); }}});
  registry.add({"language",
                "the English messages of Debian's programs as one stream of byte pairs; [vocabulary=8000,length=128]",
                {open_language, language_shape, missing_language}});
  return registry;
}

DatasetPair open_dataset(const Spec& dataset, DatasetOptions options) {
  options.options = dataset.options;
  return builtin_datasets().at(dataset.name).make.open(options);
}

SampleShape dataset_shape(const Spec& dataset, bool synthetic) {
  return builtin_datasets().at(dataset.name).make.shape({.synthetic = synthetic, .options = dataset.options});
}

SampleShape dataset_shape(const std::string& dataset, bool synthetic) {
  return dataset_shape(parse_spec(dataset), synthetic);
}

}  // namespace ddl
