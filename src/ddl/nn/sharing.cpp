#include "ddl/nn/sharing.h"

#include <algorithm>
#include <map>

namespace ddl {

std::vector<Sharing> sharing_of_layers(const ModelGraph& graph, const std::vector<bool>& here) {
  const auto& layers = graph.layers;
  const auto has = [&](std::size_t layer) { return here.empty() || here[layer]; };
  std::map<std::size_t, std::vector<std::size_t>> users;  // of what a layer lends
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (const auto& borrowed : layers[i].borrowed)
      if (has(i)) users[static_cast<std::size_t>(borrowed.layer)].push_back(i);
  for (auto& [owner, all] : users)
    if (has(owner)) all.push_back(owner);

  std::vector<Sharing> sharing(layers.size(), Sharing::none);
  const auto is_table = [&](std::size_t layer) { return layers[layer].kind == LayerKind::embedding; };
  for (const auto& [owner, all] : users) {
    if (all.size() < 2) continue;
    const auto products = std::ssize(all) - std::count_if(all.begin(), all.end(), is_table);
    for (const auto user : all) sharing[user] = is_table(user) ? (products > 0 ? Sharing::product : Sharing::tables) : (products > 1 ? Sharing::others : Sharing::tables);
  }
  return sharing;
}

std::vector<bool> summed_by_autograd(const ModelGraph& graph) {
  const auto sharing = sharing_of_layers(graph);
  std::vector<bool> summed;
  for (const auto each : sharing) summed.push_back(each == Sharing::others);
  // Their owner may be a table.
  for (std::size_t i = 0; i < sharing.size(); ++i)
    for (const auto& borrowed : graph.layers[i].borrowed)
      if (summed[i]) summed[static_cast<std::size_t>(borrowed.layer)] = true;
  return summed;
}

}  // namespace ddl
