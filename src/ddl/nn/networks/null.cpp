#include <charconv>

#include "ddl/core/error.h"
#include "ddl/nn/builtin.h"
#include "ddl/nn/networks/common.h"

namespace ddl {
namespace {

double number_option(const Spec& options, const std::string& key, double standard, double high, const char* what) {
  const auto found = options.options.find(key);
  if (found == options.options.end()) return standard;
  double value = 0;
  const auto& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= 0 && value <= high))
    throw Error(Code::invalid_argument, fmt::format("[null] {} is not {}; got '{}', expected 0 to {:g}", key, what, text, high));
  return value;
}

}  // namespace

/// A workload whose cost is known: the mean of each channel, then `layers` times a linear layer, so that there is a gradient to exchange, and
/// a wait. What a step takes beyond the waits is the harness.
/// Options: layers (1); ms (10): milliseconds of each wait in forward; backward (0): what each takes in backward, times `ms`; weights (0): what the gradient of each
///          weight takes besides, which schedules that split the backward put off. With equal layers on each, stages of a pipeline take equal times: what a worker
///          stands idle is its schedule's doing.
ModelGraph null_network(const Spec& options, const SampleShape& images) {
  require_options(options, {"ms", "layers", "backward", "weights"});
  const double milliseconds = number_option(options, "ms", 10, 1e5, "a number of milliseconds");
  const double backward = number_option(options, "backward", 0, 1e3, "a number"), weights = number_option(options, "weights", 0, 1e3, "a number");
  const auto layers = whole_option(options, "layers", 1, 1, 10'000);
  auto net = for_images("null", images);
  int x = net.flatten("flatten", net.global_average_pool("avgpool", GraphBuilder::kInput));
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto suffix = layers == 1 ? "" : fmt::format(".{}", i);
    x = net.linear("fc" + suffix, x, i + 1 == layers ? images.classes : images.channels, {.milliseconds = milliseconds * weights});
    x = net.wait("wait" + suffix, x, milliseconds, backward);
  }
  return std::move(net).finish();
}

}  // namespace ddl
