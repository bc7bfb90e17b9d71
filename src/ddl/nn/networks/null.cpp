#include <charconv>

#include "ddl/core/error.h"
#include "ddl/nn/builtin.h"
#include "ddl/nn/networks/common.h"

namespace ddl {

/// A workload whose cost is known: it waits `ms` milliseconds (10 unless told) in forward, then averages each channel
/// into one linear layer, so that there is a gradient to exchange. What a step takes beyond the wait is the harness.
ModelGraph null_network(const Spec& options, const SampleShape& images) {
  require_options(options, {"ms"});
  double milliseconds = 10;
  if (const auto found = options.options.find("ms"); found != options.options.end()) {
    const auto& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), milliseconds);
    if (error != std::errc{} || end != text.data() + text.size() || !(milliseconds >= 0 && milliseconds <= 1e5))
      throw Error(Code::invalid_argument, fmt::format("[null] ms is not a number of milliseconds; got '{}', expected 0 to 100000", text));
  }
  auto net = for_images("null", images);
  int x = net.wait("wait", GraphBuilder::kInput, milliseconds);
  x = net.flatten("flatten", net.global_average_pool("avgpool", x));
  net.linear("fc", x, images.classes);
  return std::move(net).finish();
}

}  // namespace ddl
