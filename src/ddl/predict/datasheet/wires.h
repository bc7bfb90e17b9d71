#pragma once

#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/predict/datasheet/gpu.h"

namespace ddl {

/// How devices were joined, as a row of a table says it beside their profile.
struct Wires {
  double bus = 0;                  ///< bytes/s inside a node; 0: the profile's
  double network = 0;              ///< bytes/s of a node, each way; 0: the profile's
  std::string inside, between;     ///< their words; empty: the profile's
  bool nvlink = false;             ///< inside a node, by the row's word or else the profile's
  std::vector<std::string> notes;  ///< words that say no rate
};

/// `inside`, `between`: link_intra and link_inter of a row; empty: the profile's `node.link` and `node.network`. Words are those of machines/stacks/wires.json, capitals do not matter, or rates:
/// nvlink3, pcie4, 300GB/s; infiniband-hdr (hdr), 25Gbps, 100GbE, roce-100Gbps; with a count before it, 8x200Gbps. A word that the profile itself has means what it has there. Families of networks (`infiniband`) say no
/// rate and leave the profile's.
/// Errors: invalid_argument, naming the column, for any other word.
Wires wires_of(const Json& machine, const std::string& inside, const std::string& between);

/// How many wires a node has by a word for them: 8 of "8x200Gbps", else 1.
double wires_of_node(const std::string& word);

/// Puts them in the place of the profile's. Says in words which of those that so many devices use are others than its own.
std::vector<std::string> join(Gpu& gpu, const Wires& wires, int devices);

}  // namespace ddl
