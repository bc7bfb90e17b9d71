#pragma once

#include <memory>
#include <string>

#include "ddl/core/json.h"
#include "ddl/predict/step/cost_source.h"

namespace ddl {

/// What a plan's parts take on workers that are devices of a profile, by its datasheet: no layer was measured there. Worker w is device w mod `devices_per_node` of node
/// w / devices_per_node.
///  - matrix products by tiles and waves on GPUs (GpuKernels::gemm), convolutions and batch norms there by a roofline (images/roofline.h), else by the peak; attention's projections as products, between them a fused kernel that keeps no scores;
///  - all other layers by the bytes that they read and write; backward as twice that and two products;
///  - collectives as the profile's library does them within and across nodes; across, they share their nodes' wires, within, what each device has towards the others.
/// Of processors the shares of peak and bandwidth are the profile's `device.efficiency`.
/// `judges_gradient`: all of it is read before it is applied (clipping, a scaled loss).
/// Errors: those of gpu_of() and library_of(), naming the term that the profile lacks.
std::unique_ptr<CostSource> datasheet_source(const Json& machine, const std::string& precision, int optimizer_tensors, int devices_per_node = 0, bool judges_gradient = false);

/// Standard deviation of the logarithm of measured over predicted to be expected of it: docs/validation.md, "What `predict` says of these rows".
inline constexpr double kDatasheetSigma = 0.35;
bool convolves(const ModelGraph& graph);

/// What a device's driver, kernels and communicators take of its memory, of which tensors have the rest (machines/stacks/nvidia.json); 0 of processors.
double context_bytes(const Json& machine);

}  // namespace ddl
