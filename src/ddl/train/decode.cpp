#include "ddl/train/decode.h"

#include <limits>

#include <c10/core/GradMode.h>

#include "ddl/data/dataset.h"

namespace ddl {

std::vector<std::vector<std::int64_t>> decode_greedily(const std::function<at::Tensor(const at::Tensor& said)>& next_logits, std::int64_t n,
                                                       std::int64_t longest, at::Device device) {
  const c10::NoGradGuard guard;
  std::vector<std::vector<std::int64_t>> sentences(static_cast<std::size_t>(n));
  auto said = at::full({n, 1}, SampleShape::kBegin, at::TensorOptions().dtype(at::kLong).device(device));
  std::vector<bool> ended(sentences.size(), false);
  std::size_t open = sentences.size();
  for (std::int64_t place = 0; place < longest && open > 0; ++place) {
    auto logits = next_logits(said).to(at::kFloat, false, true);
    for (const auto never : {SampleShape::kPadding, SampleShape::kBegin}) logits.select(1, never).fill_(-std::numeric_limits<float>::infinity());
    auto next = logits.argmax(1).to(at::kCPU);
    auto* const words = next.data_ptr<std::int64_t>();
    for (std::size_t i = 0; i < sentences.size(); ++i) {
      if (ended[i]) {
        words[i] = SampleShape::kPadding;
      } else if (words[i] == SampleShape::kEnd) {
        ended[i] = true;
        --open;
      } else {
        sentences[i].push_back(words[i]);
      }
    }
    said = at::cat({said, next.to(device).unsqueeze(1)}, 1);
  }
  return sentences;
}

std::vector<std::vector<std::int64_t>> decode_greedily(Network& network, const NetworkInput& input, int target_length) {
  const auto& given = input.source.defined() ? input.source : input.images;
  const auto next_logits = [&](const at::Tensor& said) {
    auto asked = input;
    asked.target = said;
    return network.forward(asked, false).logits.select(1, said.size(1) - 1);
  };
  return decode_greedily(next_logits, given.size(0), target_length - 2, given.device());
}

}  // namespace ddl
