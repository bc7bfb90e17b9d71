#include <utility>

#include "ddl/nn/graph_builder.h"

namespace ddl {

int GraphBuilder::script(const std::string& name, int from, const std::string& file, std::vector<ParameterSpec> parameters, std::int64_t classes) {
  Layer layer{name, LayerKind::script, {from}, {classes}};
  layer.attributes.file = file;
  layer.parameters = std::move(parameters);
  return append(std::move(layer), {});
}

}  // namespace ddl
