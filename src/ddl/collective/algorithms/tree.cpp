#include "ddl/collective/algorithms/tree.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>

#include "ddl/collective/algorithms/algorithms.h"

namespace ddl {
namespace {

/// What keeps a link busy without making the tree's depth cost much.
constexpr std::size_t kSegment = std::size_t{32} << 10;

/// The tree over in_order positions, with position p at rank `rank_at(p)`.
BinaryTree make_tree(int ranks, const std::function<int(int)>& rank_at) {
  BinaryTree tree;
  tree.nodes.resize(static_cast<std::size_t>(ranks));
  // Positions [begin, end) below `parent`; the root stands where everything to its left is a full tree.
  const std::function<void(int, int, int, int, int)> grow = [&](int begin, int end, int parent, int turn, int depth) {
    if (begin == end) return;
    const auto count = static_cast<unsigned>(end - begin);
    const int root = begin + static_cast<int>(std::bit_floor(count)) - 1;
    const int rank = rank_at(root);
    auto& node = tree.nodes[static_cast<std::size_t>(rank)];
    node.parent = parent;
    node.turn = turn;
    node.depth = depth;
    tree.depth = std::max(tree.depth, depth);
    if (parent != kNobody) tree.nodes[static_cast<std::size_t>(parent)].children[static_cast<std::size_t>(turn)] = rank;
    grow(begin, root, rank, 0, depth + 1);
    grow(root + 1, end, rank, 1, depth + 1);
  };
  grow(0, ranks, kNobody, 0, 0);
  return tree;
}

}  // namespace

BinaryTree in_order_tree(int ranks) {
  return make_tree(ranks, [](int position) { return position; });
}

BinaryTree complementary_tree(int ranks) {
  // Mirrored, even positions become odd ranks; with an odd number of ranks that takes a shift instead.
  if (ranks % 2 == 0) return make_tree(ranks, [=](int position) { return ranks - 1 - position; });
  return make_tree(ranks, [=](int position) { return (position + 1) % ranks; });
}

void take_turns(BinaryTree& one, BinaryTree& other) {
  struct Link {
    bool in_other;
    int child;
  };
  const std::size_t ranks = one.nodes.size();
  std::array<std::vector<bool>, 2> placed{std::vector<bool>(ranks), std::vector<bool>(ranks)};
  const auto tree = [&](const Link& link) -> BinaryTree& { return link.in_other ? other : one; };
  const auto node = [&](const Link& link) -> BinaryTree::Node& { return tree(link).nodes[static_cast<std::size_t>(link.child)]; };
  // Each link to a parent must differ from its sibling's and from that of the same rank in the other tree. Following the one
  // and the other by turns never comes back with an odd number of links, so there always are such turns.
  const auto place = [&](const Link& first) {
    std::vector<std::pair<Link, int>> left{{first, 0}};
    while (!left.empty()) {
      const auto [link, turn] = left.back();
      left.pop_back();
      if (link.child == kNobody || node(link).parent == kNobody || placed[link.in_other][static_cast<std::size_t>(link.child)]) continue;
      placed[link.in_other][static_cast<std::size_t>(link.child)] = true;
      node(link).turn = turn;
      left.push_back({{!link.in_other, link.child}, 1 - turn});
      for (const int sibling : tree(link).nodes[static_cast<std::size_t>(node(link).parent)].children) left.push_back({{link.in_other, sibling}, 1 - turn});
    }
  };
  for (const bool in_other : {false, true})
    for (int rank = 0; rank < static_cast<int>(ranks); ++rank) place({in_other, rank});
}

Schedule all_reduce_on(const std::vector<BinaryTree>& trees, int rank, const CollectiveShape& shape) {
  // Every message has a slot of a common time table, the same at both of its ends, and a rank's rounds are its slots in
  // order: so nobody waits in a circle. A segment climbs one level every two slots, since a rank takes from one child
  // after the other, and descends one level every two, since it gives to one after the other.
  std::map<int, Round> slots;
  const auto count = static_cast<int>(trees.size());
  for (int number = 0; number < count; ++number) {
    const auto& tree = trees[static_cast<std::size_t>(number)];
    const auto& node = tree.nodes[static_cast<std::size_t>(rank)];
    const auto segments = cut(part_of(shape.elements, count, number), shape.segment == 0 ? kSegment : shape.segment);
    for (std::size_t segment = 0; segment < segments.size(); ++segment) {
      const Range range = segments[segment];
      // When a rank of this depth gives the segment to its parent, and takes it back.
      const auto up = [&](const BinaryTree::Node& child) { return 2 * (static_cast<int>(segment) + tree.depth - child.depth) + child.turn; };
      const auto down = [&](const BinaryTree::Node& child) { return 2 * (static_cast<int>(segment) + tree.depth + child.depth) + child.turn; };
      for (const int peer : node.children) {
        if (peer == kNobody) continue;
        const auto& child = tree.nodes[static_cast<std::size_t>(peer)];
        slots[up(child)].push_back({StepKind::reduce, peer, range});
        slots[down(child)].push_back({StepKind::send, peer, range});
      }
      if (node.parent != kNobody) {
        slots[up(node)].push_back({StepKind::send, node.parent, range});
        slots[down(node)].push_back({StepKind::receive, node.parent, range});
      }
    }
  }
  Schedule schedule{rank, shape.ranks, shape.elements, {}};
  for (auto& [slot, round] : slots) schedule.rounds.push_back(std::move(round));
  return schedule;
}

/// Sums climb one binary tree and come down again, in segments, so that all levels work at once.
/// Shape:   n elements per rank -> n.
/// Order:   every rank adds its left child's sum, then its right one's.
/// Cost:    2 log2 P levels of latency; an inner rank sends and receives 3n. Ranks that work at the same time wait for each other, so
///          that it takes the time of about 4n for large n and P >= 8: twice the double tree's, which is here to be compared with.
/// Errors:  none.
/// Source:  P. Sanders, J. Speck, J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
///          Parallel Computing 35(12), 2009, section 2.
Schedule tree_all_reduce(int rank, const CollectiveShape& shape) { return all_reduce_on({in_order_tree(shape.ranks)}, rank, shape); }

}  // namespace ddl
