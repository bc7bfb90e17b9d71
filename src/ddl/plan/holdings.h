#pragma once

#include <cstdint>
#include <string>

namespace ddl {

/// Bytes that a worker holds at the peak of a step.
struct Holdings {
  std::int64_t parameters = 0, gradients = 0, optimizer = 0, buckets = 0, activations = 0;
  std::int64_t total() const { return parameters + gradients + optimizer + buckets + activations; }
};

/// For people: "parameters 42.7 MiB, gradients 0 B, optimizer 42.6 MiB, buckets 43.7 MiB, activations 1 GiB".
std::string to_string(const Holdings& holds);

}  // namespace ddl
