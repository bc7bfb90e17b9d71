#include <utility>

#include "ddl/train/allocator.h"
#include "ddl/train/device.h"

namespace ddl {
namespace {

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  at::Device where() const override { return at::kCPU; }
  bool is_host() const override { return true; }
  std::string pin(std::span<std::byte>) override { return {}; }
  void unpin(std::span<std::byte>) noexcept override {}
  at::Tensor upload(const at::Tensor& host) override { return host; }
  void upload_into(at::Tensor& to, const at::Tensor& host) override {
    if (!to.is_alias_of(host)) to.copy_(host);
  }
  void refill(at::Tensor& to, const at::Tensor& host) override { upload_into(to, host); }
  std::string why_no_graphs() const override { return "a processor does its work at once: there is nothing to record"; }
  Moment download(at::Tensor host, const at::Tensor& from) override {
    if (!host.is_alias_of(from)) host.copy_(from);
    return mark();
  }
  Moment mark() override { return Moment(now()); }
  void synchronize() override {}
  /// As our allocator counts, where it is installed.
  DeviceMemory memory() const override {
    const auto use = allocator_use();
    return {use.current, use.peak, use.refused};
  }
  void reset_peak() override { reset_allocator_peak(); }
  Json describe() const override { return nullptr; }  // the record's environment says what processor it is

 private:
  std::string name_;
};

}  // namespace

std::unique_ptr<Device> cpu_device(int, const DeviceOptions&) { return std::make_unique<CpuDevice>("cpu"); }
std::unique_ptr<Device> emulated_device(const std::string& name) { return std::make_unique<CpuDevice>(name); }

}  // namespace ddl
