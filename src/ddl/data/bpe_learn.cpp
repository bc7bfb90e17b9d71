#include <algorithm>
#include <queue>
#include <unordered_map>

#include "ddl/core/error.h"
#include "ddl/core/utf8.h"
#include "ddl/data/bpe.h"

namespace ddl {
namespace {

using Merge = BytePairs::Merge;

/// A distinct piece, as symbols so far, and how often it is there.
struct Piece {
  std::vector<std::int32_t> symbols;
  std::int64_t times;
};

struct Candidate {
  std::int64_t times;
  Merge pair;

  /// Of a heap whose top is the most frequent, and of equals the smallest pair.
  bool operator<(const Candidate& other) const {
    return times != other.times ? times < other.times : pair > other.pair;
  }
};

struct PairHash {
  std::size_t operator()(const Merge& pair) const {
    const auto both =
        std::uint64_t{static_cast<std::uint32_t>(pair.first)} << 32 | static_cast<std::uint32_t>(pair.second);
    return static_cast<std::size_t>((both ^ both >> 29) * 0x9e3779b97f4a7c15ULL);
  }
};

// Invariant between merges: where() of a pair has its exact number of occurrences and at least the pieces that have it;
// the heap has an entry with that number for every pair that occurs, and stale ones besides.
class Learner {
 public:
  explicit Learner(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) count(i, 1);
    for (const auto& [pair, known] : pairs_) heap_.push({known.times, pair});
  }

  std::vector<Merge> learn(std::size_t most) {
    std::vector<Merge> merges;
    while (merges.size() < most && !heap_.empty()) {
      const auto best = heap_.top();
      heap_.pop();
      const auto found = pairs_.find(best.pair);
      if (found == pairs_.end() || found->second.times != best.times) continue;
      if (best.times < 2) break;
      merge(best.pair, static_cast<std::int32_t>(BytePairs::kFirstMerge + static_cast<std::int64_t>(merges.size())));
      merges.push_back(best.pair);
    }
    return merges;
  }

 private:
  struct Known {
    std::int64_t times = 0;
    std::vector<std::uint32_t> pieces;  ///< that have it or had it; may name one twice
  };

  /// Adds the pairs of a piece to the numbers, or takes them away.
  void count(std::size_t piece, int sign) {
    const auto& [symbols, times] = pieces_[piece];
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const Merge pair{symbols[i], symbols[i + 1]};
      auto& known = pairs_[pair];
      known.times += sign * times;
      if (sign > 0 && (known.pieces.empty() || known.pieces.back() != piece))
        known.pieces.push_back(static_cast<std::uint32_t>(piece));
      changed_.push_back(pair);
    }
  }

  void merge(const Merge& pair, std::int32_t number) {
    changed_.clear();
    auto pieces = std::move(pairs_[pair].pieces);
    std::sort(pieces.begin(), pieces.end());
    pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
    for (const auto piece : pieces) {
      auto& symbols = pieces_[piece].symbols;
      const auto has = [&](std::size_t i) {
        return i + 1 < symbols.size() && symbols[i] == pair.first && symbols[i + 1] == pair.second;
      };
      std::size_t at = 0;
      while (at < symbols.size() && !has(at)) ++at;
      if (at == symbols.size()) continue;
      count(piece, -1);
      std::size_t end = at;
      for (std::size_t i = at; i < symbols.size(); ++i, ++end) {
        const bool merged = has(i);
        symbols[end] = merged ? number : symbols[i];
        if (merged) ++i;
      }
      symbols.resize(end);
      count(piece, 1);
    }
    pairs_.erase(pair);
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (const auto& other : changed_) {
      const auto found = pairs_.find(other);
      if (found == pairs_.end()) continue;
      if (found->second.times > 0)
        heap_.push({found->second.times, other});
      else
        pairs_.erase(found);
    }
  }

  std::vector<Piece> pieces_;
  std::unordered_map<Merge, Known, PairHash> pairs_;
  std::priority_queue<Candidate> heap_;
  std::vector<Merge> changed_;
};

}  // namespace

BytePairs learn_byte_pairs(std::span<const std::string> texts, std::int64_t vocabulary) {
  if (vocabulary < BytePairs::kFirstMerge || vocabulary > BytePairs::kLargest)
    throw Error(Code::invalid_argument, fmt::format("[bpe] vocabulary; got {}, expected {} to {}", vocabulary,
                                                    BytePairs::kFirstMerge, BytePairs::kLargest));
  std::unordered_map<std::string, std::int64_t> times;
  for (const auto& text : texts)
    for_each_piece(normalised_text(text), [&](std::string_view piece) { ++times[std::string(piece)]; });
  std::vector<Piece> pieces;
  pieces.reserve(times.size());
  for (const auto& [bytes, number] : times) {
    Piece piece{{}, number};
    for (const char c : bytes)
      piece.symbols.push_back(static_cast<std::int32_t>(BytePairs::kFirstByte) + static_cast<std::uint8_t>(c));
    pieces.push_back(std::move(piece));
  }
  return BytePairs(Learner(std::move(pieces)).learn(static_cast<std::size_t>(vocabulary - BytePairs::kFirstMerge)));
}

}  // namespace ddl
