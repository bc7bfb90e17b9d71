#include "ddl/train/device.h"

#include "ddl/core/error.h"
#include "ddl/train/device_list.h"

namespace ddl {

namespace {

DeviceFactory maker_of(const std::string& kind) { return kind == "cuda" ? cuda_device : cpu_device; }

}  // namespace

Registry<DeviceFactory> builtin_devices() {
  Registry<DeviceFactory> devices("device");
  for (const auto& kind : device_kinds()) devices.add({kind.name, kind.summary, maker_of(kind.name), kind.missing});
  return devices;
}

/// Not by the registry: that asks for GPUs, which a worker on cpu need not.
std::unique_ptr<Device> make_device(const std::string& name, const DeviceOptions& options) {
  require_device(name);
  const auto [kind, index, profile] = parse_device(name);
  return kind == "emulated" ? emulated_device(name) : maker_of(kind)(index, options);
}

std::pair<Moment, Moment> Device::upload_beside(at::Tensor& to, const at::Tensor& host, const Moment&) {
  const auto begin = mark();
  refill(to, host);
  return {begin, mark()};
}

void Device::follow(const Moment&) {}

std::unique_ptr<DeviceGraph> Device::record(const DeviceGraph::Work&, const DeviceGraph*) {
  throw Error(Code::unsupported, fmt::format("[device] unsupported: {} records no work: {}", name(), why_no_graphs()));
}

Milestone Device::milestone() { throw Error(Code::unsupported, fmt::format("[device] {} records nothing", name())); }

Moment Device::download_after(at::Tensor, const at::Tensor&, const Milestone&) { throw Error(Code::unsupported, fmt::format("[device] {} has recorded nothing", name())); }

at::Tensor fetch(Device& device, const at::Tensor& from) {
  auto dense = from.detach();
  if (!dense.is_non_overlapping_and_dense()) dense = dense.contiguous();
  if (device.is_host()) return dense;
  auto host = at::empty_strided(dense.sizes(), dense.strides(), dense.options().device(at::kCPU));
  device.download(host, dense).wait();
  return host;
}

}  // namespace ddl
