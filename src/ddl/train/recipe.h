#pragma once

#include <string>

#include "ddl/data/dataset.h"

namespace ddl {

/// What a step computes, and how exactly.
struct Recipe {
  SampleShape shape = {};           ///< of the data set
  std::string precision = "fp32";   ///< as jobs name it; the network's parameters are of element_bytes(precision)
  double label_smoothing = 0;
  bool recompute = false;           ///< activations, in backward; of plans of one stage. Others say so task by task
  double clip = 0;                  ///< the largest norm of the gradient of all parameters together; 0: any
  bool graphs = false;              ///< passes are recorded as graphs of the device, where it has such and the plan's can be (pass_graphs.h)
};

}  // namespace ddl
