#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "ddl/collective/operation.h"
#include "ddl/core/error.h"

// The words for an operation are made of what a peer's message says, right or not.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::array<std::uint64_t, 3> words{};
  if (size != 0) std::memcpy(words.data(), data, std::min(size, sizeof words));
  const ddl::Signature signature{words[0], words[1], words[2]};
  ddl::invariant(!ddl::describe_operation(signature).empty(), "every operation has words");
  const auto operation = ddl::unpack(signature);
  ddl::invariant(ddl::unpack(ddl::pack(operation)) == operation, "what was unpacked is packed again");
  return 0;
}
