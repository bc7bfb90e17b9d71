#include "ddl/lab/chakra_trace.h"

#include <gtest/gtest.h>

#include <protozero/pbf_writer.hpp>
#include <protozero/varint.hpp>

#include "ddl/core/error.h"

namespace ddl {
namespace {

void append(std::string& file, const std::string& message) {
  protozero::add_varint_to_buffer(&file, message.size());
  file += message;
}

std::string metadata() {
  std::string text;
  protozero::pbf_writer out(text);
  out.add_string(1, "0.0.4");
  std::string attribute;
  protozero::pbf_writer inner(attribute);
  inner.add_string(1, "rank");
  inner.add_int64(9, 3);
  out.add_message(2, attribute);
  return text;
}

std::string node(std::uint64_t id, const std::string& name, int type, std::uint64_t micros) {
  std::string text;
  protozero::pbf_writer out(text);
  out.add_uint64(1, id);
  out.add_string(2, name);
  out.add_enum(3, type);
  const std::uint64_t after[] = {0, 1};
  out.add_packed_uint64(5, std::begin(after), std::end(after));
  out.add_uint64(7, micros);
  std::string attribute;
  protozero::pbf_writer inner(attribute);
  inner.add_string(1, "kind");
  inner.add_string(29, "forward");
  out.add_message(10, attribute);
  return text;
}

std::string whole() {
  std::string file;
  append(file, metadata());
  append(file, node(0, "forward", kChakraCompute, 1500));
  append(file, node(1, "all-reduce", 7, 20));
  return file;
}

TEST(ChakraTrace, IsReadBack) {
  const auto trace = read_chakra(whole(), "x.et");
  EXPECT_EQ(trace.version, "0.0.4");
  EXPECT_EQ(trace.about.numbers.at("rank"), 3);
  ASSERT_EQ(trace.nodes.size(), 2u);
  EXPECT_EQ(trace.nodes[0].name, "forward");
  EXPECT_EQ(trace.nodes[0].type, kChakraCompute);
  EXPECT_DOUBLE_EQ(trace.nodes[0].duration, 1500e-6);
  EXPECT_EQ(trace.nodes[0].attributes.words.at("kind"), "forward");
}

std::string complaint(const std::string& bytes) {
  try {
    read_chakra(bytes, "x.et");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::corrupt);
    return error.what();
  }
  return "none";
}

// What is no trace says so, with the byte.
TEST(ChakraTrace, WhatIsNoneSaysWhere) {
  EXPECT_NE(complaint("").find("x.et is no execution trace: byte 0"), std::string::npos) << complaint("");
  EXPECT_NE(complaint("{\"traceEvents\": []}").find("byte 0"), std::string::npos);
  EXPECT_NE(complaint(std::string(40, '\xff')).find("a length that does not end"), std::string::npos);
  std::string first;
  append(first, metadata());
  const auto cut = whole().substr(0, whole().size() - 3);
  std::string second = first;
  append(second, node(0, "forward", kChakraCompute, 1500));
  EXPECT_NE(complaint(cut).find(fmt::format("byte {}", second.size())), std::string::npos) << complaint(cut);
  // A message whose fields end within one.
  std::string broken = first;
  append(broken, "\x12\x50");
  EXPECT_NE(complaint(broken).find(fmt::format("byte {}: a message that cannot be read", first.size())), std::string::npos) << complaint(broken);
  EXPECT_NE(complaint(first + first).find("a node of type 0"), std::string::npos);
}

// Every truncation and every changed byte of it is read, or refused as what it is.
TEST(ChakraTrace, NoBytesBreakIt) {
  const auto file = whole();
  for (std::size_t length = 0; length < file.size(); ++length) complaint(file.substr(0, length));
  for (std::size_t i = 0; i < file.size(); ++i)
    for (const int change : {1, 0x10, 0x80, 0xff}) {
      auto other = file;
      other[i] = static_cast<char>(other[i] ^ change);
      complaint(other);
    }
}

}  // namespace
}  // namespace ddl
