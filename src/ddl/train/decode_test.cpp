#include "ddl/train/decode.h"

#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "ddl/core/spec.h"
#include "ddl/data/dataset.h"
#include "ddl/nn/builtin.h"
#include "ddl/nn/network_testing.h"

namespace ddl {
namespace {

using Sentences = std::vector<std::vector<std::int64_t>>;
constexpr std::int64_t kWords = 10;

/// A speaker that follows a script for each sentence; what it would like best of all is padding.
struct Script {
  Sentences lines;
  std::vector<std::int64_t> asked = {};
  at::Tensor operator()(const at::Tensor& said) {
    const auto place = said.size(1) - 1;
    asked.push_back(place);
    auto logits = at::zeros({said.size(0), kWords});
    for (std::int64_t i = 0; i < said.size(0); ++i) {
      EXPECT_EQ(said[i][0].item<std::int64_t>(), SampleShape::kBegin);
      const auto& line = lines[static_cast<std::size_t>(i)];
      const auto word = place < static_cast<std::int64_t>(line.size()) ? line[static_cast<std::size_t>(place)] : 9;
      logits[i][word] = 5;
      logits[i][SampleShape::kPadding] = 7;
      logits[i][SampleShape::kBegin] = 6;
    }
    return logits;
  }
};

TEST(Decode, EachSentenceEndsByItself) {
  Script script{{{3, 4, SampleShape::kEnd}, {SampleShape::kEnd}, {5, 6, 7, SampleShape::kEnd}}};
  EXPECT_EQ(decode_greedily(std::ref(script), 3, 8, at::kCPU), (Sentences{{3, 4}, {}, {5, 6, 7}}));
  EXPECT_EQ(script.asked.size(), 4U) << "no word is asked for once all have ended";
}

TEST(Decode, StopsAtTheLongest) {
  Script script{{{3, 4, 5, 6}, {3, SampleShape::kEnd}}};
  EXPECT_EQ(decode_greedily(std::ref(script), 2, 3, at::kCPU), (Sentences{{3, 4, 5}, {3}}));
  EXPECT_EQ(decode_greedily(std::ref(script), 0, 3, at::kCPU), Sentences{});
}

// What was said decides what comes next: each word one more than the last, until 7.
TEST(Decode, GivesBackWhatWasSaid) {
  const auto counts = [](const at::Tensor& said) {
    auto logits = at::zeros({said.size(0), kWords});
    for (std::int64_t i = 0; i < said.size(0); ++i) {
      const auto last = said[i][-1].item<std::int64_t>();
      logits[i][last == SampleShape::kBegin ? 3 + i : last == 7 ? SampleShape::kEnd : last == SampleShape::kPadding ? 9 : last + 1] = 1;
    }
    return logits;
  };
  EXPECT_EQ(decode_greedily(counts, 2, 8, at::kCPU), (Sentences{{3, 4, 5, 6, 7}, {4, 5, 6, 7}}));
}

// What is kept of the encoder, and left out of the last layer, changes nothing.
TEST(Decode, SaysWhatTheWholeNetworkWouldSayWordByWord) {
  for (const auto* name : {"transformer", "captioner"}) {
    const auto trial = small_trial(name);
    const auto spec = parse_spec(trial.spec);
    Network network(builtin_models().at(spec.name).make(spec, trial.shape), {at::kDouble, at::kCPU, Kernels::fast, 9});
    const auto input = made_up_samples(3, trial.shape, at::kDouble).input;
    const auto whole = [&](const at::Tensor& said) {
      auto asked = input;
      asked.target = said;
      const c10::NoGradGuard guard;
      return network.forward(asked, false).logits.select(1, said.size(1) - 1);
    };
    const auto expected = decode_greedily(whole, 3, trial.shape.target_length - 2, at::kCPU);
    EXPECT_EQ(decode_greedily(network, input, trial.shape.target_length), expected) << name;
    ASSERT_FALSE(expected[0].empty()) << name;
  }
}

}  // namespace
}  // namespace ddl
