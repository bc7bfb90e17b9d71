#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ddl/core/json.h"

namespace ddl {

/// What a collective asks of one rank, or of the chain of ranks that decides its time, in countable units.
struct Counts {
  double rounds = 0;    ///< in which messages pass
  double messages = 0;  ///< sent and taken
  double bytes = 0;     ///< moved; in a round the larger of what is sent and what is taken: both ways of a wire are busy at once
  double handled = 0;   ///< bytes sent and bytes taken: what the rank's own processor copies, one after the other
  double reduced = 0;   ///< bytes that came and were combined on the way in
  double local = 0;     ///< bytes copied or combined beside the wire

  Counts& operator+=(const Counts& other);
  friend Counts operator+(Counts a, const Counts& b) { return a += b; }
  bool operator==(const Counts&) const = default;
};

/// Seconds that each unit costs: Hockney's alpha-beta model with a term for reduction (Thakur, Rabenseifner, Gropp 2005)
/// and one for every message of a round, which is LogGP's overhead o (Alexandrov et al. 1995).
struct UnitCosts {
  double alpha = 0;     ///< s, a round
  double overhead = 0;  ///< s, a message
  double beta = 0;      ///< s/byte moved
  double copy = 0;      ///< s/byte handled: LogGP's o grows with the message where a processor copies it (LoGPC, LogGPS)
  double gamma = 0;     ///< s/byte reduced
  double local = 0;     ///< s/byte copied or combined beside the wire

  double seconds(const Counts& counts) const;
};

/// Unit costs of collectives on buffers of [from, to) bytes: caches and protocols make them another thing by size.
struct CostPiece {
  std::size_t from = 0;
  std::size_t to = 0;
  UnitCosts costs;
};

/// What a transport costs between so many ranks of one machine. `pieces` in ascending order without gaps.
struct WireCost {
  std::vector<CostPiece> pieces;

  /// The piece of that size; the first or last beyond the ends.
  /// Errors: invalid_argument where there is none at all.
  const UnitCosts& at(std::size_t bytes) const;
};

Json to_json(const WireCost& cost);
/// Errors: corrupt, naming the field.
WireCost wire_cost_from_json(const Json& json);

}  // namespace ddl
