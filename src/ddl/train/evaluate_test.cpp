#include "ddl/train/evaluate.h"

#include <cmath>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ddl/nn/builtin.h"
#include "ddl/transport/builtin.h"

namespace ddl {
namespace {

class Waves final : public Dataset {
 public:
  explicit Waves(int classes) : classes_(classes) {}
  std::int64_t size() const override { return 601; }  // three batches for one worker, unequal parts for two
  SampleShape shape() const override { return {1, 28, 28, classes_}; }
  std::int64_t read(std::int64_t index, float* image) const override {
    for (int i = 0; i < 784; ++i) image[i] = std::sin(0.01F * static_cast<float>((index + 1) * (i + 3)));
    return index % classes_;
  }
  std::string digest() const override { return "waves"; }

 private:
  int classes_;
};

Network lenet_for(const Dataset& data) { return {builtin_models().at("lenet").make({"lenet", {}}, data.shape()), {at::kFloat, at::kCPU, Kernels::fast, 3}}; }

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
  auto rendezvous = in_process_rendezvous(2);
  std::vector<Evaluation> found(2);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      auto own = lenet_for(data);
      Communicator communicator(builtin_transports().at("inproc").make(*rendezvous[rank], {}), Seconds{60});
      found[rank] = evaluate(own, data, &communicator, {});
      communicator.barrier().wait();
    });
  for (auto& thread : threads) thread.join();
  for (const auto& each : found) {
    EXPECT_EQ(each.top1, alone.top1);
    EXPECT_EQ(each.top5, alone.top5);
    EXPECT_NEAR(each.loss, alone.loss, 1e-6);
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
