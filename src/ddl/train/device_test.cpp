#include "ddl/train/device.h"

#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory_resource>
#include <optional>
#include <thread>
#include <vector>

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/core/modules.h"
#include "ddl/measure/gpus.h"
#include "ddl/train/allocator.h"
#include "ddl/train/cuda_first_testing.h"
#include "ddl/train/device_testing.h"
#include "ddl/train/devices/cuda_library.h"
#include "ddl/train/pinned_memory.h"

namespace ddl {
namespace {

/// Every device in turn, and says which, so that a log shows what was tested.
template <typename Body>
void on_every_device(const Body& body) {
  for (const auto& name : test_devices()) {
    SCOPED_TRACE(name);
    std::printf("device %s\n", name.c_str());
    const auto device = test_device(name);
    EXPECT_EQ(device->name(), name);
    body(*device);
  }
}

at::Tensor numbers(at::ScalarType type) { return at::arange(60, at::kLong).sub(20).to(type).reshape({3, 4, 5}); }

TEST(DeviceConformance, WhatIsUploadedComesBack) {
  on_every_device([](Device& device) {
    for (const auto type : {at::kFloat, at::kDouble, at::kLong, at::kHalf, at::kBFloat16}) {
      auto host = numbers(type);
      const auto there = device.upload(host);
      EXPECT_EQ(there.device(), device.where());
      EXPECT_EQ(there.scalar_type(), type);
      if (!device.is_host()) host.zero_();  // it has been read
      auto back = at::empty_like(host);
      device.download(back, there).wait();
      EXPECT_TRUE(at::equal(back, device.is_host() ? host : numbers(type))) << c10::toString(type);
    }
    EXPECT_EQ(device.upload(at::empty({0, 3})).sizes(), (at::IntArrayRef{0, 3}));
  });
}

TEST(DeviceConformance, CopiesKeepTheOrderOfComputation) {
  on_every_device([](Device& device) {
    auto there = device.upload(at::zeros({1 << 16}));
    auto host = at::empty({1 << 16});
    device.pin({static_cast<std::byte*>(host.data_ptr()), host.nbytes()});
    for (int round = 1; round <= 20; ++round) {
      there.add_(1);
      device.download(host, there).wait();  // what was queued before it
      EXPECT_EQ(host.min().item<float>(), static_cast<float>(2 * round - 1));
      EXPECT_EQ(host.max().item<float>(), static_cast<float>(2 * round - 1));
      host.add_(1);
      device.upload_into(there, host);      // what is queued after it sees it
      auto twice = there * 2;
      EXPECT_EQ(fetch(device, twice).min().item<float>(), static_cast<float>(4 * round));
      device.synchronize();
    }
    device.unpin({static_cast<std::byte*>(host.data_ptr()), host.nbytes()});
  });
}

TEST(DeviceConformance, AMomentMayBeWaitedForByAnyThreadAndCoversWhatCameBefore) {
  on_every_device([](Device& device) {
    auto first = at::empty({1000}), second = at::empty({1000});
    const auto there = device.upload(at::full({1000}, 3.0F));
    device.download(first, there);
    const auto last = device.download(second, there);
    std::thread([&] {
      last.wait();
      EXPECT_EQ(first.sum().item<float>(), 3000);
      EXPECT_EQ(second.sum().item<float>(), 3000);
    }).join();
    Moment().wait();
  });
}

TEST(DeviceConformance, MomentsTellTimesOfTheHostsClock) {
  on_every_device([](Device& device) {
    constexpr Nanoseconds kApart = 100'000;  // how well clocks agree
    auto work = device.upload(at::ones({256, 256}));
    device.synchronize();
    const auto before = now();
    const auto begin = device.mark();
    for (int i = 0; i < 20; ++i) work = at::mm(work, work).div_(256);
    const auto end = device.mark();
    end.wait();
    const auto after = now();
    EXPECT_GE(begin.time(), before - kApart);
    EXPECT_GT(end.time(), begin.time());
    EXPECT_LE(end.time(), after + kApart);
  });
}

TEST(DeviceConformance, FetchedTensorsAreDenseAndOnTheHost) {
  on_every_device([](Device& device) {
    const auto there = device.upload(numbers(at::kFloat));
    const auto fetched = fetch(device, there.transpose(0, 2));
    EXPECT_TRUE(fetched.is_cpu());
    EXPECT_EQ(fetched.strides(), there.transpose(0, 2).strides()) << "as it lies";
    EXPECT_TRUE(at::equal(fetched, numbers(at::kFloat).transpose(0, 2)));
  });
}

TEST(DeviceConformance, CountsWhatTensorsHold) {
  install_allocator(false);
  on_every_device([](Device& device) {
    if (device.name() == "delayed") return;  // its tensors are the processor's
    constexpr std::int64_t kBytes = 8 << 20;
    device.reset_peak();
    const auto before = device.memory();
    {
      const auto tensor = at::zeros({kBytes}, at::TensorOptions().dtype(at::kByte).device(device.where()));
      EXPECT_GE(device.memory().current, before.current + kBytes);
    }
    EXPECT_LT(device.memory().current, before.current + kBytes);
    EXPECT_GE(device.memory().peak, before.current + kBytes);
    device.reset_peak();
    EXPECT_LT(device.memory().peak, before.current + kBytes);
  });
}

TEST(DeviceConformance, Fp32IsFp32UnlessAskedForTf32) {
  on_every_device([](Device& device) {
    // TF32 keeps 10 bits: 1 + 2^-12 is lost in it.
    const auto x = device.upload(at::full({64, 64}, 1 + 0x1p-12F));
    EXPECT_EQ(fetch(device, at::mm(x, at::eye(64, x.options()))).min().item<float>(), 1 + 0x1p-12F);
    EXPECT_EQ(fetch(device, at::conv2d(x.reshape({1, 1, 64, 64}), at::ones({1, 1, 1, 1}, x.options()))).min().item<float>(), 1 + 0x1p-12F);
  });
  for (const auto& name : test_devices()) {
    if (!name.starts_with("cuda") || !known_gpus().all[0].has_tf32()) continue;
    const auto device = make_device(name, {.tf32 = true});
    const auto x = device->upload(at::full({64, 64}, 1 + 0x1p-12F));
    EXPECT_EQ(fetch(*device, at::mm(x, at::eye(64, x.options()))).min().item<float>(), 1.0F) << "tf32 was asked for";
    test_device(name);  // sets it back
  }
}

TEST(DelayedDevice, ShowsAMissingWaitAndAnEarlyWrite) {
  DelayedDevice device;
  auto host = at::zeros({4});
  const auto there = device.upload(at::ones({4}));
  const auto moment = device.download(host, there);
  EXPECT_TRUE(host.isnan().all().item<bool>()) << "nobody has waited";
  moment.wait();
  EXPECT_TRUE(at::equal(host, at::ones({4})));

  auto source = there.clone();
  const auto late = device.download(host, source);
  source.zero_();
  late.wait();
  EXPECT_TRUE(at::equal(host, at::zeros({4}))) << "a copy is carried out late";

  auto into = at::empty({4});
  device.upload_into(into, host);
  device.synchronize();
  EXPECT_EQ(device.faults(), 0);
  device.upload_into(into, host);
  host.fill_(7);
  device.synchronize();
  EXPECT_EQ(device.faults(), 1);
}

// Also by a thread that has never met the device, as loaders' have not.
TEST(DeviceConformance, PinnedMemoryIsReadWhereItLies) {
  on_every_device([](Device& device) {
    PinnedMemory memory(device);
    constexpr std::size_t kCount = 5000;
    std::optional<std::pmr::vector<float>> numbers;
    std::thread([&] { numbers.emplace(kCount, 2.0F, &memory); }).join();
    const auto host = at::from_blob(numbers->data(), {kCount}, at::kFloat);
    if (!device.is_host() && device.name() != "delayed") {
      EXPECT_TRUE(host.is_pinned());
    }
    auto there = device.upload(host);
    device.synchronize();
    EXPECT_EQ(fetch(device, there.sum()).item<float>(), 2.0F * kCount);
    host.fill_(3);
    device.refill(there, host);
    device.synchronize();
    EXPECT_EQ(fetch(device, there.sum()).item<float>(), 3.0F * kCount);
    if (const auto* const delayed = dynamic_cast<const DelayedDevice*>(&device); delayed != nullptr) {
      EXPECT_EQ(delayed->read_in_place(), 2);
    }
    std::thread([&] { numbers->resize(2 * kCount); }).join();
    numbers.reset();
  });
}

// What was queued before reads what was there, what is queued after it what came.
TEST(DeviceConformance, UploadsBesideComputationAreThereForWhatFollowsThem) {
  on_every_device([](Device& device) {
    PinnedMemory memory(device);
    constexpr std::size_t kCount = 1 << 20;
    std::pmr::vector<float> numbers(kCount, &memory);
    const auto host = at::from_blob(numbers.data(), {kCount}, at::kFloat);
    auto there = device.upload(at::zeros({kCount}));
    for (int round = 1; round <= 10; ++round) {
      const auto before = there.sum();
      const auto free = device.mark();
      host.fill_(round);
      const auto [begin, end] = device.upload_beside(there, host, free);
      device.follow(end);
      const auto after = there.sum();
      EXPECT_EQ(fetch(device, before).item<float>(), static_cast<float>(round - 1) * kCount);
      EXPECT_EQ(fetch(device, after).item<float>(), static_cast<float>(round) * kCount);
      EXPECT_LE(begin.time(), end.time());
    }
  });
}

TEST(PinnedMemory, IsWholePagesForAsLongAsItIsHeld) {
  DelayedDevice device;
  PinnedMemory memory(device);
  {
    std::pmr::vector<float> one(1, &memory), many(5000, &memory);
    EXPECT_EQ(device.pinned(), 2);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one.data()) % 4096, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(many.data()) % 4096, 0U);
    EXPECT_EQ(device.read_in_place(), 0);
    device.upload(at::from_blob(many.data() + 4000, {1000}, at::kFloat));
    EXPECT_EQ(device.read_in_place(), 1);
    device.upload(at::zeros({1000}));
    EXPECT_EQ(device.read_in_place(), 1);
    many.resize(10000);
    EXPECT_EQ(device.pinned(), 2);
    // What is written over too early is a fault.
    device.upload(at::from_blob(many.data(), {1000}, at::kFloat));
    many[0] = 1;
    device.synchronize();
    EXPECT_EQ(device.faults(), 1);
  }
  EXPECT_EQ(device.pinned(), 0);
}

/// One whose driver pins nothing.
class NeverPins final : public Device {
 public:
  std::string name() const override { return "never"; }
  at::Device where() const override { return at::kCPU; }
  bool is_host() const override { return false; }
  std::string pin(std::span<std::byte>) override { return "not today"; }
  void unpin(std::span<std::byte>) noexcept override { ++unpinned; }
  at::Tensor upload(const at::Tensor& host) override { return host.clone(); }
  void upload_into(at::Tensor& to, const at::Tensor& host) override { to.copy_(host); }
  void refill(at::Tensor& to, const at::Tensor& host) override { to.copy_(host); }
  Moment download(at::Tensor host, const at::Tensor& from) override {
    host.copy_(from);
    return Moment();
  }
  std::string why_no_graphs() const override { return "none"; }
  Moment mark() override { return Moment(); }
  void synchronize() override {}
  DeviceMemory memory() const override { return {}; }
  void reset_peak() override {}
  Json describe() const override { return {}; }
  int unpinned = 0;
};

TEST(PinnedMemory, IsGivenWhereNothingCanBePinned) {
  NeverPins device;
  PinnedMemory memory(device);
  {
    const std::pmr::vector<float> numbers(5000, 1.0F, &memory);
    EXPECT_EQ(numbers.back(), 1.0F);
  }
  EXPECT_EQ(device.unpinned, 0);
}

TEST(Devices, AreNamedAsJobsNameThem) {
  EXPECT_EQ(parse_device("cpu").kind, "cpu");
  EXPECT_EQ(parse_device("cuda:3").index, 3);
  EXPECT_EQ(parse_device("emulated:v100").kind, "emulated");
  EXPECT_EQ(parse_device("emulated:v100").profile, "v100");
  for (const auto* bad : {"cuda:", "cuda:x", "cuda:-1", "cuda:1x", "gpu:0", "", "emulated", "emulated:"}) EXPECT_THROW(parse_device(bad), Error) << bad;
}

bool process_has(std::string_view library) {
  std::pair<std::string_view, bool> search{library, false};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* given) {
        auto& [name, found] = *static_cast<std::pair<std::string_view, bool>*>(given);
        found |= std::string_view(info->dlpi_name).find(name) != std::string_view::npos;
        return 0;
      },
      &search);
  return search.second;
}

template <typename Body>
std::string refusal(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.code() == Code::unsupported ? error.what() : "";
  }
  return "";
}

// Run first in a process of its own (CMakeLists.txt): asking what there is must leave it able to fork workers.
TEST(DevicesBeforeForking, AskingWhatThereIsTouchesNoGpu) {
  const bool loaded = process_has("libtorch_cuda.so");  // where this is not the first test
  for (const auto& entry : builtin_devices().entries()) EXPECT_TRUE(entry.name == "cpu" ? entry.missing.empty() : true);
  refusal([] { require_device("cuda:0"); });
  refusal([] { require_precision("cuda:0", "tf32"); });
  if (loaded) GTEST_SKIP() << "another test of this process has loaded CUDA; ctest runs this one alone";
  EXPECT_FALSE(process_has("libcuda.so")) << "the driver is in this process";
  EXPECT_FALSE(process_has("libtorch_cuda.so")) << "loading it is for workers";
}

TEST(Devices, ThatAreNotHereAreUnsupportedWithTheReason) {
  const auto said = refusal([] { make_device("cuda:97"); });
  EXPECT_NE(said.find("unsupported: no device 'cuda:97'"), std::string::npos) << said;
  const auto* const why = cuda_library().empty()          ? "this LibTorch has no CUDA; got "
                          : known_gpus().all.empty() ? known_gpus().missing.c_str()
                                                     : "this machine has ";
  EXPECT_NE(said.find(why), std::string::npos) << said;
  EXPECT_NE(refusal([] { require_precision("cpu", "tf32"); }).find("tensor cores"), std::string::npos);
  require_precision("cpu", "bf16");
}

// As far as a build with CUDA goes where there is no GPU: its half of LibTorch loads late, after the other has been used, and counts none.
TEST(Devices, TheCudaHalfOfLibTorchLoadsWhereThereIsOne) {
  EXPECT_GT(at::ones({3}).sum().item<float>(), 0);
  if (cuda_library().empty()) {
    EXPECT_NE(refusal(load_cuda_library).find("this LibTorch has no CUDA"), std::string::npos);
    EXPECT_THROW(c10::impl::VirtualGuardImpl{at::kCUDA}, c10::Error);
    return;
  }
  load_cuda_library();
  EXPECT_TRUE(process_has("libtorch_cuda.so"));
  EXPECT_TRUE(at::detail::getCUDAHooks().isBuilt()) << "LibTorch was asked for CUDA before it was loaded, and remembers a no";
  EXPECT_NO_THROW(at::getDeviceAllocator(at::kCUDA));
  EXPECT_EQ(static_cast<std::size_t>(c10::impl::VirtualGuardImpl(at::kCUDA).deviceCount()), known_gpus().all.size());
  EXPECT_EQ(at::globalContext().hasCUDA(), !known_gpus().all.empty());
  if (known_gpus().all.empty()) { EXPECT_THROW(cuda_device(0, {}), c10::Error); }
}

// What a build without CUDA's headers lacks is told; with them the module must load beside this LibTorch, whether or not there is a GPU.
TEST(CudaGraphs, AreKnownOnceTheirModuleIsLoaded) {
  if (cuda_library().empty()) GTEST_SKIP() << "this LibTorch has no CUDA, and so no graphs of it";
  load_cuda_library();
  const auto why = load_cuda_graphs();
  const bool there = std::filesystem::exists(module_file("libddl_cuda_graphs.so"));
  EXPECT_EQ(why.empty(), there) << why;
  if (!there) {
    EXPECT_NE(why.find("there is no "), std::string::npos) << why;
  }
  std::printf("CUDA graphs: %s\n", there ? "known" : why.c_str());  // bench/gpu.py looks for it
}

// Run alone (CMakeLists.txt): a process that has trained before CUDA was loaded is told, not left to fail inside LibTorch.
TEST(DevicesTooLate, AProcessThatHasTrainedIsToldThatItIsTooLateForCuda) {
  if (cuda_library().empty()) GTEST_SKIP() << "this LibTorch has no CUDA to load";
  if (process_has("libtorch_cuda.so")) GTEST_SKIP() << "this process has loaded CUDA already; ctest runs this test alone";
  const auto x = at::ones({3}).requires_grad_(true);
  x.sum().backward();
  EXPECT_NE(refusal([] { cuda_device(0, {}); }).find("before CUDA was loaded"), std::string::npos);
}

}  // namespace
}  // namespace ddl
