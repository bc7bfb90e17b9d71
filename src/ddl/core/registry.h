#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/core/text.h"

namespace ddl {

/// One thing that can be picked by name. `missing` says why this build or machine cannot offer it; empty if it can.
template <typename Factory>
struct Entry {
  std::string name;
  std::string summary;
  Factory make;
  std::string missing = {};
};

/// Things of one kind, by name, in the order in which they were added. A folder's `builtin.cpp` fills one
/// explicitly, so that no linker can drop an entry.
template <typename Factory>
class Registry {
 public:
  /// `kind` is the singular word of messages: "network", "transport".
  explicit Registry(std::string kind) : kind_(std::move(kind)) {}

  /// Errors: invalid_argument if the name is taken.
  void add(Entry<Factory> entry) {
    if (find(entry.name) != entries_.end())
      throw Error(Code::invalid_argument, fmt::format("[{}] '{}' is registered twice", kind_, entry.name));
    entries_.push_back(std::move(entry));
  }

  /// Errors: not_found with the nearest known name; unsupported with the reason it is missing.
  const Entry<Factory>& at(std::string_view name) const& {
    const auto found = find(name);
    if (found == entries_.end())
      throw Error(Code::not_found, fmt::format("[{}] unknown {} '{}'{}; expected one of: {}", kind_, kind_, name,
                                               did_you_mean(name, names()), join(names(), " ")));
    if (!found->missing.empty())
      throw Error(Code::unsupported, fmt::format("[{}] unsupported: {} is not in this build: {}", kind_, name,
                                                 found->missing));
    return *found;
  }
  // Of a registry that is gone after the expression, a copy: `for (auto& e : builtin_models().entries())` is safe.
  Entry<Factory> at(std::string_view name) && { return std::as_const(*this).at(name); }

  const std::vector<Entry<Factory>>& entries() const& { return entries_; }
  std::vector<Entry<Factory>> entries() && { return std::move(entries_); }
  const std::string& kind() const { return kind_; }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : entries_) all.push_back(entry.name);
    return all;
  }

 private:
  auto find(std::string_view name) const {
    return std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) { return entry.name == name; });
  }

  std::string kind_;
  std::vector<Entry<Factory>> entries_;
};

}  // namespace ddl
