#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ddl/data/raw_images.h"

namespace ddl {

/// The raw side of a data set. Errors: unsupported where its samples are not bytes.
const RawImages& require_raw(const Dataset& dataset);

/// Writes a data set as `<stem>-images-idx3-ubyte` and `<stem>-labels-idx1-ubyte` (stem: train or t10k) in `folder`,
/// which exists: all samples, or those of `indices` in that order. Grey images have rank 3, others rank 4 (channels
/// second). Errors: io; unsupported where its samples are not bytes with a label of one byte; those of
/// Dataset::read.
void write_idx(const Dataset& dataset, const std::string& folder, const std::string& stem);
void write_idx(const Dataset& dataset, const std::string& folder, const std::string& stem,
               std::span<const std::int64_t> indices);

/// Both parts, and dataset.json: mean, std (a number per channel), shape [channels, height, width], classes.
void write_idx(const DatasetPair& pair, const std::string& folder);

}  // namespace ddl
