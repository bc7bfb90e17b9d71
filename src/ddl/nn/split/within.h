#pragma once

#include "ddl/nn/graph.h"

namespace ddl {

/// A part's network as a whole one, for the next axis to split: what says of which whole it is a part is left out.
ModelGraph as_whole(ModelGraph part);

/// `part` is what `axis` has made of as_whole(outer): says of all of it what it is of the whole network, of which `outer` is itself a part, or which it is.
void set_within(const ModelGraph& outer, ModelGraph& part, int axis);

}  // namespace ddl
