#pragma once

#include <string>

namespace ddl {

/// How often a compressed all-reduce of fp32 reads or writes a gradient's bytes beside what its collectives move, counted in our own (collective/compression/): on a device of which there is a datasheet alone, what
/// passes over memory decides. Nothing was measured on a GPU. Errors: not_found for a compression that was not counted, naming those that were.
double compression_passes(const std::string& compression);

}  // namespace ddl
