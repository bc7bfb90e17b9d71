#include "ddl/train/decode.h"

#include <set>

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "ddl/core/spec.h"
#include "ddl/data/dataset.h"
#include "ddl/nn/builtin.h"
#include "ddl/nn/graph_builder.h"
#include "ddl/nn/network_testing.h"
#include "ddl/nn/past.h"
#include "ddl/train/speaker.h"

namespace ddl {
namespace {

using Sentences = std::vector<std::vector<std::int64_t>>;
constexpr std::int64_t kWords = 10;

/// A speaker that follows a script for each sentence; what it would like best of all is padding.
class Script final : public Speaker {
 public:
  explicit Script(Sentences lines) : lines_(std::move(lines)), rows_(at::arange(static_cast<std::int64_t>(lines_.size()))) {}
  at::Tensor next_logits(const at::Tensor& last) override {
    EXPECT_TRUE(asked.size() > 0 || last.eq(SampleShape::kBegin).all().item<bool>());
    EXPECT_EQ(last.size(0), rows_.size(0));
    asked.push_back(rows_.size(0));
    auto logits = at::zeros({rows_.size(0), kWords});
    for (std::int64_t row = 0; row < rows_.size(0); ++row) {
      const auto& line = lines_[static_cast<std::size_t>(rows_[row].item<std::int64_t>())];
      logits[row][asked.size() <= line.size() ? line[asked.size() - 1] : 9] = 5;
      logits[row][SampleShape::kPadding] = 7;
      logits[row][SampleShape::kBegin] = 6;
    }
    return logits;
  }
  void keep(const at::Tensor& sentences) override { rows_ = rows_.index_select(0, sentences); }

  std::vector<std::int64_t> asked = {};  ///< sentences, at each place

 private:
  Sentences lines_;
  at::Tensor rows_;
};

TEST(Decode, EachSentenceEndsByItself) {
  Script script({{3, 4, SampleShape::kEnd}, {SampleShape::kEnd}, {5, 6, 7, SampleShape::kEnd}});
  EXPECT_EQ(decode_greedily(script, 3, 8, *make_device("cpu")), (Sentences{{3, 4}, {}, {5, 6, 7}}));
  EXPECT_EQ(script.asked, (std::vector<std::int64_t>{3, 2, 2, 1})) << "those that have ended are not asked any more";
}

// One of five is fewer than a quarter: it stays, and says nothing more.
TEST(Decode, SentencesLeaveByQuarters) {
  Script script({{3, 4, 5}, {3, 4, 5}, {SampleShape::kEnd}, {3, 4, 5}, {3, SampleShape::kEnd}});
  EXPECT_EQ(decode_greedily(script, 5, 3, *make_device("cpu")), (Sentences{{3, 4, 5}, {3, 4, 5}, {}, {3, 4, 5}, {3}}));
  EXPECT_EQ(script.asked, (std::vector<std::int64_t>{5, 5, 3}));
}

TEST(Decode, StopsAtTheLongest) {
  Script script({{3, 4, 5, 6}, {3, SampleShape::kEnd}});
  EXPECT_EQ(decode_greedily(script, 2, 3, *make_device("cpu")), (Sentences{{3, 4, 5}, {3}}));
  Script none({});
  EXPECT_EQ(decode_greedily(none, 0, 3, *make_device("cpu")), Sentences{});
}

// What was said decides what comes next: each word one more than the last, until 7.
class Counting final : public Speaker {
 public:
  at::Tensor next_logits(const at::Tensor& last) override {
    auto logits = at::zeros({last.size(0), kWords});
    for (std::int64_t i = 0; i < last.size(0); ++i) {
      const auto word = last[i].item<std::int64_t>();
      logits[i][word == SampleShape::kBegin ? 3 + i : word == 7 ? SampleShape::kEnd : word + 1] = 1;
    }
    return logits;
  }
  void keep(const at::Tensor&) override {}
};

TEST(Decode, GivesBackWhatWasSaid) {
  Counting counting;
  EXPECT_EQ(decode_greedily(counting, 2, 8, *make_device("cpu")), (Sentences{{3, 4, 5, 6, 7}, {4, 5, 6, 7}}));
}

/// The whole network, for all that was said, and no word of it kept.
class Plain final : public Speaker {
 public:
  Plain(Network& network, NetworkInput input) : network_(network), input_(std::move(input)) {}
  at::Tensor next_logits(const at::Tensor& last) override {
    input_.target = input_.target.defined() ? at::cat({input_.target, last.unsqueeze(1)}, 1) : last.unsqueeze(1);
    return network_.forward(input_, false).logits.select(1, input_.target.size(1) - 1).clone();
  }
  void keep(const at::Tensor& sentences) override {
    for (auto* part : {&input_.images, &input_.source, &input_.target})
      if (part->defined()) *part = part->index_select(0, sentences);
  }

 private:
  Network& network_;
  NetworkInput input_;
};

/// A random network says the same word for ever. This one is not let say a word twice in a row, and sentence i ends after
/// 5 i % 9 words.
class Restless final : public Speaker {
 public:
  Restless(std::unique_ptr<Speaker> speaker, std::int64_t n) : speaker_(std::move(speaker)), ends_(at::arange(n).mul(5).remainder(9)) {}
  at::Tensor next_logits(const at::Tensor& last) override {
    const double never = -1e9, now = 1e9;
    auto logits = speaker_->next_logits(last).scatter(1, last.unsqueeze(1), never);
    logits.select(1, SampleShape::kEnd).copy_(at::where(ends_.eq(places_++), at::scalar_tensor(now), at::scalar_tensor(never)));
    return logits;
  }
  void keep(const at::Tensor& sentences) override {
    speaker_->keep(sentences);
    ends_ = ends_.index_select(0, sentences);
  }

 private:
  std::unique_ptr<Speaker> speaker_;
  at::Tensor ends_;
  std::int64_t places_ = 0;
};

/// As a network starts, a sample hardly moves what is said of it. Here it does.
void listen(Network& network) {
  const auto names = network.parameter_names();
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i].find("multihead_attn.out_proj.weight") != std::string::npos || names[i] == "image.weight") network.parameters()[i].mul_(20);
}

Trial talking_trial(const std::string& name) {
  auto trial = small_trial(name);
  if (name == "transformer") trial.spec = "transformer[hidden=32,heads=4,layers=2]";
  if (name == "captioner") trial.shape.height = trial.shape.width = 8;
  trial.shape.classes = 12;
  trial.shape.target_length = 12;
  return trial;
}

// Word by word, or all words each time, with what does not depend on them computed once: what a plain forward says, for sources of different
// lengths, padded, and sentences that end and leave at different places.
TEST(Decode, SaysWhatTheWholeNetworkWouldSayWordByWord) {
  const c10::NoGradGuard guard;
  for (const auto* name : {"transformer", "captioner"}) {
    const auto trial = talking_trial(name);
    const auto spec = parse_spec(trial.spec);
    Network network(builtin_models().at(spec.name).make(spec, trial.shape), {at::kDouble, at::kCPU, Kernels::fast, 9});
    listen(network);
    constexpr std::int64_t n = 6;
    const auto longest = trial.shape.target_length - 2;
    auto input = made_up_samples(n, trial.shape, at::kDouble).input;
    input.target.reset();
    const auto device = make_device("cpu");
    const auto say = [&](std::unique_ptr<Speaker> speaker) {
      Restless restless(std::move(speaker), n);
      return decode_greedily(restless, n, longest, *device);
    };
    const auto expected = say(std::make_unique<Plain>(network, input));
    std::set<Sentences::value_type> beginnings;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(expected[i].size(), 5 * i % 9) << name;
      if (expected[i].size() >= 5) beginnings.insert({expected[i].begin(), expected[i].begin() + 5});
    }
    ASSERT_GE(beginnings.size(), 2U) << name << ": what is said depends on the sample";
    ASSERT_TRUE(goes_word_by_word(network.graph()));
    EXPECT_EQ(say(make_word_speaker(network, input, longest)), expected) << name;
    EXPECT_EQ(say(make_whole_speaker(network, input)), expected) << name;
    EXPECT_EQ(say(make_speaker(network, input, longest)), expected) << name;
  }
}

// A place that follows from later ones: all words are computed each time.
TEST(Decode, NetworksThatLookAheadDoNotGoWordByWord) {
  GraphBuilder net("ahead");
  const int words = net.embedding("table", net.input("target", InputPart::target, {7}), 20, 8, {});
  net.linear("output", net.self_attention("attention", words, {.heads = 2, .causal = false}), 20);
  EXPECT_FALSE(goes_word_by_word(std::move(net).finish()));
}

}  // namespace
}  // namespace ddl
