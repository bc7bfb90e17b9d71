#pragma once

#include <string>

#include "ddl/data/image_set.h"

namespace ddl {

/// One data set that is published as four IDX files.
struct IdxSource {
  std::string name;
  SampleShape shape;
  std::string system_folder;  ///< where a Debian package puts it; empty where none does
  std::string package;        ///< that package
};

/// The pair in `options.folder`, else $DDLBENCH_DATA/<name>, else the system folder: the first that has a file of
/// training images. Files are train-images-idx3-ubyte, train-labels-idx1-ubyte and the same with t10k-, each raw or
/// .gz. Both parts are normalised with mean and deviation of the training images. Errors: not_found naming every place
/// looked in; those of read_idx; corrupt where files do not fit each other.
DatasetPair open_idx_dataset(const IdxSource& source, const DatasetOptions& options);

/// Why it would answer not_found, in a line; empty where there is a file of training images.
std::string missing_idx_dataset(const IdxSource& source, const DatasetOptions& options);

/// One part: images [n, height, width] or [n, channels, height, width], labels [n].
/// Errors: those of read_idx; corrupt on another shape, no samples, counts that differ, a label out of range.
ImageBytes read_idx_images(const std::string& images_path, const std::string& labels_path, const SampleShape& shape);

}  // namespace ddl
