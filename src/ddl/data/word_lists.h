#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ddl {

/// Lists of words one behind the other: millions of short ones without an allocation each.
class WordLists {
 public:
  void add(std::span<const std::int32_t> words) {
    words_.insert(words_.end(), words.begin(), words.end());
    ends_.push_back(words_.size());
  }
  std::span<const std::int32_t> operator[](std::int64_t index) const {
    const auto i = static_cast<std::size_t>(index);
    const auto begin = i == 0 ? 0 : ends_[i - 1];
    return {words_.data() + begin, ends_[i] - begin};
  }
  std::int64_t size() const { return static_cast<std::int64_t>(ends_.size()); }
  /// All of them, and where each ends.
  std::span<const std::int32_t> words() const { return words_; }
  std::span<const std::size_t> ends() const { return ends_; }

 private:
  std::vector<std::int32_t> words_;
  std::vector<std::size_t> ends_;
};

}  // namespace ddl
