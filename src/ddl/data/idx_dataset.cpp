#include "ddl/data/idx_dataset.h"

#include <algorithm>
#include <filesystem>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/data/idx.h"
#include "ddl/data/options.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;

const std::string kTrainImages = "train-images-idx3-ubyte";

/// The raw file, else the compressed one, else empty.
std::string find_part(const std::string& folder, const std::string& stem) {
  for (const auto* suffix : {"", ".gz"}) {
    std::error_code ignored;
    auto path = fs::path(folder) / (stem + suffix);
    if (fs::exists(path, ignored)) return path.string();
  }
  return {};
}

std::vector<std::string> places(const IdxSource& source, const DatasetOptions& options) {
  std::vector<std::string> system;
  if (!source.system_folder.empty()) system.push_back(source.system_folder);
  return data_places(source.name, options, system);
}

std::string require_part(const std::string& folder, const std::string& stem) {
  auto path = find_part(folder, stem);
  if (path.empty())
    throw Error(
        Code::not_found,
        fmt::format("[idx] {}/{}: no such file, nor with .gz; expected beside the training images", folder, stem));
  return path;
}

std::string sizes(std::span<const std::int64_t> dims) {
  std::string text;
  for (const auto dim : dims) text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text;
}

}  // namespace

ImageBytes read_idx_images(const std::string& images_path, const std::string& labels_path, const SampleShape& shape) {
  auto images = read_idx(images_path);
  auto labels = read_idx(labels_path);
  const auto refuse = [](const std::string& path, const std::string& what) {
    throw Error(Code::corrupt, fmt::format("[idx] {}: {}", path, what));
  };
  const std::int64_t n = images.dims.front();
  if (n == 0) refuse(images_path, "no samples; got 0, expected 1 or more");
  const std::vector<std::int64_t> planes{n, shape.channels, shape.height, shape.width};
  const std::vector<std::int64_t> grey{n, shape.height, shape.width};
  if (images.dims != planes && !(shape.channels == 1 && images.dims == grey))
    refuse(images_path, fmt::format("images of another shape; got {}, expected {}", sizes(images.dims),
                                    sizes(shape.channels == 1 ? grey : planes)));
  if (labels.dims.size() != 1)
    refuse(labels_path, fmt::format("labels of another shape; got {}, expected {}", sizes(labels.dims), n));
  if (labels.dims.front() != n)
    refuse(labels_path, fmt::format("as many labels as images are wanted; got {}, expected {} as in {}",
                                    labels.dims.front(), n, images_path));
  const auto wrong = std::find_if(labels.bytes.begin(), labels.bytes.end(),
                                  [&](std::uint8_t label) { return label >= shape.classes; });
  if (wrong != labels.bytes.end())
    refuse(labels_path, fmt::format("label out of range at byte {} (sample {}); got {}, expected 0 to {}",
                                    8 + (wrong - labels.bytes.begin()), wrong - labels.bytes.begin(), *wrong,
                                    shape.classes - 1));
  return {shape, std::move(images.bytes), std::move(labels.bytes)};
}

DatasetPair open_idx_dataset(const IdxSource& source, const DatasetOptions& options) {
  const auto looked_in = places(source, options);
  for (const auto& folder : looked_in) {
    const auto train_images = find_part(folder, kTrainImages);
    if (train_images.empty()) continue;
    const auto train_labels = require_part(folder, "train-labels-idx1-ubyte");
    const auto test_images = require_part(folder, "t10k-images-idx3-ubyte");
    const auto test_labels = require_part(folder, "t10k-labels-idx1-ubyte");
    auto train = read_idx_images(train_images, train_labels, source.shape);
    auto test = read_idx_images(test_images, test_labels, source.shape);
    auto normalisation = normalisation_of(train);
    DatasetPair pair;
    pair.train = std::make_unique<ImageSet>(std::move(train), normalisation);
    pair.test = std::make_unique<ImageSet>(std::move(test), std::move(normalisation));
    return pair;
  }
  throw Error(Code::not_found, fmt::format("[dataset] {}: {}, or use --synthetic", source.name, missing_idx_dataset(source, options)));
}

std::string missing_idx_dataset(const IdxSource& source, const DatasetOptions& options) {
  const auto looked_in = places(source, options);
  for (const auto& folder : looked_in)
    if (!find_part(folder, kTrainImages).empty()) return {};
  const auto package = source.package.empty() ? std::string("no Debian package has it")
                                              : fmt::format("Debian has it: apt-get install {}", source.package);
  return fmt::format("no {} or .gz; looked in: {}; {}", kTrainImages,
                     looked_in.empty() ? "nowhere (no folder given, DDLBENCH_DATA not set)" : join(looked_in, ", "), package);
}

}  // namespace ddl
