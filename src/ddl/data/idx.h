#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ddl {

/// What an IDX file of unsigned bytes holds: row-major, the last dimension fastest.
struct IdxArray {
  std::vector<std::int64_t> dims;
  std::vector<std::uint8_t> bytes;
};

/// Reads an IDX file, raw or gzip: 0, 0, type, rank, rank big-endian 32-bit sizes, the elements.
/// Only unsigned bytes (type 0x08), any rank from 1. No more is allocated than about twice what the file really holds.
/// Errors: `[idx] <path>: what; got …, expected …`: not_found, io, corrupt, unsupported (another element type).
/// Source: Y. LeCun, C. Cortes, C. Burges, "The MNIST database", section "the IDX file format".
IdxArray read_idx(const std::string& path);

/// Writes a raw IDX file of unsigned bytes that appears only complete. `item(i, bytes)` fills the i-th of dims[0]
/// slices. Not synced: made again at will. Errors: io; invalid_argument on sizes that IDX cannot hold; those of `item`.
void write_idx(const std::string& path, std::span<const std::int64_t> dims,
               const std::function<void(std::int64_t, std::uint8_t*)>& item);

}  // namespace ddl
