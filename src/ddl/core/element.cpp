#include "ddl/core/element.h"

#include <array>
#include <iterator>

#include "ddl/core/error.h"
#include "ddl/core/text.h"

namespace ddl {
namespace {

constexpr std::array<std::string_view, 6> kTypes{"fp32", "fp64", "bf16", "fp16", "int32", "int64"};
constexpr std::array<std::size_t, 6> kSizes{4, 8, 2, 2, 4, 8};
constexpr std::array<std::string_view, 5> kOps{"sum", "average", "max", "min", "weighted-sum"};

template <std::size_t N>
std::size_t place(std::string_view kind, const std::array<std::string_view, N>& words, std::string_view word) {
  for (std::size_t i = 0; i < N; ++i)
    if (words[i] == word) return i;
  const std::vector<std::string> known(words.begin(), words.end());
  throw Error(Code::invalid_argument, fmt::format("[{}] unknown {} '{}'{}; expected one of: {}", kind, kind, word,
                                                  did_you_mean(word, known), join(known, " ")));
}

}  // namespace

std::size_t size_of(ElementType type) { return kSizes[static_cast<std::size_t>(type)]; }
std::string_view name(ElementType type) { return kTypes[static_cast<std::size_t>(type)]; }
std::string_view name(ReduceOp op) { return kOps[static_cast<std::size_t>(op)]; }

ElementType element_type_from_name(std::string_view word) { return kElementTypes[place("element type", kTypes, word)]; }
ReduceOp reduce_op_from_name(std::string_view word) { return kReduceOps[place("operation", kOps, word)]; }

}  // namespace ddl
