#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ddl/cli/exit_codes.h"
#include "ddl/cli/output.h"
#include "ddl/core/json.h"
#include "ddl/lab/config.h"
#include "ddl/lab/predict_job.h"

namespace ddl {

/// An experiment, predicted, for the commands that run nothing.
struct PredictedPoint {
  Experiment experiment;
  std::optional<JobPrediction> found;
  std::string reason;  ///< why there is none
  int workers() const { return static_cast<int>(experiment.job.workers.size()); }
};

/// Of --machine of those commands.
inline constexpr const char* kMachineHelp =
    "A profile: a name (ddlbench list machines), a datasheet's with its layout as in a100-80gb[nodes=16,devices_per_node=4,link_intra=pcie4,link_inter=2x100Gbps], or a file; none: this machine's own, as probe measured it.";

PredictedPoint predict_point(Experiment experiment, const Json& machine, Engine engine = Engine::automatic, int per_node = 0, const StoredSamples& stored = {});

/// `ddlbench.predict/1`. `machine`: a profile, called `asked` by the user; `engine`: as the user asked for it.
/// `alone`: seconds of one worker's step of the same batch, which speed-ups are of; none where there is no such.
Json predicted_json(const std::vector<PredictedPoint>& points, const Json& machine, const std::string& asked, const std::string& engine, double seconds, std::optional<double> alone = {});

/// A table, on standard output, then what could not be predicted, and what to know of the machine. `named`: rows begin with the experiment's name, not with the number of its workers.
void say_predicted(const std::vector<PredictedPoint>& points, const Json& machine, bool named, const Output& output, std::optional<double> alone = {});

/// Seconds of one worker that takes the whole batch by itself, the fastest of a point's where they are unlike; the point may be that. None where that cannot be predicted.
std::optional<double> seconds_alone(const PredictedPoint& first, const Json& machine, Engine engine, const StoredSamples& stored);

/// What to know of a machine whose layers were not measured; nothing else.
void say_source(const Json& machine, const Output& output);

/// ok, partial, or usage where nothing could be predicted, which is told.
Exit exit_for_predicted(const std::vector<PredictedPoint>& points);

}  // namespace ddl
