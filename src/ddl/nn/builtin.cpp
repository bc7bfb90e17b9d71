#include "ddl/nn/builtin.h"

namespace ddl {

Registry<ModelFactory> builtin_models() {
  Registry<ModelFactory> models("model");
  models.add({"lenet", "LeNet-5 with ReLU and max pooling", lenet});
  models.add({"resnet18", "ResNet-18 with the stem for small images", resnet18});
  models.add({"null", "waits null[ms=10] and learns one linear layer: the harness measures itself with it", null_network});
  return models;
}

}  // namespace ddl
