#include "ddl/data/bpe.h"

#include <charconv>
#include <limits>

#include "ddl/core/error.h"
#include "ddl/core/hash.h"
#include "ddl/core/utf8.h"

namespace ddl {
namespace {

constexpr std::string_view kHead = "ddlbench byte pairs 1";

std::uint64_t key(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

std::string_view next_line(std::string_view& text) {
  const auto end = text.find('\n');
  const auto line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

/// The number that is all of `text`, plain decimal digits; -1 where it is none.
std::int64_t whole_number(std::string_view text) {
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && text.front() != '-' ? value : -1;
}

}  // namespace

BytePairs::BytePairs(std::vector<Merge> merges) : merges_(std::move(merges)) {
  spelled_.reserve(merges_.size());
  numbers_.reserve(merges_.size());
  const auto spelling = [&](std::int32_t symbol) {
    return symbol < kFirstMerge ? std::string(1, static_cast<char>(static_cast<std::uint8_t>(symbol - kFirstByte)))
                                : spelled_[static_cast<std::size_t>(symbol - kFirstMerge)];
  };
  for (std::size_t i = 0; i < merges_.size(); ++i) {
    const auto [left, right] = merges_[i];
    const auto number = static_cast<std::int32_t>(kFirstMerge + static_cast<std::int64_t>(i));
    const auto fail = [&](std::string_view what, std::string_view expected) {
      return Error(Code::invalid_argument,
                   fmt::format("[bpe] merge {}: {}; got {} and {}, expected {}", i, what, left, right, expected));
    };
    if (number >= kLargest || left < kFirstByte || right < kFirstByte || left >= number || right >= number)
      throw fail("symbols that are not there", fmt::format("{} to {}", kFirstByte, number - 1));
    auto bytes = spelling(left) + spelling(right);
    if (bytes.size() > kLongestPiece)
      throw fail("a symbol longer than a piece", fmt::format("{} bytes at most", kLongestPiece));
    if (!numbers_.emplace(key(left, right), number).second) throw fail("learnt twice", "each pair once");
    spelled_.push_back(std::move(bytes));
  }
}

void BytePairs::encode_piece(std::string_view piece, std::vector<std::int32_t>& to) const {
  const std::size_t begin = to.size();
  for (const char c : piece) to.push_back(static_cast<std::int32_t>(kFirstByte) + static_cast<std::uint8_t>(c));
  // Pieces are short: looking for the earliest merge again and again is faster than any book-keeping.
  while (true) {
    std::int32_t earliest = std::numeric_limits<std::int32_t>::max();
    for (std::size_t i = begin; i + 1 < to.size(); ++i)
      if (const auto found = numbers_.find(key(to[i], to[i + 1])); found != numbers_.end())
        earliest = std::min(earliest, found->second);
    if (earliest == std::numeric_limits<std::int32_t>::max()) return;
    const auto [left, right] = merges_[static_cast<std::size_t>(earliest - kFirstMerge)];
    std::size_t end = begin;
    for (std::size_t i = begin; i < to.size(); ++i, ++end) {
      const bool merged = i + 1 < to.size() && to[i] == left && to[i + 1] == right;
      to[end] = merged ? earliest : to[i];
      if (merged) ++i;
    }
    to.resize(end);
  }
}

std::vector<std::int32_t> BytePairs::encode(std::string_view text) const {
  std::vector<std::int32_t> symbols;
  for_each_piece(normalised_text(text), [&](std::string_view piece) { encode_piece(piece, symbols); });
  return symbols;
}

std::string BytePairs::decode(std::span<const std::int32_t> symbols) const {
  std::string bytes;
  for (const auto symbol : symbols) {
    if (symbol < kFirstByte || symbol >= vocabulary()) continue;
    if (symbol < kFirstMerge)
      bytes += static_cast<char>(static_cast<std::uint8_t>(symbol - kFirstByte));
    else
      bytes += spelled_[static_cast<std::size_t>(symbol - kFirstMerge)];
  }
  return to_utf8(bytes.starts_with(' ') ? std::string_view(bytes).substr(1) : std::string_view(bytes));
}

std::vector<std::int32_t> BytePairEncoder::encode(std::string_view text) {
  std::vector<std::int32_t> symbols;
  for_each_piece(normalised_text(text), [&](std::string_view piece) {
    auto& known = known_[std::string(piece)];
    if (known.empty()) pairs_.encode_piece(piece, known);
    symbols.insert(symbols.end(), known.begin(), known.end());
  });
  return symbols;
}

std::string to_text(const BytePairs& pairs) {
  std::string text = fmt::format("{}\n{}\n", kHead, pairs.merges().size());
  for (const auto& [left, right] : pairs.merges()) text += fmt::format("{} {}\n", left, right);
  return text + digest(text) + "\n";
}

BytePairs parse_byte_pairs(std::string_view text, const std::string& place) {
  const auto whole = text;
  std::int64_t line_number = 0;
  const auto line = [&] {
    ++line_number;
    return next_line(text);
  };
  const auto fail = [&](std::string_view what, std::string_view got, std::string_view expected) {
    return Error(Code::corrupt, fmt::format("[bpe] {}:{}: {}; got '{}', expected {}", place, line_number, what,
                                            to_utf8(got.substr(0, 80)), expected));
  };
  if (const auto head = line(); head != kHead) throw fail("another kind of file", head, fmt::format("'{}'", kHead));
  const auto count_line = line();
  const auto count = count_line.empty() ? -1 : whole_number(count_line);
  if (count < 0 || count > BytePairs::kLargest - BytePairs::kFirstMerge)
    throw fail("number of merges", count_line, fmt::format("0 to {}", BytePairs::kLargest - BytePairs::kFirstMerge));
  std::vector<BytePairs::Merge> merges;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto merge = line();
    const auto space = merge.find(' ');
    const auto left = space == 0 || space == std::string_view::npos ? -1 : whole_number(merge.substr(0, space));
    const auto right =
        space == std::string_view::npos || space + 1 == merge.size() ? -1 : whole_number(merge.substr(space + 1));
    if (left < 0 || right < 0 || left >= BytePairs::kLargest || right >= BytePairs::kLargest)
      throw fail("a merge", merge, "two numbers");
    merges.emplace_back(static_cast<std::int32_t>(left), static_cast<std::int32_t>(right));
  }
  const auto content = whole.substr(0, whole.size() - text.size());
  const auto sum = line();
  if (sum != digest(content)) throw fail("digest", sum, digest(content));
  if (!text.empty()) throw fail("more behind the digest", text, "the end of the file");
  try {
    return BytePairs(std::move(merges));
  } catch (const Error& error) {
    throw Error(Code::corrupt, fmt::format("[bpe] {}: {}", place, error.what()));
  }
}

}  // namespace ddl
