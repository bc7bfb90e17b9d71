#include "ddl/predict/datasheet/compression_passes.h"

#include <iterator>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/core/spec.h"
#include "ddl/core/text.h"

namespace ddl {
namespace {

/// Around each: weighted elements are read and written (2), and what was lost is measured by reading both sides (2). With error feedback what was left is read and added (3) and written anew (1).
constexpr double kAround = 4, kFeedback = 4;

struct Passes {
  const char* name;
  double own;     ///< of compressing and of making elements again, of what was sent and of the result
  bool feedback;  ///< usually
};
constexpr Passes kPasses[] = {
    {"fp16", 1.5 + 1.5 + 1.5, false}, {"bf16", 1.5 + 1.5 + 1.5, false},  // each reads 4 bytes and writes 2, or the other way round
    {"int8", 1 + 1.25 + 1.25 + 1.25 + 1.25, false},                      // the largest; levels; what was sent, the result, and once more for the second rank's or the second compression
    {"top-k", 3 + 1 + 1 + 1, true},                                      // three digits of the threshold, what is above it, two buffers of zeros
    {"random-k", 1 + 1 + 1, true},                                       // whether all are finite, two buffers of zeros
    {"power-sgd", 1 + 1 + 2 * 2, true},                                  // M Q, M^T P, and P Q^T twice, each with its zeros
};

}  // namespace

double compression_passes(const std::string& compression) {
  const auto spec = parse_spec(compression);
  std::vector<std::string> names;
  for (const auto& each : kPasses) {
    names.emplace_back(each.name);
    if (spec.name != each.name) continue;
    const auto told = spec.options.find("feedback");
    const bool feedback = told == spec.options.end() ? each.feedback : told->second == "on";
    return kAround + each.own + (feedback ? kFeedback : 0);
  }
  throw Error(Code::not_found, fmt::format("[datasheet] what compressing gradients takes on a device was not counted; got {}, expected one of: {}", compression, join(names, " ")));
}

}  // namespace ddl
