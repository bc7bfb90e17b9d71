#include "ddl/data/idx_export.h"

#include <numeric>

#include "ddl/core/error.h"
#include "ddl/core/json.h"
#include "ddl/data/idx.h"

namespace ddl {

const RawImages& require_raw(const Dataset& dataset) {
  const auto* raw = dynamic_cast<const RawImages*>(&dataset);
  if (raw == nullptr)
    throw Error(Code::unsupported,
                "[dataset] unsupported: its samples are not bytes and cannot be written as IDX files");
  return *raw;
}

void write_idx(const Dataset& dataset, const std::string& folder, const std::string& stem) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(dataset.size()));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  write_idx(dataset, folder, stem, all);
}

void write_idx(const Dataset& dataset, const std::string& folder, const std::string& stem,
               std::span<const std::int64_t> indices) {
  const auto& raw = require_raw(dataset);
  const auto shape = dataset.shape();
  if (shape.objective != Objective::classification || shape.classes > 256)
    throw Error(Code::unsupported, fmt::format("[dataset] unsupported: IDX files hold images with a label of one byte; got {} classes, "
                                               "expected a classification of up to 256", shape.classes));
  const auto n = static_cast<std::int64_t>(indices.size());
  std::vector<std::int64_t> dims{n};
  if (shape.channels != 1) dims.push_back(shape.channels);
  dims.insert(dims.end(), {shape.height, shape.width});
  std::vector<std::uint8_t> labels(indices.size());
  write_idx(fmt::format("{}/{}-images-idx3-ubyte", folder, stem), dims, [&](std::int64_t i, std::uint8_t* image) {
    const auto at = static_cast<std::size_t>(i);
    labels[at] = static_cast<std::uint8_t>(raw.read_raw(indices[at], image));
  });
  write_idx(fmt::format("{}/{}-labels-idx1-ubyte", folder, stem), std::span(&n, 1),
            [&](std::int64_t i, std::uint8_t* label) { *label = labels[static_cast<std::size_t>(i)]; });
}

void write_idx(const DatasetPair& pair, const std::string& folder) {
  write_idx(*pair.train, folder, "train");
  write_idx(*pair.test, folder, "t10k");
  const auto& normalisation = require_raw(*pair.train).normalisation();
  const auto shape = pair.train->shape();
  const Json description{{"mean", normalisation.mean},
                         {"std", normalisation.deviation},
                         {"shape", {shape.channels, shape.height, shape.width}},
                         {"classes", shape.classes}};
  write_file(folder + "/dataset.json", description.dump(2) + "\n");
}

}  // namespace ddl
