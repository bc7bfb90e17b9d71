#include "ddl/train/split_backward.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include "ddl/nn/operators/autograd_node.h"

namespace ddl {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;

/// Whose gradient of the weights is a product of its own, for which the gradient of the input is not needed.
bool is_product(const Node& node) {
  constexpr std::array<std::string_view, 11> kProducts{"ProductBackward", "ProjectionsBackward", "WinogradBackward", "GroupsBackward", "WideConvolutionBackward", "ConvolutionBackward0", "AddmmBackward0", "MmBackward0", "BmmBackward0", "LinearBackward0", "ReplayedProduct"};
  const auto name = node.name();
  return std::find(kProducts.begin(), kProducts.end(), name) != kProducts.end();
}

/// Stands where the graph goes on to parameters alone, and holds what comes in.
struct Catch final : Node {
  at::Tensor caught = {};
  variable_list apply(variable_list&& gradients) override {
    caught = std::move(gradients[0]);
    return {};
  }
};

/// Sees the gradients that come into a node.
struct Watch final : torch::autograd::FunctionPreHook {
  std::shared_ptr<variable_list> seen = std::make_shared<variable_list>();
  variable_list operator()(const variable_list& gradients) override {
    *seen = gradients;
    return gradients;
  }
};

/// Lets go of what a node kept once it has run.
struct Release final : torch::autograd::FunctionPostHook {
  explicit Release(Node& of) : node(of) {}
  Node& node;
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    node.release_variables();
    return outputs;
  }
};

/// Which nodes lie on the way to a given leaf, in an order in which each comes after all that it leads to.
class Ways {
 public:
  Ways(const edge_list& roots, const std::vector<at::Tensor>& given) {
    for (const auto& root : roots) walk(root.function.get(), given);
  }
  bool lead(const Node* node) const { return leads_.at(node); }
  const std::vector<Node*>& on_the_way() const { return nodes_; }

 private:
  static bool is_given(Node* node, const std::vector<at::Tensor>& given) {
    const auto* const leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node);
    return leaf != nullptr && std::any_of(given.begin(), given.end(), [&](const at::Tensor& each) { return each.is_same(leaf->variable); });
  }

  /// Without recursion: graphs are deeper than stacks.
  void walk(Node* root, const std::vector<at::Tensor>& given) {
    std::vector<std::pair<Node*, std::size_t>> path;
    const auto enter = [&](Node* node) {
      if (node != nullptr && leads_.emplace(node, is_given(node, given)).second) path.emplace_back(node, 0);
    };
    enter(root);
    while (!path.empty()) {
      auto& [node, next] = path.back();
      if (next < node->next_edges().size()) {
        enter(node->next_edges()[next++].function.get());
        continue;
      }
      auto& leads = leads_.at(node);
      const bool leaf = leads;
      for (const auto& edge : node->next_edges()) leads = leads || (edge.is_valid() && leads_.at(edge.function.get()));
      if (leads && !leaf) nodes_.push_back(node);
      path.pop_back();
    }
  }

  std::unordered_map<const Node*, bool> leads_;
  std::vector<Node*> nodes_;
};

/// One input of a node beside the way, and what stands there meanwhile.
struct Detour {
  Edge edge;
  NodePointer<Catch> caught;
};

/// A product on the way: the part of it that is left for later.
struct Product {
  Node* node;
  std::shared_ptr<variable_list> seen;
  std::vector<std::pair<std::size_t, Edge>> weights;  ///< edges that are cut, with their places
};

class Split {
 public:
  explicit Split(const Ways& ways) : ways_(ways) {
    for (auto* const node : ways.on_the_way()) {
      const auto& edges = node->next_edges();
      const bool learns = std::any_of(edges.begin(), edges.end(), [&](const Edge& edge) { return is_beside(edge); });
      if (learns && is_product(*node)) {
        cut(*node);
      } else {
        if (learns) divert(*node);
        node->add_post_hook(std::make_unique<Release>(*node));
      }
    }
  }

  /// After the first part: products are left with their weights alone.
  void collect(LateGradients& late) {
    for (auto& product : products_) {
      auto& edges = product.node->next_edges();
      std::fill(edges.begin(), edges.end(), Edge());
      for (auto& [place, edge] : product.weights) edges[place] = std::move(edge);
      product.node->pre_hooks().pop_back();
      for (std::size_t i = 0; i < product.seen->size(); ++i) {
        if (!(*product.seen)[i].defined()) continue;
        late.edges.emplace_back(product.node->getptr(), static_cast<std::uint32_t>(i));
        late.gradients.push_back(std::move((*product.seen)[i]));
      }
    }
    for (auto& detour : detours_) {
      if (!detour.caught->caught.defined()) continue;
      late.edges.push_back(std::move(detour.edge));
      late.gradients.push_back(std::move(detour.caught->caught));
    }
  }

 private:
  bool is_beside(const Edge& edge) const { return edge.is_valid() && !ways_.lead(edge.function.get()); }

  void cut(Node& node) {
    auto watch = std::make_unique<Watch>();
    Product product{&node, watch->seen, {}};
    auto& edges = node.next_edges();
    for (std::size_t i = 0; i < edges.size(); ++i)
      if (is_beside(edges[i])) product.weights.emplace_back(i, std::exchange(edges[i], Edge()));
    node.add_pre_hook(std::move(watch));
    products_.push_back(std::move(product));
  }

  void divert(Node& node) {
    for (auto& edge : node.next_edges()) {
      if (!is_beside(edge)) continue;
      auto caught = make_node<Catch>();
      // As that which it stands for, so that gradients are brought to the same shape and type.
      const auto& like = edge.function->input_metadata(edge.input_nr);
      caught->add_input_metadata(like.options(), like.shape_as_dim_vector(), like.is_tensor_subclass(), like.is_nested_tensor(), like.grad_dtype());
      detours_.push_back({std::exchange(edge, Edge(caught, 0)), caught});
    }
  }

  const Ways& ways_;
  std::vector<Product> products_;
  std::vector<Detour> detours_;
};

void run(const edge_list& roots, const variable_list& gradients, bool keep) {
  if (!roots.empty()) torch::autograd::Engine::get_default_engine().execute(roots, gradients, keep, false, true);
}

}  // namespace

LateGradients backward_input(edge_list roots, variable_list gradients, const std::vector<at::Tensor>& given) {
  const Ways ways(roots, given);
  LateGradients first, late;
  for (std::size_t i = 0; i < roots.size(); ++i) {
    auto& part = ways.lead(roots[i].function.get()) ? first : late;
    part.edges.push_back(std::move(roots[i]));
    part.gradients.push_back(std::move(gradients[i]));
  }
  Split split(ways);
  run(first.edges, first.gradients, true);
  // Products are held by those that lead to them until they are among what is late.
  split.collect(late);
  return late;
}

void backward_weight(LateGradients late) { run(late.edges, late.gradients, false); }

}  // namespace ddl
