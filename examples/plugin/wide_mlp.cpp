// A network of one's own, in one file: two wide layers side by side, added.
//
//   c++ -std=c++20 -shared -fPIC -DFMT_HEADER_ONLY -I DDLBENCH/src -I FMT wide_mlp.cpp -o wide_mlp.so
//   DDLBENCH_PLUGINS=./wide_mlp.so ddlbench run --model wide-mlp[width=256] --synthetic --steps 20 --workers 2
//
// FMT is the folder with fmt/format.h: DDLBENCH/build/release/fmt-include. Nothing is linked: the library finds
// GraphBuilder in the ddlbench that loads it, and must be built with its headers and compiler.
#include "ddl/nn/networks/common.h"
#include "ddl/nn/plugins.h"

namespace {

/// Shape:  any images -> classes.
ddl::ModelGraph wide_mlp(const ddl::Spec& options, const ddl::SampleShape& shape) {
  ddl::require_options(options, {"width"});
  const auto width = ddl::whole_option(options, "width", 1024, 1, 1 << 20);
  auto net = ddl::for_images("wide-mlp", shape);
  const int x = net.flatten("flatten", ddl::GraphBuilder::kInput);
  const int left = net.relu("left.relu", net.linear("left", x, width));
  const int right = net.tanh("right.tanh", net.linear("right", x, width));
  net.linear("fc", net.add("sum", left, right), shape.classes);
  return std::move(net).finish();
}

}  // namespace

extern "C" const int ddl_plugin_version = ddl::kPluginVersion;

extern "C" void ddl_register_models(ddl::Registry<ddl::ModelFactory>& models) {
  models.add({"wide-mlp", "two wide layers side by side (an example of a plug-in)", wide_mlp});
}
