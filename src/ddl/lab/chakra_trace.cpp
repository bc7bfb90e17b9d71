#include "ddl/lab/chakra_trace.h"

#include <cmath>

#include <protozero/pbf_reader.hpp>
#include <protozero/varint.hpp>

#include "ddl/core/error.h"

namespace ddl {
namespace {

using protozero::pbf_wire_type;

constexpr auto key(protozero::pbf_tag_type tag, pbf_wire_type type) { return protozero::tag_and_type(tag, type); }

[[noreturn]] void refuse(const std::string& what, std::size_t byte, const std::string& why) {
  throw Error(Code::corrupt, fmt::format("[chakra] {} is no execution trace: byte {}: {}; expected messages of et_def.proto, each after its length", what, byte, why));
}

/// The value is one of the many fields of AttributeProto; what is read here are numbers, truths and words.
void read_attribute(protozero::pbf_reader in, ChakraAttributes& out) {
  std::string name, word;
  double number = 0;
  bool is_number = false, is_word = false;
  const auto take = [&](double value) {
    number = value;
    is_number = true;
  };
  while (in.next()) {
    switch (in.tag_and_type()) {
      case key(1, pbf_wire_type::length_delimited): name = in.get_string(); break;
      case key(3, pbf_wire_type::fixed64): take(in.get_double()); break;
      case key(5, pbf_wire_type::fixed32): take(static_cast<double>(in.get_float())); break;
      case key(7, pbf_wire_type::varint): take(in.get_int32()); break;
      case key(9, pbf_wire_type::varint): take(static_cast<double>(in.get_int64())); break;
      case key(11, pbf_wire_type::varint): take(in.get_uint32()); break;
      case key(13, pbf_wire_type::varint): take(static_cast<double>(in.get_uint64())); break;
      case key(27, pbf_wire_type::varint): take(in.get_bool() ? 1 : 0); break;
      case key(29, pbf_wire_type::length_delimited):
        word = in.get_string();
        is_word = true;
        break;
      default: in.skip();
    }
  }
  if (is_number) out.numbers[name] = number;
  if (is_word) out.words[name] = word;
}

void read_metadata(protozero::pbf_reader in, ChakraTrace& out) {
  while (in.next()) {
    switch (in.tag_and_type()) {
      case key(1, pbf_wire_type::length_delimited): out.version = in.get_string(); break;
      case key(2, pbf_wire_type::length_delimited): read_attribute(in.get_message(), out.about); break;
      default: in.skip();
    }
  }
}

ChakraNode read_node(protozero::pbf_reader in) {
  ChakraNode node;
  while (in.next()) {
    switch (in.tag_and_type()) {
      case key(1, pbf_wire_type::varint): node.id = in.get_uint64(); break;
      case key(2, pbf_wire_type::length_delimited): node.name = in.get_string(); break;
      case key(3, pbf_wire_type::varint): node.type = in.get_enum(); break;
      case key(7, pbf_wire_type::varint): node.duration = static_cast<double>(in.get_uint64()) * 1e-6; break;
      case key(10, pbf_wire_type::length_delimited): read_attribute(in.get_message(), node.attributes); break;
      default: in.skip();
    }
  }
  return node;
}

}  // namespace

ChakraTrace read_chakra(std::string_view bytes, const std::string& what) {
  ChakraTrace trace;
  const char* const begin = bytes.data();
  const char* const end = begin + bytes.size();
  const char* at = begin;
  if (bytes.empty()) refuse(what, 0, "the file is empty");
  for (bool first = true; at != end; first = false) {
    const auto byte = static_cast<std::size_t>(at - begin);
    std::uint64_t size = 0;
    try {
      size = protozero::decode_varint(&at, end);
    } catch (const protozero::exception&) {
      refuse(what, byte, "a length that does not end");
    }
    if (size > static_cast<std::uint64_t>(end - at)) refuse(what, byte, fmt::format("a message of {} bytes where {} are left", size, end - at));
    const protozero::pbf_reader message(at, static_cast<std::size_t>(size));
    at += size;
    try {
      if (first) read_metadata(message, trace);
      else trace.nodes.push_back(read_node(message));
    } catch (const protozero::exception& error) {
      refuse(what, byte, fmt::format("a message that cannot be read ({})", error.what()));
    }
    // Chakra's text converter says it in an attribute.
    if (const auto schema = trace.about.words.find("schema"); first && trace.version.empty() && schema != trace.about.words.end()) trace.version = schema->second;
    if (first && trace.version.empty()) refuse(what, byte, "no version where the metadata should be");
    if (!first && (trace.nodes.back().type < 1 || trace.nodes.back().type > 64)) refuse(what, byte, fmt::format("a node of type {}", trace.nodes.back().type));
  }
  return trace;
}

}  // namespace ddl
