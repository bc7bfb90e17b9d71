#include "ddl/nn/plugins.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "ddl/core/error.h"
#include "ddl/core/text.h"

namespace ddl {

void load_plugin(const std::string& library, Registry<ModelFactory>& models) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(library, ignored))
    throw Error(Code::not_found, fmt::format("[plugin] no such library; got '{}' in $DDLBENCH_PLUGINS", library));
  // A path without a slash would be looked for in the system's folders.
  void* const handle = ::dlopen(std::filesystem::absolute(library).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw Error(Code::unsupported, fmt::format("[plugin] '{}' does not load: {}", library, ::dlerror()));
  const auto* const version = static_cast<const int*>(::dlsym(handle, "ddl_plugin_version"));
  const auto add = reinterpret_cast<void (*)(Registry<ModelFactory>&)>(::dlsym(handle, "ddl_register_models"));
  if (version == nullptr || add == nullptr)
    throw Error(Code::unsupported, fmt::format("[plugin] '{}' is no plug-in of ddlbench: it lacks {}", library,
                                               version == nullptr ? "ddl_plugin_version" : "ddl_register_models"));
  if (*version != kPluginVersion)
    throw Error(Code::unsupported, fmt::format("[plugin] '{}' was built for another ddlbench; got version {}, expected {}", library, *version,
                                               kPluginVersion));
  try {
    add(models);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("[plugin] '{}': {}", library, error.what()));
  }
}

Registry<ModelFactory> all_models() {
  auto models = builtin_models();
  if (const auto* const list = std::getenv("DDLBENCH_PLUGINS"); list != nullptr)
    for (const auto& library : split(list, ':'))
      if (!library.empty()) load_plugin(library, models);
  return models;
}

}  // namespace ddl
