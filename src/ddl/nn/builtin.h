#pragma once

#include <functional>

#include "ddl/core/registry.h"
#include "ddl/core/spec.h"
#include "ddl/data/dataset.h"
#include "ddl/nn/graph.h"

namespace ddl {

/// A network for samples of one shape. Errors: invalid_argument for unknown options and shapes that do not fit.
using ModelFactory = std::function<ModelGraph(const Spec& options, const SampleShape& images)>;

/// lenet, resnet18, null.
Registry<ModelFactory> builtin_models();

ModelGraph lenet(const Spec& options, const SampleShape& images);
ModelGraph resnet18(const Spec& options, const SampleShape& images);
ModelGraph null_network(const Spec& options, const SampleShape& images);

}  // namespace ddl
