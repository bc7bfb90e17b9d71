#include "ddl/cli/experiment_flags.h"
#include "ddl/collective/communicator.h"
#include "ddl/core/error.h"
#include "ddl/data/dataset.h"
#include "ddl/lab/config_values.h"
#include "ddl/nn/builtin.h"
#include "ddl/strategy/builtin.h"
#include "ddl/subject/subject.h"
#include "ddl/transport/builtin.h"

namespace ddl {
namespace {

template <typename Check>
void checked(const Experiment& experiment, const char* key, Check check) {
  try {
    check();
  } catch (const Error& error) {
    throw prefixed(fmt::format("{}: {}", experiment.provenance.at(key).get<std::string>(), key), error);
  }
}

}  // namespace

void check_names(const Experiment& experiment) {
  const auto& job = experiment.job;
  // Looking for a peer's Python costs 20 ms, which our own start should not pay.
  if (experiment.subject != "ddlbench") checked(experiment, "subject", [&] { builtin_subjects().at(experiment.subject); });
  checked(experiment, "dataset", [&] { builtin_datasets().at(job.dataset); });
  checked(experiment, "model", [&] { builtin_models().at(job.model.name).make(job.model, dataset_shape(job.dataset)); });
  checked(experiment, "strategy", [&] { builtin_strategies().at(job.strategy.name); });
  checked(experiment, "transport", [&] { builtin_transports().at(job.transport); });
  if (job.collective != "auto") checked(experiment, "collective", [&] { builtin_collectives().at(job.collective); });
}

}  // namespace ddl
