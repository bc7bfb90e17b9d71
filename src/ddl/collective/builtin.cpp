#include <algorithm>

#include "ddl/core/error.h"
#include "ddl/collective/algorithms.h"
#include "ddl/collective/algorithms/algorithms.h"
#include "ddl/core/text.h"
#include "ddl/core/units.h"

namespace ddl {
namespace {

CollectiveAlgorithm plain(Goal goal, Schedule (*schedule)(int, const CollectiveShape&)) {
  return {goal, [schedule](const Spec&) { return Algorithm(schedule); }};
}

/// Those that move a buffer in segments.
CollectiveAlgorithm segmented(Goal goal, Schedule (*schedule)(int, const CollectiveShape&)) {
  auto algorithm = plain(goal, schedule);
  algorithm.options = {"segment"};
  return algorithm;
}

std::string option(const Spec& spec, const std::string& name, const std::string& otherwise) {
  const auto found = spec.options.find(name);
  return found == spec.options.end() ? otherwise : found->second;
}

CollectiveAlgorithm hierarchical() {
  return {Goal::all_reduce,
          [](const Spec& spec) {
            const auto within = option(spec, "within", "direct");
            if (within != "direct" && within != "ring")
              throw Error(Code::invalid_argument, fmt::format("hierarchical: option 'within'; got '{}', expected direct or ring", within));
            return hierarchical_all_reduce(choose_algorithm(Goal::reduce_scatter, within).algorithm,
                                           choose_algorithm(Goal::all_reduce, option(spec, "between", "ring")).algorithm,
                                           choose_algorithm(Goal::all_gather, within).algorithm);
          },
          {"within", "between"}};
}

/// As it is registered.
std::string full_name(Goal goal, const std::string& word) {
  return goal == Goal::all_reduce ? word : fmt::format("{}/{}", name(goal), word);
}

}  // namespace

Registry<CollectiveAlgorithm> builtin_collectives() {
  Registry<CollectiveAlgorithm> all("collective");
  all.add({"ring", "all-reduce around a ring, even load on every link; segment=64KiB pipelines it", segmented(Goal::all_reduce, ring_all_reduce)});
  all.add({"direct", "all-reduce, each rank one slice from all others; in place where memory is shared", plain(Goal::all_reduce, direct_all_reduce)});
  all.add({"recursive-doubling", "all-reduce of everything between pairs; fewest rounds", plain(Goal::all_reduce, recursive_doubling_all_reduce)});
  all.add({"halving-doubling", "all-reduce by halves between pairs (Rabenseifner)", plain(Goal::all_reduce, halving_doubling_all_reduce)});
  all.add({"tree", "all-reduce up and down a binary tree, in segments", segmented(Goal::all_reduce, tree_all_reduce)});
  all.add({"double-tree", "all-reduce over two complementary trees, half each", segmented(Goal::all_reduce, double_tree_all_reduce)});
  all.add({"hierarchical", "all-reduce within hosts, between them, within; within=direct|ring, between=any all-reduce", hierarchical()});
  all.add({"star", "all-reduce at one rank, as a parameter server does", plain(Goal::all_reduce, star_all_reduce)});
  all.add({"broadcast/binomial", "binomial tree from the root", plain(Goal::broadcast, binomial_broadcast)});
  all.add({"broadcast/scatter-all-gather", "parts to all, then around a ring; for large buffers", plain(Goal::broadcast, scatter_all_gather_broadcast)});
  all.add({"reduce/binomial", "binomial tree towards the root", plain(Goal::reduce, binomial_reduce)});
  all.add({"reduce-scatter/direct", "pairwise exchange", plain(Goal::reduce_scatter, direct_reduce_scatter)});
  all.add({"reduce-scatter/ring", "around a ring", plain(Goal::reduce_scatter, ring_reduce_scatter)});
  all.add({"all-gather/direct", "pairwise exchange", plain(Goal::all_gather, direct_all_gather)});
  all.add({"all-gather/ring", "around a ring", plain(Goal::all_gather, ring_all_gather)});
  all.add({"all-to-all/direct", "pairwise exchange", plain(Goal::all_to_all, direct_all_to_all)});
  all.add({"gather/direct", "everyone to the root at once", plain(Goal::gather, direct_gather)});
  all.add({"scatter/direct", "the root to everyone at once", plain(Goal::scatter, direct_scatter)});
  all.add({"barrier/dissemination", "empty messages, in rounds of doubling distance", plain(Goal::barrier, dissemination_barrier)});
  all.add({"point-to-point/direct", "one message", plain(Goal::point_to_point, send_receive)});
  return all;
}

/// FNV-1a, folded to 12 bits other than 0.
static int digest_of(std::string_view text) {
  std::uint32_t hash = 2166136261u;
  for (const char each : text) hash = (hash ^ static_cast<unsigned char>(each)) * 16777619u;
  return static_cast<int>((hash ^ hash >> 12 ^ hash >> 24) % 4095 + 1);
}

/// What a user may call the algorithms of one goal.
static std::vector<std::string> words_of(const Registry<CollectiveAlgorithm>& registry, Goal goal) {
  std::vector<std::string> words;
  for (const auto& entry : registry.entries())
    if (entry.make.goal == goal) words.push_back(entry.name.substr(full_name(goal, "").size()));
  return words;
}

ChosenAlgorithm choose_algorithm(Goal goal, std::string_view text) {
  static const auto registry = builtin_collectives();
  const Spec spec = parse_spec(text);
  const auto words = words_of(registry, goal);
  if (std::find(words.begin(), words.end(), spec.name) == words.end()) {
    const auto all = registry.names();
    const bool of_another = std::find(all.begin(), all.end(), spec.name) != all.end();
    throw Error(of_another ? Code::invalid_argument : Code::not_found,
                fmt::format("[collective] no algorithm of {}; got '{}'{}, expected auto or one of: {}", name(goal), spec.name, did_you_mean(spec.name, words), join(words, " ")));
  }
  const auto& entry = registry.at(full_name(goal, spec.name));
  require_options(spec, entry.make.options);
  ChosenAlgorithm chosen;
  chosen.index = static_cast<int>(&entry - registry.entries().data());
  chosen.algorithm = entry.make.with(spec);
  if (!spec.options.empty()) chosen.options = digest_of(to_string(spec));
  if (const auto segment = option(spec, "segment", ""); !segment.empty()) chosen.segment_bytes = static_cast<std::size_t>(parse_bytes(segment).value);
  return chosen;
}

}  // namespace ddl
