#include "ddl/train/device.h"

#include "ddl/core/error.h"
#include "ddl/train/device_list.h"

namespace ddl {

Registry<DeviceFactory> builtin_devices() {
  Registry<DeviceFactory> devices("device");
  for (const auto& kind : device_kinds()) devices.add({kind.name, kind.summary, kind.name == "cpu" ? cpu_device : cuda_device, kind.missing});
  return devices;
}

std::unique_ptr<Device> make_device(const std::string& name, const DeviceOptions& options) {
  require_device(name);
  const auto [kind, index] = parse_device(name);
  return builtin_devices().at(kind).make(index, options);
}

at::Tensor fetch(Device& device, const at::Tensor& from) {
  const auto dense = from.detach().contiguous();
  if (device.is_host()) return dense;
  auto host = at::empty(dense.sizes(), dense.options().device(at::kCPU));
  device.download(host, dense).wait();
  return host;
}

}  // namespace ddl
