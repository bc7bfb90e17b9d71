#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddl {

/// Attributes of MLCommons' Chakra messages; numbers as they were, words as text.
struct ChakraAttributes {
  std::map<std::string, double> numbers = {};
  std::map<std::string, std::string> words = {};
};

/// A node of an execution trace (et_def.proto), as far as it is read here.
struct ChakraNode {
  std::uint64_t id = 0;
  std::string name;
  int type = 0;                   ///< NodeType; kChakraCompute is computation
  double duration = 0;            ///< s
  ChakraAttributes attributes = {};
};
inline constexpr int kChakraLoad = 2, kChakraCompute = 4, kChakraSend = 5, kChakraReceive = 6, kChakraCollective = 7;

/// One rank's trace.
struct ChakraTrace {
  std::string version;  ///< or its schema, where it says that alone
  ChakraAttributes about = {};    ///< of its GlobalMetadata
  std::vector<ChakraNode> nodes = {};
};

/// Length-delimited GlobalMetadata, then nodes, as Chakra's feeder reads them.
/// Errors: corrupt where that is not what the bytes are, with the byte at which it was seen; `what` names the file.
ChakraTrace read_chakra(std::string_view bytes, const std::string& what);

}  // namespace ddl
