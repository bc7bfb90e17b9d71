#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>

namespace ddl {

/// A node of autograd's graph, held as LibTorch holds it: counted by the node itself in 2.13, by a shared_ptr in 2.11 (whose own deleter takes graphs apart without recursion; ours are some hundred nodes deep).
template <typename Node>
auto make_node(auto&&... arguments) {
  if constexpr (std::is_base_of_v<c10::intrusive_ptr_target, torch::autograd::Node>)
    return c10::make_intrusive<Node>(std::forward<decltype(arguments)>(arguments)...);
  else
    return std::make_shared<Node>(std::forward<decltype(arguments)>(arguments)...);
}

template <typename Node>
using NodePointer = std::conditional_t<std::is_base_of_v<c10::intrusive_ptr_target, torch::autograd::Node>, c10::intrusive_ptr<Node>, std::shared_ptr<Node>>;

}  // namespace ddl
