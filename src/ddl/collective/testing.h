#pragma once

#include "ddl/collective/communicator.h"
#include "ddl/transport/testing.h"

namespace ddl::testing {

/// Runs `body` for every rank of a group, on threads.
inline Outcomes run_group(const std::string& transport, int ranks, const std::function<void(Communicator&)>& body,
                          Seconds timeout = Seconds{20}) {
  const auto registry = builtin_transports();
  return run_ranks(ranks, [&](Rendezvous& meeting) {
    Communicator communicator(registry.at(transport).make(meeting, {Seconds{20}, "secret"}), timeout);
    body(communicator);
  });
}

template <typename T>
constexpr ElementType element_type() {
  if constexpr (std::is_same_v<T, float>) return ElementType::fp32;
  if constexpr (std::is_same_v<T, double>) return ElementType::fp64;
  if constexpr (std::is_same_v<T, std::int32_t>) return ElementType::int32;
  if constexpr (std::is_same_v<T, std::int64_t>) return ElementType::int64;
}

template <typename T>
Buffer buffer_of(std::span<T> values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size(), element_type<T>()};
}

inline void require(bool holds, const std::string& what) {
  if (!holds) throw Error(Code::corrupt, what);
}

}  // namespace ddl::testing
