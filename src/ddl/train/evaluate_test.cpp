#include "ddl/train/evaluate.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ddl/core/bleu.h"
#include "ddl/core/spec.h"
#include "ddl/data/sentences.h"
#include "ddl/nn/builtin.h"
#include "ddl/train/decode.h"
#include "ddl/train/device_testing.h"
#include "ddl/train/ranks_testing.h"

namespace ddl {
namespace {

class Waves final : public Dataset {
 public:
  explicit Waves(int classes, std::int64_t size = 601) : classes_(classes), size_(size) {}  // three batches for one worker, unequal parts for two
  std::int64_t size() const override { return size_; }
  SampleShape shape() const override { return {1, 28, 28, classes_}; }
  std::int64_t read(std::int64_t index, float* image) const override {
    for (int i = 0; i < 784; ++i) image[i] = std::sin(0.01F * static_cast<float>((index + 1) * (i + 3)));
    return index % classes_;
  }
  std::string digest() const override { return "waves"; }

 private:
  int classes_;
  std::int64_t size_;
};

Network lenet_for(const Dataset& data, at::Device where = at::kCPU) {
  return {builtin_models().at("lenet").make({"lenet", {}}, data.shape()), {at::kFloat, where, Kernels::fast, 3}};
}

/// On the processor, as all but the conformance of devices.
Evaluation evaluate(Network& network, const Dataset& data, Communicator* communicator, const EvaluateOptions& options) {
  return ddl::evaluate(network, *make_device("cpu"), data, communicator, options);
}

TEST(Evaluate, TakesNoMoreMemoryThanAStepOfTrainingOrSome) {
  const auto samples = [](const char* model, int side, std::int64_t training) {
    return evaluation_batch(builtin_models().at(model).make({model, {}}, {3, side, side, 10}), 4, training);
  };
  EXPECT_EQ(samples("lenet", 32, 8), 250);
  EXPECT_EQ(samples("lenet", 32, 4'000), 250);
  const auto resnet = samples("resnet50", 512, 2);
  EXPECT_LT(resnet, 4);
  EXPECT_EQ(samples("resnet50", 512, 32), 32);
  EXPECT_GE(samples("vgg16", 512, 1), 1);
}

TEST(Evaluate, IsTheSameInAnyNumberOfPieces) {
  const Waves data(10);
  auto network = lenet_for(data);
  const auto whole = evaluate(network, data, nullptr, {});
  EvaluateOptions options;
  options.batch = 7;
  const auto pieces = evaluate(network, data, nullptr, options);
  EXPECT_EQ(pieces.top1, whole.top1);
  EXPECT_NEAR(pieces.loss, whole.loss, 1e-6);
}

TEST(Evaluate, IsThatOfEverySampleCountedByHand) {
  const Waves data(10);
  auto network = lenet_for(data);
  double top1 = 0, top5 = 0, loss = 0;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    auto image = at::empty({1, 1, 28, 28});
    const auto label = data.read(i, image.data_ptr<float>());
    const auto logits = network.forward({image}, false).logits.detach()[0];
    const auto better = logits.gt(logits[label]).sum().item<std::int64_t>();
    top1 += better == 0 ? 1 : 0;
    top5 += better < 5 ? 1 : 0;
    loss -= logits.log_softmax(0)[label].item<double>();
  }
  const auto n = static_cast<double>(data.size());
  const auto alone = evaluate(network, data, nullptr, {});
  EXPECT_TRUE(alone.complete);
  EXPECT_EQ(alone.top1, top1 / n);
  EXPECT_EQ(alone.top5, top5 / n);
  EXPECT_NEAR(alone.loss, loss / n, 1e-5);
  EXPECT_FALSE(alone.tokens || alone.bleu);
}

TEST(Evaluate, WorkersAddUpToOne) {
  const Waves data(10);
  auto network = lenet_for(data);
  const auto alone = evaluate(network, data, nullptr, {});
  for (const auto& name : test_devices()) {
    const auto found = on_ranks(2, [&](Communicator& communicator) {
      const auto device = test_device(name);
      auto own = lenet_for(data, device->where());
      return ddl::evaluate(own, *device, data, &communicator, {});
    });
    // Elsewhere than on the processor sums round differently, and a sample may change sides.
    const double samples = name.starts_with("cuda") ? 1.0 / static_cast<double>(data.size()) : 0;
    for (const auto& each : found) {
      EXPECT_NEAR(each.top1.value(), alone.top1.value(), samples) << name;
      EXPECT_NEAR(each.top5.value(), alone.top5.value(), samples) << name;
      EXPECT_NEAR(each.loss, alone.loss, name.starts_with("cuda") ? 1e-4 : 1e-6) << name;
    }
  }
}

TEST(Evaluate, WorkersWithoutSamplesAddNothing) {
  const Waves data(10, 3);
  auto network = lenet_for(data);
  const auto alone = evaluate(network, data, nullptr, {});
  const auto found = on_ranks(5, [&](Communicator& communicator) {
    auto own = lenet_for(data);
    return evaluate(own, data, &communicator, {});
  });
  for (const auto& each : found) {
    EXPECT_TRUE(each.complete);
    EXPECT_EQ(each.top1, alone.top1);
    EXPECT_EQ(each.top5, alone.top5);
    EXPECT_NEAR(each.loss, alone.loss, 1e-6);
  }
}

/// Images and what is to be said about them: right answers are put in by the test.
class Captions final : public Dataset, public Sentences {
 public:
  std::vector<std::vector<std::string>> right = std::vector<std::vector<std::string>>(7);

  std::int64_t size() const override { return 7; }
  SampleShape shape() const override { return {3, 32, 32, 50, Objective::captioning, 0, 9}; }
  std::int64_t read(std::int64_t index, float* image) const override {
    for (int i = 0; i < 3 * 1024; ++i) image[i] = std::sin(0.01F * static_cast<float>((index + 1) * (i + 3)));
    return 0;
  }
  void read_words(std::int64_t index, std::int64_t*, std::int64_t* target) const override {
    const std::int64_t words = 2 + index % 3;
    for (std::int64_t i = 0; i < 9; ++i)
      target[i] = i == 0 ? SampleShape::kBegin : i <= words ? 3 + index + i : i == words + 1 ? SampleShape::kEnd : SampleShape::kPadding;
  }
  std::int64_t weight(std::int64_t index) const override { return 3 + index % 3; }
  std::string digest() const override { return "captions"; }
  std::string text(std::span<const std::int64_t> words) const override {
    std::string all;
    for (const auto word : words) all += fmt::format("{}w{}", all.empty() ? "" : " ", word);
    return all;
  }
  std::string source(std::int64_t) const override { return ""; }
  std::vector<std::string> references(std::int64_t index) const override { return right[static_cast<std::size_t>(index)]; }
};

Network captioner_for(const Dataset& data) {
  const auto spec = parse_spec("captioner[depth=18,hidden=16,encoder=trained]");
  return {builtin_models().at(spec.name).make(spec, data.shape()), {at::kFloat, at::kCPU, Kernels::fast, 3}};
}

// Some samples have what the network says as a right answer, others something near it, others something else.
TEST(Evaluate, ScoresWhatIsSaidAgainstEveryRightAnswer) {
  Captions data;
  auto network = captioner_for(data);
  BleuCounts counts;
  double right = 0, words = 0;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    NetworkInput input{at::empty({1, 3, 32, 32})};
    data.read(i, input.images.data_ptr<float>());
    const auto said = decode_greedily(network, *make_device("cpu"), input, data.shape().target_length).at(0);
    ASSERT_GE(said.size(), 5U) << "too short to have something of four words in common";
    auto near = said;
    near.back() = 49;
    data.right[static_cast<std::size_t>(i)] = i % 3 == 0   ? std::vector<std::string>{"w3 w4", data.text(said)}
                                              : i % 3 == 1 ? std::vector<std::string>{data.text(near) + " w48"}
                                                           : std::vector<std::string>{"nothing of the kind at all"};
    counts += bleu_counts(data.text(said), data.references(i));
    auto target = at::empty({1, 9}, at::kLong);
    data.read_words(i, nullptr, target.data_ptr<std::int64_t>());
    input.target = target.narrow(1, 0, 8);
    const auto guessed = network.forward(input, false).logits.argmax(2);
    for (std::int64_t place = 0; place < data.weight(i); ++place) right += guessed[0][place].item<std::int64_t>() == target[0][place + 1].item<std::int64_t>() ? 1 : 0;
    words += static_cast<double>(data.weight(i));
  }
  const auto alone = evaluate(network, data, nullptr, {});
  EXPECT_FALSE(alone.top1 || alone.top5);
  EXPECT_DOUBLE_EQ(alone.tokens.value(), right / words);
  EXPECT_DOUBLE_EQ(alone.bleu.value(), bleu(counts));
  EXPECT_GT(alone.bleu.value(), 20);
  EXPECT_LT(alone.bleu.value(), 90);

  const auto found = on_ranks(2, [&](Communicator& communicator) {
    auto own = captioner_for(data);
    return evaluate(own, data, &communicator, {});
  });
  for (const auto& each : found) {
    EXPECT_EQ(each.bleu, alone.bleu);
    EXPECT_EQ(each.tokens, alone.tokens);
  }
}

TEST(Evaluate, FiveOfFiveClassesSayNothing) {
  const Waves data(5);
  auto network = lenet_for(data);
  const auto result = evaluate(network, data, nullptr, {});
  EXPECT_TRUE(result.top1);
  EXPECT_FALSE(result.top5);
}

TEST(Evaluate, OneThatIsAskedToStopSaysSo) {
  const Waves data(10);
  auto network = lenet_for(data);
  EvaluateOptions options;
  int asked = 0;
  options.stop = [&] { return ++asked == 2; };
  EXPECT_FALSE(evaluate(network, data, nullptr, options).complete);
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace ddl
