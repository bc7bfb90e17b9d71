#pragma once

#include <string>
#include <vector>

#include "ddl/nn/builtin.h"

namespace ddl {

/// The built-in networks and those of the libraries that $DDLBENCH_PLUGINS names, with colons between.
/// Errors: as load_plugin.
Registry<ModelFactory> all_models();

/// Lets a shared library add its networks. It exports two things:
///
///     extern "C" const int ddl_plugin_version = ddl::kPluginVersion;
///     extern "C" void ddl_register_models(ddl::Registry<ddl::ModelFactory>& models) { models.add({"name", "summary", factory}); }
///
/// and finds GraphBuilder in the program that loads it: built with the same compiler and the same headers, it links
/// nothing. It stays loaded. Errors: not_found, unsupported (another version, or not a plug-in), invalid_argument (a name
/// that is taken), each naming the library.
void load_plugin(const std::string& library, Registry<ModelFactory>& models);

/// Changes with any header that plug-ins include.
constexpr int kPluginVersion = 1;

}  // namespace ddl
