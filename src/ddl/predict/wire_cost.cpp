#include "ddl/predict/wire_cost.h"

#include "ddl/core/error.h"

namespace ddl {

Counts& Counts::operator+=(const Counts& other) {
  rounds += other.rounds;
  messages += other.messages;
  bytes += other.bytes;
  handled += other.handled;
  reduced += other.reduced;
  local += other.local;
  return *this;
}

double UnitCosts::seconds(const Counts& counts) const {
  return alpha * counts.rounds + overhead * counts.messages + beta * counts.bytes + copy * counts.handled + gamma * counts.reduced + local * counts.local;
}

const UnitCosts& WireCost::at(std::size_t bytes) const {
  if (pieces.empty()) throw Error(Code::invalid_argument, "[predict] a wire without costs");
  for (const auto& piece : pieces)
    if (bytes < piece.to) return piece.costs;
  return pieces.back().costs;
}

// Microseconds and nanoseconds a byte: numbers that people can read.
Json to_json(const WireCost& cost) {
  Json all = Json::array();
  for (const auto& [from, to, costs] : cost.pieces)
    all.push_back({{"from_bytes", from}, {"to_bytes", to}, {"alpha_us", costs.alpha * 1e6}, {"overhead_us", costs.overhead * 1e6},
                   {"beta_ns_per_byte", costs.beta * 1e9}, {"copy_ns_per_byte", costs.copy * 1e9},
                   {"gamma_ns_per_byte", costs.gamma * 1e9}, {"local_ns_per_byte", costs.local * 1e9}});
  return all;
}

WireCost wire_cost_from_json(const Json& json) {
  WireCost cost;
  try {
    for (const auto& piece : json)
      cost.pieces.push_back({piece.at("from_bytes").get<std::size_t>(), piece.at("to_bytes").get<std::size_t>(),
                             {piece.at("alpha_us").get<double>() / 1e6, piece.at("overhead_us").get<double>() / 1e6,
                              piece.at("beta_ns_per_byte").get<double>() / 1e9, piece.at("copy_ns_per_byte").get<double>() / 1e9,
                              piece.at("gamma_ns_per_byte").get<double>() / 1e9,
                              piece.at("local_ns_per_byte").get<double>() / 1e9}});
  } catch (const Json::exception& error) {
    throw Error(Code::corrupt, fmt::format("[machine] costs of a wire: {}", error.what()));
  }
  return cost;
}

}  // namespace ddl
