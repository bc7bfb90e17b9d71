#include "ddl/train/decode.h"

#include <limits>
#include <numeric>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "ddl/data/dataset.h"
#include "ddl/train/speaker.h"

namespace ddl {

std::vector<std::vector<std::int64_t>> decode_greedily(Speaker& speaker, std::int64_t n, std::int64_t longest, Device& device) {
  const c10::NoGradGuard guard;
  std::vector<std::vector<std::int64_t>> sentences(static_cast<std::size_t>(n));
  std::vector<std::size_t> asked(sentences.size());  // of which sentence each row is
  std::iota(asked.begin(), asked.end(), std::size_t{0});
  std::vector<bool> ended(sentences.size(), false);
  std::size_t open = sentences.size();
  auto last = at::full({n}, SampleShape::kBegin, at::kLong);
  for (std::int64_t place = 0; place < longest && open > 0; ++place) {
    auto logits = speaker.next_logits(device.upload(last));
    for (const auto never : {SampleShape::kPadding, SampleShape::kBegin}) logits.select(1, never).fill_(-std::numeric_limits<float>::infinity());
    last = fetch(device, logits.argmax(1));
    const auto* const words = last.const_data_ptr<std::int64_t>();
    std::vector<std::int64_t> rows;
    for (std::size_t row = 0; row < asked.size(); ++row) {
      const auto sentence = asked[row];
      if (ended[sentence]) continue;
      if (words[row] == SampleShape::kEnd) {
        ended[sentence] = true;
        --open;
      } else {
        sentences[sentence].push_back(words[row]);
        rows.push_back(static_cast<std::int64_t>(row));
      }
    }
    // Leaving sentences out copies what is kept of the others: done by quarters, all copies together are four of the whole at most.
    if (open == 0 || 4 * open > 3 * asked.size()) continue;
    const auto kept = at::tensor(rows, at::kLong);
    std::vector<std::size_t> fewer;
    for (const auto row : rows) fewer.push_back(asked[static_cast<std::size_t>(row)]);
    asked = std::move(fewer);
    last = last.index_select(0, kept);
    speaker.keep(device.upload(kept));
  }
  return sentences;
}

std::vector<std::vector<std::int64_t>> decode_greedily(Network& network, Device& device, const NetworkInput& input, int target_length) {
  const c10::NoGradGuard guard;
  const auto n = (input.source.defined() ? input.source : input.images).size(0);
  const auto speaker = make_speaker(network, input, target_length - 2);
  return decode_greedily(*speaker, n, target_length - 2, device);
}

}  // namespace ddl
