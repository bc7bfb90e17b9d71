// Takes minutes: deep networks in many divisions.
#include "ddl/nn/narrow_networks_testing.h"
#include "ddl/nn/split/split_testing.h"

namespace ddl {
namespace {

/// Of each family of images, at a few channels a layer.
std::vector<ModelGraph> narrow_ones() {
  using namespace testing;
  return {narrow_resnet({}, kColours), narrow_mobilenet({}, kColours), narrow_vgg({}, kColours)};
}

/// Every number of parts of narrow networks. What the depth and the width of published ones add is the same for all of these numbers.
void expect_equal_in_parts(const std::string& words) {
  for (const int parts : {1, 2, 3, 4}) {
    expect_equal("smallcnn", kColours, words, parts, 2);
    for (const auto& graph : narrow_ones()) expect_equal(graph, kColours, words, parts, 2);
  }
}

TEST(SplitNetworks, ChannelsEqualTheWholeNetwork) {
  expect_equal_in_parts("split=channels");
  for (const auto* network : {"vgg11", "mobilenetv2", "resnet18"}) expect_equal(network, kColours, "split=channels", 3, 2);
  for (const auto* words : {"split=height+channels", "split=width+hidden", "split=hidden+vocabulary"}) expect_equal(narrow_ones().back(), kColours, words, 3, 2);
}

TEST(SplitNetworks, HeightAndWidthEqualTheWholeNetwork) {
  for (const auto* words : {"split=height", "split=width"}) {
    for (const int parts : {1, 2, 3, 4}) expect_equal("lenet", kDigits, words, parts);
    expect_equal_in_parts(words);
  }
  expect_equal("vgg11", kColours, "split=height", 2, 2);
  expect_equal("mobilenetv2", kColours, "split=width", 3, 2);
  expect_equal("resnet18", kColours, "split=height", 4, 2);
  // Oblong images, whose stem has a 7x7 window, and with as many parts as there are rows at the end.
  expect_equal("resnet18", {3, 96, 64, 10}, "split=height", 3, 2);
  expect_equal("smallcnn", {3, 10, 7, 10}, "split=width", 7, 2);
}

TEST(SplitNetworks, MeshesEqualTheWholeNetwork) {
  for (const auto* words : {"split=height/channels", "split=channels/height", "split=height/width"}) {
    expect_equal("smallcnn", kColours, words, {2, 3}, 2);
    for (const auto& graph : narrow_ones()) expect_equal(graph, kColours, words, {2, 3}, 2);
  }
  expect_equal("resnet18", kColours, "split=height/channels", {2, 2}, 2);
  expect_equal("mobilenetv2", kColours, "split=channels/height", {2, 2}, 2);
  const SampleShape oblong{3, 96, 64, 10}, captions{3, 32, 32, 50, Objective::captioning, 0, 9};
  expect_equal(testing::wide_resnet({}, oblong), oblong, "split=height/width/channels", {2, 2, 2}, 2);
  expect_equal(testing::narrow_inception({}, kColours), kColours, "split=channels/height", {2, 2}, 6);
  expect_equal(testing::narrow_captioner(captions, false), captions, "split=height/channels", {2, 2}, 4);
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
