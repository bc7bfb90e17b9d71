#include <algorithm>
#include <cmath>

#include "ddl/core/error.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/images/steps.h"

namespace ddl {
namespace {

constexpr double kMs = 1e-3, kMegabyte = 1e6;

/// A gradient: seconds from the beginning of backward until it is there, and megabytes.
struct Gradient {
  double ready = 0, megabytes = 0;
};

/// In the order in which they appear. An operator's are there when its backward is done, by its share of the roofline; without overlap when all is done.
std::vector<Gradient> gradients_of(const ReplicaStep& step, double backward) {
  constexpr double kBytes = 4;
  const double total = step.device.sums(step.network).backward;
  std::vector<Gradient> out;
  double done = 0;
  for (auto each = step.network.rbegin(); each != step.network.rend(); ++each) {
    done += step.device.backward(*each);
    for (auto tensor = each->parameters.rbegin(); tensor != each->parameters.rend(); ++tensor) out.push_back({step.overlaps ? done / total * backward : backward, kBytes * *tensor / kMegabyte});
  }
  return out;
}

/// What a fused call costs the wire, and the compute beside it.
struct Calls {
  double call = 0, per_megabyte = 0, stall = 0, step = 0;
};

/// The group a call spans: two ranks, more in a node, more nodes.
std::string group_of(const ReplicaStep& step, const Json& stack) {
  if (step.nodes() > 1 && stack.at("images").contains("across")) return "images.across.";
  return step.devices == 2 ? "images.of_two." : "images.of_more.";
}

/// ms for each MB that a device gives: of a ring 2 (n - 1) / n of that go over each wire.
double per_megabyte(const ReplicaStep& step, const Json& stack, const std::string& group) {
  const double ring = 2.0 * (step.devices - 1) / step.devices;
  if (const double share = term_or(stack, group + "share_of_network", 0); share > 0) {
    const auto& gpu = step.device.gpu();
    const double wire = step.network_bandwidth > 0 ? step.network_bandwidth : gpu.network * gpu.per_node;
    return kMegabyte / std::min(share * wire, gpu.bus) / kMs * ring;
  }
  if (const double share = term_or(stack, group + "share_of_bus", 0); share > 0) return kMegabyte / (share * step.device.gpu().bus) / kMs * ring;
  // What NCCL took of one bus it takes of another in proportion; what goes through a host's memory does not mind.
  const double fitted_over = term_or(stack, group + "of_bus_bandwidth", 0);
  return term(stack, group + "ms_per_mb") * (fitted_over > 0 ? fitted_over / step.device.gpu().bus : 1) * ring;
}

/// `kernel`: seconds of a mean backward kernel. A collective's kernel waits until those that run on every rank end.
Calls calls_of(const ReplicaStep& step, const Json& stack, double kernel) {
  const auto group = group_of(step, stack);
  const auto of = [&](const char* name) { return term_or(stack, group + name, 0); };
  const double nodes = std::log2(step.nodes());
  Calls out;
  out.call = kMs * (of("call_ms") + of("call_ms_per_doubling_of_devices") * std::log2(step.devices) + of("call_ms_per_doubling_of_nodes") * nodes + of("call_ms_per_device") * step.devices);
  out.per_megabyte = kMs * per_megabyte(step, stack, group);
  out.stall = kMs * of("stall_ms") + (of("stall_kernels") + of("stall_kernels_per_doubling_of_nodes") * nodes) * kernel;
  out.step = kMs * of("step_ms");
  return out;
}

struct Exchanged {
  double wire_free = 0;  ///< from the beginning of backward
  double stalled = 0;
};

/// Each cycle fuses what is ready into a call of at most so many megabytes; one call at a time has the wire. Where calls do not queue, the cycle waits for its call. A stall delays all gradients after it.
Exchanged exchange(const std::vector<Gradient>& gradients, const Calls& calls, const Json& stack) {
  const double cycle = kMs * term(stack, "images.cycle_ms"), most = term(stack, "images.fusion_mb");
  const bool queues = stack.at("images").value("queues", true);
  Exchanged out;
  double clock = 0;
  for (std::size_t at = 0; at < gradients.size();) {
    clock += cycle;
    if (!queues) clock = std::max(clock, out.wire_free);
    if (const double ready = gradients[at].ready + out.stalled; ready > clock) {
      clock += std::floor((ready - clock) / cycle) * cycle;
      continue;
    }
    double size = 0;
    while (at < gradients.size() && gradients[at].ready + out.stalled <= clock && (size == 0 || size + gradients[at].megabytes <= most)) size += gradients[at++].megabytes;
    out.wire_free = std::max(out.wire_free, clock) + calls.call + calls.per_megabyte * size;
    out.stalled += calls.stall;
  }
  return out;
}

}  // namespace

/// Forward is a third of what one device takes, backward two; the step ends when backward and the last call have, and what the package costs each step is over.
ImageSeconds price_horovod(const ReplicaStep& step, const Json& stack) {
  const double fixed = kMs * term(stack, "images.step_ms"), backward = 2 * step.alone / 3;
  ImageSeconds out;
  if (step.devices == 1) {
    out.terms = {{"compute", step.alone}, {"package", fixed}};
    return out;
  }
  const auto calls = calls_of(step, stack, backward / (2 * static_cast<double>(step.network.size())));
  const auto exchanged = exchange(gradients_of(step, backward), calls, stack);
  out.stalls = exchanged.stalled;
  out.exposed = std::max(0.0, exchanged.wire_free - (backward + exchanged.stalled));
  out.terms = {{"compute", step.alone}, {"stalls", out.stalls}, {"gradients", out.exposed}, {"package", fixed + calls.step}};
  return out;
}

}  // namespace ddl
