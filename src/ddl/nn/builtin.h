#pragma once

#include <functional>

#include "ddl/core/registry.h"
#include "ddl/core/spec.h"
#include "ddl/data/dataset.h"
#include "ddl/nn/graph.h"

namespace ddl {

/// A network for samples of one shape. Errors: invalid_argument for unknown options and shapes that do not fit.
using ModelFactory = std::function<ModelGraph(const Spec& options, const SampleShape& shape)>;

/// Every network of ours. Those of plug-ins and files come through model.h.
Registry<ModelFactory> builtin_models();

/// The samples that a network was published for, by its name: those of `list models`. A network that is not ours is taken to be
/// for ImageNet.
SampleShape natural_shape(const std::string& model);

ModelGraph mlp(const Spec& options, const SampleShape& images);
ModelGraph lenet(const Spec& options, const SampleShape& images);
ModelGraph smallcnn(const Spec& options, const SampleShape& images);
ModelGraph resnet(int depth, const Spec& options, const SampleShape& images);     ///< 18, 34, 50, 101 or 152
ModelGraph resnet_v2(int depth, const Spec& options, const SampleShape& images);  ///< 50, 101 or 152
ModelGraph vgg(int depth, const Spec& options, const SampleShape& images);        ///< 11, 16 or 19
ModelGraph mobilenet_v2(const Spec& options, const SampleShape& images);
ModelGraph alexnet(const Spec& options, const SampleShape& images);
ModelGraph inception_v3(const Spec& options, const SampleShape& images);
ModelGraph transformer(const Spec& options, const SampleShape& sentences);
ModelGraph transformer_big(const Spec& options, const SampleShape& sentences);
ModelGraph gpt(const Spec& options, const SampleShape& text);
ModelGraph captioner(const Spec& options, const SampleShape& captions);
ModelGraph null_network(const Spec& options, const SampleShape& images);

}  // namespace ddl
