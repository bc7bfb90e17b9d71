#include "ddl/nn/builtin.h"

namespace ddl {
namespace {

using Family = ModelGraph (*)(int depth, const Spec&, const SampleShape&);

ModelFactory member(Family family, int depth) {
  return [family, depth](const Spec& options, const SampleShape& images) { return family(depth, options, images); };
}

}  // namespace

Registry<ModelFactory> builtin_models() {
  Registry<ModelFactory> models("model");
  models.add({"mlp", "perceptron, mlp[hidden=512,layers=2]", mlp});
  models.add({"lenet", "LeNet-5 with ReLU and max pooling", lenet});
  models.add({"smallcnn", "two convolutions and two linear layers", smallcnn});
  for (const int depth : {18, 34, 50, 101, 152})
    models.add({fmt::format("resnet{}", depth), fmt::format("ResNet-{} v1 (stride in the 3x3 convolution)", depth), member(resnet, depth)});
  for (const int depth : {50, 101})
    models.add({fmt::format("resnet{}v2", depth), fmt::format("ResNet-{} v2 (pre-activation)", depth), member(resnet_v2, depth)});
  for (const int depth : {11, 16}) models.add({fmt::format("vgg{}", depth), fmt::format("VGG-{} without batch norm", depth), member(vgg, depth)});
  models.add({"mobilenetv2", "MobileNetV2, width 1", mobilenet_v2});
  models.add({"alexnet", "AlexNet, one tower", alexnet});
  models.add({"inceptionv3", "Inception V3 with its auxiliary head; images of 75x75 and more", inception_v3});
  models.add({"transformer", "Transformer base, for translation", transformer});
  models.add({"transformer-big", "Transformer big, for translation", transformer_big});
  models.add({"gpt", "decoder for text, gpt[hidden=768,layers=12,heads=12,seq=N,vocab=N]", gpt});
  models.add({"captioner", "ResNet-152 and an LSTM, for captions; captioner[encoder=frozen|trained]", captioner});
  models.add({"null", "waits and learns a linear layer, null[ms=10,layers=1,backward=0,weights=0] times: the harness measures itself with it", null_network});
  return models;
}

SampleShape natural_shape(const std::string& model) {
  if (model == "lenet" || model == "mlp" || model == "null") return {1, 28, 28, 10};
  if (model == "smallcnn") return {3, 32, 32, 10};
  if (model == "inceptionv3") return {3, 299, 299, 1000};
  // Vaswani et al. 2017, section 5.1: 37,000 words; sentences of WMT have about 30.
  if (model == "transformer" || model == "transformer-big") return {.classes = 37000, .objective = Objective::translation, .source_length = 64, .target_length = 65};
  if (model == "gpt") return {.classes = 50257, .objective = Objective::language, .target_length = 1025};
  // MS COCO with the words that occur five times.
  if (model == "captioner") return {3, 224, 224, 10000, Objective::captioning, 0, 21};
  return {3, 224, 224, 1000};
}

}  // namespace ddl
