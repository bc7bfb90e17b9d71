#pragma once

#include <cstdint>

namespace ddl {

/// Rows of scores of queries with keys, [heads, queries, keys], and what of them counts.
struct ScoreRows {
  std::int64_t heads, queries, keys;
  std::int64_t first;    ///< the number of the first query
  bool causal;           ///< query i sees keys 0 to i; else all
  const float* hidden;   ///< of each key 0, or minus infinity where it is seen by nobody; null: all are seen
  float scale;           ///< that scores are multiplied by
};

/// Scores become exponentials of what lies under the largest of their row, 0 of keys that are not seen. `log_sums` [heads, apart] are the logarithms of the sums of exponentials of scores, from the first query on, and `inverse`
/// [heads, queries] one over the sum that is left to divide by: 0 of a query that sees nothing.
void soften_scores(const ScoreRows& rows, float* scores, float* log_sums, std::int64_t apart, float* inverse);

/// Scores become shares again, which sum to 1, and the gradients of shares those of scores: share * (gradient - sum of all shares times gradients) * scale.
void soften_backward(const ScoreRows& rows, const float* log_sums, std::int64_t apart, float* scores, float* gradients);

}  // namespace ddl
