#include "ddl/data/idx.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <memory>

#include "ddl/core/error.h"
#include "ddl/data/byte_source.h"

namespace ddl {
namespace {

constexpr std::uint8_t kUnsignedByte = 0x08;

std::string_view type_name(std::uint8_t type) {
  switch (type) {
    case 0x09: return "signed byte";
    case 0x0b: return "int16";
    case 0x0c: return "int32";
    case 0x0d: return "float32";
    case 0x0e: return "float64";
    default: return "";
  }
}

template <typename... Args>
[[noreturn]] void refuse(Code code, const std::string& path, fmt::format_string<Args...> what, Args&&... args) {
  throw Error(code, fmt::format("[idx] {}: {}", path, fmt::format(what, std::forward<Args>(args)...)));
}

int read_rank(ByteSource& source, const std::string& path) {
  std::array<std::uint8_t, 4> magic{};
  const auto got = source.read(magic.data(), magic.size());
  if (got < magic.size()) refuse(Code::corrupt, path, "truncated magic; got {} bytes, expected 4", got);
  const auto [zero, also_zero, type, rank] = magic;
  if (zero != 0 || also_zero != 0)
    refuse(Code::corrupt, path, "wrong magic at byte 0; got {:02x}{:02x}{:02x}{:02x}, expected 0000 08 and a rank",
           zero, also_zero, type, rank);
  if (!type_name(type).empty())
    refuse(Code::unsupported, path, "element type at byte 2; got 0x{:02x} ({}), expected 0x08 (unsigned byte)", type,
           type_name(type));
  if (type != kUnsignedByte)
    refuse(Code::corrupt, path, "unknown element type at byte 2; got 0x{:02x}, expected 0x08 (unsigned byte)", type);
  if (rank == 0) refuse(Code::corrupt, path, "no dimensions at byte 3; got rank 0, expected 1 or more");
  return rank;
}

// Number of elements: bounded by what the source can hold, so that a wrong header cannot ask for absurd memory.
std::uint64_t read_dims(ByteSource& source, const std::string& path, int rank, std::vector<std::int64_t>& dims) {
  const auto header = 4 + 4 * static_cast<std::uint64_t>(rank);
  std::uint64_t elements = 1;
  bool empty = false;
  for (int i = 0; i < rank; ++i) {
    std::array<std::uint8_t, 4> size{};
    const auto got = source.read(size.data(), size.size());
    if (got < size.size())
      refuse(Code::corrupt, path, "truncated header; got {} bytes, expected {}", 4 + 4 * static_cast<unsigned>(i) + got,
             header);
    const std::uint64_t dim = std::uint64_t{size[0]} << 24 | std::uint64_t{size[1]} << 16 |
                              std::uint64_t{size[2]} << 8 | std::uint64_t{size[3]};
    dims.push_back(static_cast<std::int64_t>(dim));
    empty = empty || dim == 0;
    if (!empty && dim > std::numeric_limits<std::uint64_t>::max() / elements)
      refuse(Code::corrupt, path, "dimensions overflow at byte {}; got size {}, expected a product below 2^64",
             4 + 4 * i, dim);
    if (!empty) elements *= dim;
  }
  if (empty) elements = 0;
  if (!source.compressed() && (source.limit() < header || source.limit() - header != elements))
    refuse(Code::corrupt, path,
           "length disagrees with the dimensions; got {} bytes, expected {} (a header of {} and {})", source.limit(),
           header + elements, header, elements);
  if (elements > source.limit())
    refuse(Code::corrupt, path, "dimensions beyond what the file can hold; got {} elements, expected at most {}",
           elements, source.limit());
  return elements;
}

}  // namespace

IdxArray read_idx(const std::string& path) {
  const auto source = open_bytes(path, "idx");
  IdxArray array;
  const int rank = read_rank(*source, path);
  const auto elements = read_dims(*source, path, rank, array.dims);
  // A gzip file's real length is known only at its end: grow with what has come, not with what was promised.
  constexpr std::uint64_t kFirst = 64U << 20;
  std::uint64_t have = 0;
  while (have < elements) {
    const auto until = source->compressed() ? std::min(elements, std::max(2 * have, kFirst)) : elements;
    array.bytes.resize(until);
    const auto got = source->read(array.bytes.data() + have, until - have);
    if (got < until - have)
      refuse(Code::corrupt, path, "truncated; got {} elements, expected {}", have + got, elements);
    have = until;
  }
  std::uint8_t more = 0;
  if (source->read(&more, 1) != 0)
    refuse(Code::corrupt, path, "trailing bytes; got more than {} elements, expected the end of the file", elements);
  return array;
}

void write_idx(const std::string& path, std::span<const std::int64_t> dims,
               const std::function<void(std::int64_t, std::uint8_t*)>& item) {
  std::vector<std::uint8_t> header{0, 0, kUnsignedByte, static_cast<std::uint8_t>(dims.size())};
  std::size_t item_bytes = 1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || dims[i] > std::numeric_limits<std::uint32_t>::max())
      refuse(Code::invalid_argument, path, "a dimension IDX cannot hold; got {}, expected 0 to 2^32-1", dims[i]);
    for (int shift = 24; shift >= 0; shift -= 8) header.push_back(static_cast<std::uint8_t>(dims[i] >> shift));
    if (i > 0) item_bytes *= static_cast<std::size_t>(dims[i]);
  }
  if (dims.empty() || dims.size() > 255)
    refuse(Code::invalid_argument, path, "a rank IDX cannot hold; got {}, expected 1 to 255", dims.size());

  const std::string beside = fmt::format("{}.{}.part", path, ::getpid());
  struct Removed {
    const std::string& name;
    ~Removed() { std::remove(name.c_str()); }
  } removed{beside};  // a no-op once renamed
  const auto close = [](std::FILE* file) { std::fclose(file); };
  std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(beside.c_str(), "wbe"), close);
  const auto fail = [&] { return system_error(fmt::format("[idx] {}: cannot write", path), errno); };
  if (!file) throw fail();
  if (std::fwrite(header.data(), 1, header.size(), file.get()) != header.size()) throw fail();
  // Whole slices at a time, about 1 MiB.
  const std::size_t slices = std::max<std::size_t>(1, (1U << 20) / std::max<std::size_t>(1, item_bytes));
  std::vector<std::uint8_t> block(slices * item_bytes);
  for (std::int64_t i = 0; i < dims[0];) {
    std::size_t filled = 0;
    for (; filled < slices && i < dims[0]; ++filled, ++i) item(i, block.data() + filled * item_bytes);
    if (std::fwrite(block.data(), item_bytes, filled, file.get()) != filled && item_bytes > 0) throw fail();
  }
  if (std::fclose(file.release()) != 0) throw fail();
  if (std::rename(beside.c_str(), path.c_str()) != 0) throw fail();
}

}  // namespace ddl
