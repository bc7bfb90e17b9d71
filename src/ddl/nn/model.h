#pragma once

#include "ddl/nn/builtin.h"

namespace ddl {

/// A network by what a user calls it: a built-in one, one of a plug-in, or the path of a TorchScript file (`net.pt`).
/// Errors: not_found with the nearest name; of the factory; of plug-ins (plugins.h) and TorchScript files (script.h);
/// invalid_argument where such a file has nothing to train or does not give [classes] for an image.
ModelGraph make_model(const Spec& spec, const SampleShape& shape);

/// Whether a name is a file's, not a registered network's.
bool is_script(const std::string& name);

}  // namespace ddl
