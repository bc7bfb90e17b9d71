#include "ddl/collective/operation.h"

#include <iterator>

#include "ddl/collective/algorithms.h"

namespace ddl {
namespace {

// From the lowest bit: root 16, peer 16, algorithm 8, goal 4, op 4, type 4, options 12.
constexpr int kRoot = 0, kPeer = 16, kAlgorithm = 32, kGoal = 40, kOp = 44, kType = 48, kOptions = 52;
// A message's number is no order that others know of: it goes with the size.
constexpr int kMessage = 40;
constexpr std::uint64_t mask(int bits) { return (std::uint64_t{1} << bits) - 1; }

template <typename T, std::size_t N>
T one_of(const T (&values)[N], std::uint64_t number) {
  return values[number < N ? number : 0];
}

}  // namespace

Signature pack(const Operation& operation) {
  const auto field = [](auto value, int bits, int at) { return (static_cast<std::uint64_t>(value) & mask(bits)) << at; };
  const bool message = operation.goal == Goal::point_to_point;
  return {field(operation.algorithm, 8, kAlgorithm) | field(operation.root, 16, kRoot) | field(operation.peer, 16, kPeer) |
              field(operation.goal, 4, kGoal) | field(operation.op, 4, kOp) | field(operation.type, 4, kType) | field(operation.options, 12, kOptions),
          message ? field(operation.elements, kMessage, 0) | operation.number << kMessage : operation.elements, message ? 0 : operation.number};
}

Operation unpack(const Signature& signature) {
  const auto field = [&](int bits, int at) { return (signature.what >> at) & mask(bits); };
  Operation operation;
  operation.algorithm = static_cast<int>(field(8, kAlgorithm));
  operation.root = static_cast<int>(field(16, kRoot));
  operation.peer = static_cast<int>(field(16, kPeer));
  operation.goal = one_of(kGoals, field(4, kGoal));
  operation.op = one_of(kReduceOps, field(4, kOp));
  operation.type = one_of(kElementTypes, field(4, kType));
  operation.options = static_cast<int>(field(12, kOptions));
  const bool message = operation.goal == Goal::point_to_point;
  operation.number = message ? signature.size >> kMessage : signature.order;
  operation.elements = message ? signature.size & mask(kMessage) : signature.size;
  return operation;
}

std::string to_string(const Operation& operation) {
  static const auto names = builtin_collectives().names();
  const auto index = static_cast<std::size_t>(operation.algorithm);
  std::string how = index < names.size() ? names[index] : operation.algorithm == kNativeAlgorithm ? "native" : "?";
  if (const auto slash = how.find('/'); slash != std::string::npos) how.erase(0, slash + 1);
  if (operation.options != 0) how += fmt::format("[options {:03x}]", operation.options);
  if (reduces(operation.goal)) how += fmt::format(", {}", name(operation.op));
  if (operation.goal == Goal::point_to_point)
    how = fmt::format("from {} to {}", operation.root, operation.peer);
  else if (has_root(operation.goal))
    how += fmt::format(", root {}", operation.root);
  return fmt::format("#{} {} ({}) of {} {}", operation.number, name(operation.goal), how, operation.elements, name(operation.type));
}

std::string describe_operation(const Signature& signature) { return to_string(unpack(signature)); }

}  // namespace ddl
