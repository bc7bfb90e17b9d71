#include "ddl/plan/schedule.h"

#include <algorithm>

#include "ddl/core/error.h"

namespace ddl {

Range part_of(std::size_t elements, int parts, int part) {
  invariant(parts > 0 && part >= 0 && part < parts, "part_of: 0 <= part < parts");
  const auto count = static_cast<std::size_t>(parts);
  const auto index = static_cast<std::size_t>(part);
  const std::size_t least = elements / count;
  const std::size_t longer = elements % count;
  const std::size_t begin = index * least + std::min(index, longer);
  return {begin, begin + least + (index < longer ? 1 : 0)};
}

}  // namespace ddl
