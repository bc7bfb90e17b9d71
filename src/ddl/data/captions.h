#pragma once

#include "ddl/data/dataset.h"

namespace ddl {

/// Data set `captions`: rendered scenes of one to three objects on a textured background, each with a caption that says
/// exactly what is there (scene.h has the grammar). Options: size=64 (pixels a side, 16 … 1024).
/// Sample i is a pure function of (seed, part, i): nothing is stored, any worker can make any sample. 40,000 training and 4,000 test
/// scenes from a seed of their own; made up (`synthetic`), as many as asked for from the run's seed. Both parts have
/// Sentences, with every way in which the grammar says the scene as a reference, and RawImages.
/// Errors: invalid_argument on an option or a negative size.
DatasetPair open_captions(const DatasetOptions& options);

SampleShape captions_shape(const DatasetOptions& options);

}  // namespace ddl
