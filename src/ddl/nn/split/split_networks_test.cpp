// Takes minutes: deep networks in many divisions.
#include "ddl/nn/split/split_testing.h"

namespace ddl {
namespace {

TEST(SplitNetworks, ChannelsEqualTheWholeNetwork) {
  for (const int parts : {1, 2, 3, 4})
    for (const auto* network : {"smallcnn", "vgg11", "mobilenetv2", "resnet18"}) expect_equal(network, kColours, "split=channels", parts, 2);
  for (const auto* words : {"split=height+channels", "split=width+hidden", "split=hidden+vocabulary"}) expect_equal("vgg11", kColours, words, 3, 2);
}

TEST(SplitNetworks, HeightAndWidthEqualTheWholeNetwork) {
  for (const int parts : {1, 2, 3, 4})
    for (const auto* words : {"split=height", "split=width"}) {
      expect_equal("lenet", kDigits, words, parts);
      for (const auto* network : {"smallcnn", "vgg11", "mobilenetv2", "resnet18"}) expect_equal(network, kColours, words, parts, 2);
    }
  // Oblong images, whose stem has a 7x7 window, and with as many parts as there are rows at the end.
  expect_equal("resnet18", {3, 96, 64, 10}, "split=height", 3, 2);
  expect_equal("smallcnn", {3, 10, 7, 10}, "split=width", 7, 2);
}

TEST(SplitNetworks, MeshesEqualTheWholeNetwork) {
  for (const auto* words : {"split=height/channels", "split=channels/height", "split=height/width"}) {
    expect_equal("smallcnn", kColours, words, {2, 3}, 2);
    expect_equal("mobilenetv2", kColours, words, {2, 2}, 2);
    expect_equal("resnet18", kColours, words, {2, 3}, 2);
  }
  expect_equal("vgg11", kColours, "split=height/channels", {2, 2}, 2);
  expect_equal("resnet18", {3, 96, 64, 10}, "split=height/width/channels", {2, 2, 2}, 2);
  expect_equal("inceptionv3", {3, 107, 107, 10}, "split=channels/height", {2, 2}, 6, Run::joint, 1e-11);
  const SampleShape captions{3, 32, 32, 50, Objective::captioning, 0, 9};
  expect_equal("captioner[encoder=trained,depth=18,hidden=36]", captions, "split=height/channels", {2, 2}, 4);
}

// Branches joined along channels, an auxiliary head, average pools with padding; a frozen encoder, and an LSTM that runs whole.
TEST(SplitNetworks, BranchesAuxiliaryHeadsAndRecurrenceEqualTheWholeNetwork) {
  // With samples and pixels enough at the end: batch norm of two values that are nearly one is not a function that rounding leaves alone.
  const SampleShape images{3, 107, 107, 10}, captions{3, 32, 32, 50, Objective::captioning, 0, 9};
  expect_equal("inceptionv3", images, "split=channels", 2, 6);
  // 94 batch norms one after the other: what rounding differs by grows on the way.
  expect_equal("inceptionv3", images, "split=height", 2, 6, Run::joint, 1e-11);
  for (const auto* words : {"split=channels", "split=height+vocabulary"})
    for (const auto* encoder : {"frozen", "trained"}) expect_equal(fmt::format("captioner[encoder={},depth=18,hidden=36]", encoder), captions, words, 3, 4);
}

}  // namespace
}  // namespace ddl
