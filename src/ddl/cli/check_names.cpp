#include "ddl/cli/experiment_flags.h"
#include "ddl/core/error.h"
#include "ddl/data/dataset.h"
#include "ddl/lab/config.h"
#include "ddl/lab/config_values.h"
#include "ddl/subject/subject.h"

namespace ddl {
namespace {

template <typename Check>
void checked(const Experiment& experiment, const char* key, Check check) {
  try {
    check();
  } catch (const Error& error) {
    throw prefixed(origin_of(experiment, key), error);
  }
}

}  // namespace

void check_names(const Experiment& experiment) {
  const auto& job = experiment.job;
  // Looking for a peer's Python costs 20 ms, which our own start should not pay.
  if (experiment.subject != "ddlbench") checked(experiment, "subject", [&] { builtin_subjects().at(experiment.subject); });
  checked(experiment, "dataset", [&] { dataset_shape(job.dataset, job.synthetic); });
  check_experiment(experiment, job.synthetic ? job.train_samples : 0);
}

}  // namespace ddl
