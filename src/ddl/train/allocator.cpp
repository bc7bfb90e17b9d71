#include "ddl/train/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

namespace ddl {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kHugeBlock = std::size_t{4} << 20;
constexpr unsigned kSmallestBits = 9;  // 512 bytes and less are one class

/// Lies in front of every block, and fills one cache line so that the data behind it stays aligned.
struct alignas(kAlignment) Header {
  std::size_t size = 0;  ///< of the whole block
  std::uint32_t size_class = 0;
  std::uint32_t account = 0;  ///< of whoever asked for it; 0: nobody's
};

/// Of the calling thread.
thread_local std::uint32_t own_account = 0;

/// Eight classes per doubling of what is asked for: at most an eighth of a block is waste, and of a power of two, as most values are, nothing. The
/// header comes on top: within the class it would make each such block an eighth larger.
std::uint32_t size_class(std::size_t bytes) {
  const std::size_t needed = std::max(bytes, std::size_t{1} << kSmallestBits);
  const auto bits = static_cast<unsigned>(std::bit_width(needed - 1));
  const unsigned base = bits - 1;
  const std::size_t step = std::size_t{1} << (base - 3);
  const std::size_t eighths = (needed - (std::size_t{1} << base) + step - 1) / step;
  return static_cast<std::uint32_t>((base - (kSmallestBits - 1)) * 8 + eighths);
}
std::size_t class_size(std::uint32_t number) {
  const unsigned base = number / 8 + (kSmallestBits - 1);
  return (std::size_t{1} << base) + (number % 8) * (std::size_t{1} << (base - 3));
}

class CountingAllocator final : public c10::Allocator {
 public:
  void use_cache(bool cache) {
    const std::lock_guard lock(mutex_);
    cache_ = cache;
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &release, cpu};
    auto* header = take(bytes);
    void* data = header + 1;
    return {data, data, &release, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t count) const override { std::memcpy(to, from, count); }

  void open(std::uint32_t account) {
    const std::lock_guard lock(mutex_);
    if (accounts_.size() <= account) accounts_.resize(account + 1);
  }
  AllocatorUse use() {
    const std::lock_guard lock(mutex_);
    auto use = accounts_[own_account];
    use.held = held_;
    return use;
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    auto& own = accounts_[own_account];
    own.peak = own.current;
  }

 private:
  static void release(void* data);

  Header* take(std::size_t bytes) {
    const auto number = size_class(bytes);
    const std::size_t size = class_size(number) + sizeof(Header);
    bool huge = size >= kHugeBlock;
    {
      const std::lock_guard lock(mutex_);
      huge = huge && cache_;
      if (number < free_.size() && !free_[number].empty()) {
        auto* header = free_[number].back();
        free_[number].pop_back();
        header->account = own_account;
        count(*header);
        return header;
      }
    }
    const std::size_t alignment = huge ? kHugePage : kAlignment;
    const std::size_t whole = (size + alignment - 1) / alignment * alignment;
    void* block = std::aligned_alloc(alignment, whole);
    if (block == nullptr) {
      drop_cache();
      block = std::aligned_alloc(alignment, whole);
    }
    if (block == nullptr) {
      const std::lock_guard lock(mutex_);
      accounts_[0].refused = accounts_[own_account].refused = static_cast<std::int64_t>(size);
      throw std::bad_alloc();
    }
    if (huge) ::madvise(block, size, MADV_HUGEPAGE);  // advice: refusal costs speed only
    auto* const header = new (block) Header{size, number, own_account};
    const std::lock_guard lock(mutex_);
    held_ += static_cast<std::int64_t>(size);
    count(*header);
    return header;
  }

  /// Under the lock.
  void count(const Header& taken) {
    add(accounts_[0], taken.size);
    if (taken.account != 0) add(accounts_[taken.account], taken.size);
  }
  static void add(AllocatorUse& use, std::size_t size) {
    use.current += static_cast<std::int64_t>(size);
    use.peak = std::max(use.peak, use.current);
  }

  void drop_cache() {
    const std::lock_guard lock(mutex_);
    for (auto& blocks : free_) {
      for (auto* header : blocks) {
        held_ -= static_cast<std::int64_t>(header->size);
        std::free(header);
      }
      blocks.clear();
    }
  }

  void give_back(Header* header) {
    {
      const std::lock_guard lock(mutex_);
      accounts_[0].current -= static_cast<std::int64_t>(header->size);
      if (header->account != 0) accounts_[header->account].current -= static_cast<std::int64_t>(header->size);
      if (cache_) {
        if (free_.size() <= header->size_class) free_.resize(header->size_class + 1);
        free_[header->size_class].push_back(header);
        return;
      }
      held_ -= static_cast<std::int64_t>(header->size);
    }
    std::free(header);
  }

  std::mutex mutex_;
  bool cache_ = false;
  std::int64_t held_ = 0;
  std::vector<AllocatorUse> accounts_ = std::vector<AllocatorUse>(1);  ///< the first is the process's
  std::vector<std::vector<Header*>> free_;
};

/// LibTorch holds a plain pointer to it until the process ends, and frees tensors in static destructors.
CountingAllocator& allocator() {
  static auto* const the = new CountingAllocator;
  return *the;
}

void CountingAllocator::release(void* data) {
  if (data != nullptr) allocator().give_back(static_cast<Header*>(data) - 1);
}

}  // namespace

void install_allocator(bool cache) {
  // Workers may be threads of one process.
  static std::mutex installing;
  const std::lock_guard lock(installing);
  allocator().use_cache(cache);
  constexpr std::uint8_t kPriority = 1;  // above the standard allocator's 0
  c10::SetCPUAllocator(&allocator(), kPriority);
}

void open_allocator_account(int account) {
  allocator().open(static_cast<std::uint32_t>(account));
  own_account = static_cast<std::uint32_t>(account);
}

AllocatorUse allocator_use() { return allocator().use(); }
void reset_allocator_peak() { allocator().reset_peak(); }

}  // namespace ddl
