#pragma once

#include <string>

#include "ddl/core/json.h"

namespace ddl {

/// A profile of a datasheet with devices that are joined otherwise, as users write it: NAME[nodes=4,devices_per_node=8,link_intra=nvlink3,link_inter=8x200Gbps], NAME being one of find_machine()'s, each option by itself.
///  - `devices_per_node`: devices that share a node; each keeps its share of the node's wires unless `link_inter` says what they carry;
///  - `nodes`: how many nodes there are, `node.count`: more workers than they have devices are refused where they are predicted;
///  - `link_intra`, `link_inter`: as columns of tables of measured runs have them (wires.h);
///  - `library`: which carries collectives, one of shipped_libraries() or of the user's own.
/// What is other than the profile's is told in its `node.replaced`, a list of words. Without brackets: find_machine().
/// Errors: those of find_machine(), find_library(), parse_spec() and wires_of(); invalid_argument for another option, or a number that is none; unsupported for a profile that was measured, whose layout is part of what was measured.
Json machine_laid_out(const std::string& asked);

}  // namespace ddl
