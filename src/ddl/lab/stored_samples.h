#pragma once

#include <optional>
#include <string>

#include "ddl/core/json.h"
#include "ddl/predict/step/loading.h"
#include "ddl/train/job.h"

namespace ddl {

/// Samples that are read from storage again in each epoch, as a prediction is asked to take them; else they are in memory, as data sets of ours are once they are open.
struct StoredSamples {
  bool asked = false;
  double bytes_per_s = 0;                ///< that storage gives a node; 0: as the profile says
  double sample_bytes = 0;               ///< 0: as usual_sample_bytes() says
  std::optional<double> making = {};     ///< s, of a loader's thread, for a sample; none: as the profile says
  bool shared = false;                   ///< one storage for all nodes; else each has its own
};

/// `50MB/s`, or `measured`: as the profile says. Errors: invalid_argument.
double storage_rate(const std::string& text);

/// Of a sample as it is usually stored: a byte for each value of an image and two for each word, with a label of one; of ImageNet's JPEG files the mean, 147.9 GB of the archive
/// ILSVRC2012_img_train.tar over 1,281,167 images.
double usual_sample_bytes(const std::string& dataset);

/// How a job's batches come to be on a machine. `per_node` as predict_job() has it.
/// Errors: not_found for what was not measured, naming the term and the probe; invalid_argument for samples that are made up, which no storage has.
Loading loading_of(const Job& job, const Json& machine, const StoredSamples& stored = {}, int per_node = 0);

}  // namespace ddl
