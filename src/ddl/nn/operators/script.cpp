#include "ddl/core/error.h"
#include "ddl/nn/operators/operator.h"
#include "ddl/nn/script.h"

namespace ddl {

at::Tensor run_script(const OperatorContext& c) {
  invariant(c.script != nullptr, "a script layer has its module");
  return c.script->forward(c.inputs[0], c.training);
}

}  // namespace ddl
