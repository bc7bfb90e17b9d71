#include "ddl/strategy/own_options.h"

#include <algorithm>

#include "ddl/core/error.h"
#include "ddl/core/text.h"

namespace ddl {
namespace {

/// Where an option belongs, and what gives its user what it stands for: with the value in place of {}.
struct Home {
  const char *option, *of, *expected;
};

constexpr Home kHomes[] = {
    {"in-process", "data", "strategy data[in-process={}]"},
    {"compress", "data", "strategy data[compress={}]"},
    {"bucket", "data, local and sharded[level=1|2]", "strategy data[bucket={}]"},
    {"first-bucket", "data and local", "strategy data[first-bucket={}]"},
    {"overlap", "data and sharded[level=1|2]", "strategy data[overlap={}]"},
    {"collective", "data, local and sharded", "--collective {}, which goes with every strategy"},
    {"schedule", "pipeline, and of hybrid with axis pipeline", "strategy pipeline[schedule={}]"},
    {"micro", "pipeline, and of hybrid with axis pipeline", "--accumulate {}, which cuts each worker's part of a batch into micro-batches"},
    {"chunks", "pipeline, and of hybrid with axis pipeline", "strategy pipeline[schedule=interleaved-1f1b,chunks={}]"},
    {"replicas", "pipeline", "strategy pipeline[replicas={}]"},
    {"bandwidth", "pipeline", "strategy pipeline[balance=pipedream,bandwidth={}]"},
    {"machines", "pipeline", "strategy pipeline[balance=pipedream,machines={}]"},
    {"batch-norm", "pipeline, and of hybrid with axis pipeline", "strategy pipeline[batch-norm={}]"},
    {"stages", "model, pipeline, and hybrid with axis pipeline", "strategy pipeline[stages={}]"},
    {"balance", "model, pipeline, and hybrid with axis pipeline", "strategy pipeline[balance={}]"},
    {"recompute", "model, pipeline, tensor, sharded and hybrid", "--recompute, which goes with every strategy"},
    {"split", "tensor, and of hybrid with axis tensor", "strategy tensor[split={}]"},
    {"mesh", "tensor", "strategy tensor[mesh={0}] or hybrid[tensor={0}]"},
    {"sequence", "tensor, and of hybrid with axis tensor", "strategy tensor[sequence={}]"},
    {"level", "sharded, and of hybrid with axis sharded", "strategy sharded[level={}]"},
    {"unit", "sharded[level=3]", "strategy sharded[level=3,unit={}]"},
    {"prefetch", "sharded[level=3]", "strategy sharded[level=3,prefetch={}]"},
    {"reshard", "sharded[level=3]", "strategy sharded[level=3,reshard={}]"},
    {"data", "hybrid: an axis of its mesh", "strategy hybrid[data={}]"},
    {"pipeline", "hybrid: an axis of its mesh", "strategy hybrid[pipeline={}]"},
    {"tensor", "hybrid: an axis of its mesh", "strategy hybrid[tensor={}]"},
    {"sharded", "hybrid: an axis of its mesh", "strategy hybrid[sharded={}]"},
    {"every", "local", "strategy local[every={}]"},
    {"post", "local", "strategy local[post={}]"},
    {"average", "local", "strategy local[average={}]"},
    {"topology", "local", "strategy local[average=gossip,topology={}]"},
    {"momentum", "local", "strategy local[momentum={}]"},
    {"sync", "parameter-server", "strategy parameter-server[sync={}]"},
    {"async", "parameter-server", "strategy parameter-server[async={}]"},
    {"stale", "parameter-server", "strategy parameter-server[stale={}]"},
    {"servers", "parameter-server", "strategy parameter-server[servers={}]"},
};

}  // namespace

void require_own_options(const Spec& spec, const std::vector<std::string>& own, const WhyNot& why_not) {
  for (const auto& [key, value] : spec.options) {
    if (std::find(own.begin(), own.end(), key) != own.end()) continue;
    if (const auto why = why_not.find(key); why != why_not.end())
      throw Error(Code::invalid_argument, fmt::format("[{}] {}; got {}={}, expected {}", spec.name, why->second.reason, key, value, why->second.expected));
    const auto home = std::find_if(std::begin(kHomes), std::end(kHomes), [&](const Home& each) { return key == each.option; });
    if (home != std::end(kHomes))
      throw Error(Code::invalid_argument, fmt::format("[{}] {} is an option of {}; got {}={} with {}, expected {}, or of {} {}", spec.name, key, home->of, key, value, spec.name,
                                                      fmt::format(fmt::runtime(home->expected), value), spec.name, own.empty() ? "no option" : "one of: " + join(own, " ")));
  }
  require_options(spec, own);
}

}  // namespace ddl
