#include <cmath>

#include "ddl/core/error.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/images/steps.h"

namespace ddl {
namespace {

constexpr double kMs = 1e-3, kMegabyte = 1e6, kNodeOfEight = 8;

}  // namespace

/// tf_cnn_benchmarks' own ways to update variables. Devices of a node wait for the slowest; of the exchange inside a node a part is exposed that grows with its devices; between nodes it is in
/// proportion to log2(nodes) and the wire. Real data costs the host time that is not hidden, and updates on the GPUs contend with it.
ImageSeconds price_tensorflow(const ReplicaStep& step, const Json& stack) {
  const double megabytes = 4 * parameters_of(step.network) / kMegabyte, here = std::min(step.devices, step.per_node);
  ImageSeconds out;
  std::string update = "images.updates." + step.update + ".";
  if (!stack.at("images").at("updates").contains(step.update)) {
    update = "images.other_update.";
    out.notes.push_back(fmt::format("updates by '{}' were not measured; taken for a mean of those that were, and the interval is wider for it", step.update));
  }
  out.terms = {{"compute", step.alone}};
  if (step.devices > 1) {
    const double uneven = term(stack, step.nvlink ? "images.uneven_over_nvlink" : "images.uneven_over_pcie");
    out.terms.emplace_back("uneven devices", step.alone * uneven * (1 + term(stack, "images.uneven_per_doubling") * std::log2(here)));
    out.exposed = kMs * term(stack, update + "ms_per_mb") * megabytes * (here - 1) / here * std::pow(here / kNodeOfEight, term(stack, update + "power"));
    out.terms.emplace_back("gradients in a node", out.exposed);
    // Updates of another kind: nobody knows.
    if (update == "images.other_update.") out.stalls = out.exposed;
    double network = kMs * term(stack, "images.network_ms_per_mb") * megabytes * std::log2(step.nodes());
    if (step.network_bandwidth > 0) network *= term(stack, "images.network_gbps") * 1e9 / 8 / step.network_bandwidth;
    else if (step.nodes() > 1) out.notes.push_back(fmt::format("link_inter names no rate; {} Gb/s assumed between nodes", term(stack, "images.network_gbps")));
    out.terms.emplace_back("gradients between nodes", network);
  }
  if (step.reads) {
    double input = term(stack, "images.input_ms") * step.batch * here;
    if (step.devices > 1 && stack.at("images").at("updates").value(step.update, Json::object()).value("contends", false)) input += term(stack, "images.contention_ms_per_mb") * megabytes * here;
    out.terms.emplace_back("input", kMs * input);
  }
  return out;
}

}  // namespace ddl
