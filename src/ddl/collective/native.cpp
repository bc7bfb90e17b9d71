#include "ddl/collective/native.h"

#include "ddl/core/error.h"
#include "ddl/core/options.h"
#include "ddl/transport/native.h"

namespace ddl {
namespace {

using Kind = NativeCall::Kind;

std::optional<Kind> kind_of(Goal goal) {
  switch (goal) {
    case Goal::all_reduce: return Kind::all_reduce;
    case Goal::broadcast: return Kind::broadcast;
    case Goal::barrier: return Kind::barrier;
    case Goal::reduce: return Kind::reduce;
    case Goal::reduce_scatter: return Kind::reduce_scatter;
    case Goal::all_gather: return Kind::all_gather;
    case Goal::gather: return Kind::gather;
    case Goal::scatter: return Kind::scatter;
    case Goal::all_to_all: return Kind::all_to_all;
    case Goal::point_to_point: return std::nullopt;
  }
  return std::nullopt;
}

bool in_parts(Goal goal) {
  return goal == Goal::reduce_scatter || goal == Goal::all_gather || goal == Goal::gather || goal == Goal::scatter || goal == Goal::all_to_all;
}

void reduce_elements(ReduceOp op, ElementType type, std::byte* inout, const std::byte* in, std::size_t elements) {
  reduce_into(op, type, inout, in, elements);
}

}  // namespace

bool is_native_goal(Goal goal) { return kind_of(goal).has_value(); }

std::optional<NativeChoice> parse_native(Goal goal, std::string_view word) {
  if (!word.starts_with("native")) return std::nullopt;
  const Spec spec = parse_spec(word);
  if (spec.name != "native") return std::nullopt;
  require_options(spec, {"meet"});
  if (!kind_of(goal)) throw Error(Code::unsupported, fmt::format("[{}] unsupported: no library has it as a collective; expected direct", name(goal)));
  NativeChoice choice;
  choice.meets = switch_option(spec, "meet", choice.meets);
  return choice;
}

std::optional<NativeChoice> choose_native(Goal goal, std::string_view word, Transport& transport) {
  const auto choice = parse_native(goal, word);
  if (choice && transport.native() == nullptr)
    throw Error(Code::unsupported, fmt::format("[{}] unsupported: this transport's library has no collectives of its own", name(goal)));
  return choice;
}

void run_native(const NativeChoice& choice, Transport& transport, const Collective& what, const Buffer& buffer,
                const Signature& signature, Seconds timeout) {
  const int ranks = transport.size(), rank = transport.rank();
  NativeCall call;
  call.kind = *kind_of(what.goal);
  const bool scaled_here = !transport.native()->scales();
  call.op = !scaled_here || what.op == ReduceOp::max || what.op == ReduceOp::min ? what.op : ReduceOp::sum;
  call.factor = what.factor;
  call.type = buffer.type;
  call.root = what.root;
  call.data = buffer.data;
  call.elements = buffer.elements;
  if (in_parts(what.goal))
    for (int each = 0; each < ranks; ++each) call.counts.push_back(part_of(buffer.elements, ranks, each).size());
  if (scaled_here && reduces(what.goal) && what.op == ReduceOp::weighted_sum)
    scale_into(buffer.type, buffer.data, buffer.data, buffer.elements, what.factor);
  transport.native()->run(call, reduce_elements, choice.meets, timeout, signature);
  if (!scaled_here || !reduces(what.goal) || what.op != ReduceOp::average) return;
  const Range result = what.goal == Goal::reduce_scatter         ? part_of(buffer.elements, ranks, rank)
                       : what.goal == Goal::reduce && rank != what.root ? Range{}
                                                                  : Range{0, buffer.elements};
  std::byte* const at = buffer.data + result.begin * size_of(buffer.type);
  scale_into(buffer.type, at, at, result.size(), 1, ranks);
}

}  // namespace ddl
