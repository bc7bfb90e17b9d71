#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include "ddl/core/spec.h"
#include "ddl/core/statistics.h"
#include "ddl/measure/clock.h"
#include "ddl/nn/builtin.h"
#include "ddl/nn/network_testing.h"
#include "ddl/nn/past.h"
#include "ddl/train/allocator.h"
#include "ddl/train/speaker.h"

// Greedy decoding word by word beside computing all words for each new one, in turn, in fp32 on one thread. The weights are
// random and the end is never said, so that every sentence has as many words as there may be: what takes longest.
//
// usage: decode_bench [MODEL=transformer [SENTENCES=32 [WORDS=64 [ROUNDS=3]]]]
// prints: of both the median seconds, and their ratio

namespace ddl {
namespace {

/// Never ends a sentence.
class Endless final : public Speaker {
 public:
  explicit Endless(std::unique_ptr<Speaker> speaker) : speaker_(std::move(speaker)) {}
  at::Tensor next_logits(const at::Tensor& last) override {
    auto logits = speaker_->next_logits(last);
    logits.select(1, SampleShape::kEnd).fill_(-1e9);
    return logits;
  }
  void keep(const at::Tensor& sentences) override { speaker_->keep(sentences); }

 private:
  std::unique_ptr<Speaker> speaker_;
};

int compare(const std::string& model, std::int64_t sentences, std::int64_t words, int rounds) {
  const c10::NoGradGuard guard;
  at::set_num_threads(1);
  install_allocator(true);
  const auto spec = parse_spec(model);
  const int length = static_cast<int>(words) + 2;
  const SampleShape shape = spec.name == "captioner"
                                ? SampleShape{3, 64, 64, 33, Objective::captioning, 0, length}
                                : SampleShape{.classes = 8000, .objective = Objective::translation, .source_length = static_cast<int>(words), .target_length = length};
  Network network(builtin_models().at(spec.name).make(spec, shape), {});
  const auto input = made_up_samples(sentences, shape, at::kFloat).input;
  const auto device = make_device("cpu");
  std::vector<double> by_word, whole;
  for (int round = 0; round < rounds; ++round)
    for (auto* seconds : {&by_word, &whole}) {
      const auto begin = now();
      Endless speaker(seconds == &by_word ? make_word_speaker(network, input, words) : make_whole_speaker(network, input));
      decode_greedily(speaker, sentences, words, *device);
      seconds->push_back(static_cast<double>(now() - begin) / 1e9);
    }
  std::printf("%s, %lld sentences of %lld words: word by word %.3f s, all words each time %.3f s, %.1f times\n", model.c_str(),
              static_cast<long long>(sentences), static_cast<long long>(words), median(by_word), median(whole), median(whole) / median(by_word));
  return 0;
}

}  // namespace
}  // namespace ddl

int main(int count, char** arguments) {
  const auto number = [&](int place, int standard) { return count > place ? std::atoi(arguments[place]) : standard; };
  const int sentences = number(2, 32), words = number(3, 64), rounds = number(4, 3);
  if (count > 5 || sentences < 1 || words < 1 || rounds < 1) {
    std::fprintf(stderr, "usage: decode_bench [MODEL [SENTENCES [WORDS [ROUNDS]]]]\n");
    return 2;
  }
  return ddl::compare(count > 1 ? arguments[1] : "transformer", sentences, words, rounds);
}
