#include "ddl/train/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
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

constexpr std::size_t kSlab = std::size_t{8} << 20;
constexpr std::size_t kSmallBlock = std::size_t{32} << 10;  ///< those under it lie together anyhow

/// Memory of huge pages that blocks are cut from, one behind the other: most weights and values have less than a huge page's bytes, and a product of matrices goes through many pages at a time.
struct Slab {
  std::byte* memory = nullptr;
  std::size_t used = 0;
  std::size_t in_use = 0;  ///< blocks that somebody has
};

/// Lies in front of every block, and fills one cache line so that the data behind it stays aligned.
struct alignas(kAlignment) Header {
  std::size_t size = 0;  ///< of the whole block
  std::uint32_t size_class = 0;
  Slab* slab = nullptr;  ///< that it was cut from; null: it is a block of its own
};

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
  void use_cache(bool cache) { cache_ = cache; }

  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &release, cpu};
    auto* header = take(bytes);
    void* data = header + 1;
    return {data, data, &release, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t count) const override { std::memcpy(to, from, count); }

  AllocatorUse use() {
    const std::lock_guard lock(mutex_);
    return use_;
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    use_.peak = use_.current;
  }

 private:
  static void release(void* data);

  Header* take(std::size_t bytes) {
    const auto number = size_class(bytes);
    const std::size_t size = class_size(number) + sizeof(Header);
    {
      const std::lock_guard lock(mutex_);
      if (number < free_.size() && !free_[number].empty()) {
        auto* header = free_[number].back();
        free_[number].pop_back();
        if (header->slab != nullptr) ++header->slab->in_use;
        count(size);
        return header;
      }
      if (cache_ && size >= kSmallBlock && size < kHugeBlock)
        if (auto* const header = cut(size); header != nullptr) {
          count(size);
          header->size_class = number;
          return header;
        }
    }
    const bool huge = cache_ && size >= kHugeBlock;
    const std::size_t alignment = huge ? kHugePage : kAlignment;
    const std::size_t whole = (size + alignment - 1) / alignment * alignment;
    void* block = std::aligned_alloc(alignment, whole);
    if (block == nullptr) {
      drop_cache();
      block = std::aligned_alloc(alignment, whole);
    }
    if (block == nullptr) {
      const std::lock_guard lock(mutex_);
      use_.refused = static_cast<std::int64_t>(size);
      throw std::bad_alloc();
    }
    {
      const std::lock_guard lock(mutex_);
      count(size);
    }
    if (huge) ::madvise(block, size, MADV_HUGEPAGE);  // advice: refusal costs speed only
    return new (block) Header{size, number};
  }

  /// A block of the newest slab, or of a new one; null where there is no memory. Under the lock.
  Header* cut(std::size_t size) {
    if (slabs_.empty() || slabs_.back()->used + size > kSlab) {
      auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kHugePage, kSlab));
      if (memory == nullptr) return nullptr;
      ::madvise(memory, kSlab, MADV_HUGEPAGE);
      slabs_.push_back(std::make_unique<Slab>(Slab{memory}));
    }
    auto* const slab = slabs_.back().get();
    auto* const header = new (slab->memory + slab->used) Header{size, 0, slab};
    slab->used += size;
    ++slab->in_use;
    return header;
  }

  /// Under the lock.
  void count(std::size_t size) {
    use_.current += static_cast<std::int64_t>(size);
    use_.peak = std::max(use_.peak, use_.current);
  }

  void drop_cache() {
    const std::lock_guard lock(mutex_);
    for (auto& blocks : free_)
      std::erase_if(blocks, [](Header* header) {
        if (header->slab != nullptr) return header->slab->in_use == 0;
        std::free(header);
        return true;
      });
    std::erase_if(slabs_, [](const std::unique_ptr<Slab>& slab) {
      if (slab->in_use > 0) return false;
      std::free(slab->memory);
      return true;
    });
  }

  void give_back(Header* header) {
    {
      const std::lock_guard lock(mutex_);
      use_.current -= static_cast<std::int64_t>(header->size);
      if (header->slab != nullptr) --header->slab->in_use;
      if (cache_ || header->slab != nullptr) {
        if (free_.size() <= header->size_class) free_.resize(header->size_class + 1);
        free_[header->size_class].push_back(header);
        return;
      }
    }
    std::free(header);
  }

  std::mutex mutex_;
  bool cache_ = false;
  AllocatorUse use_;
  std::vector<std::vector<Header*>> free_;
  std::vector<std::unique_ptr<Slab>> slabs_;
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

AllocatorUse allocator_use() { return allocator().use(); }
void reset_allocator_peak() { allocator().reset_peak(); }

}  // namespace ddl
