#pragma once

#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/lab/predict_job.h"
#include "ddl/lab/stored_samples.h"

namespace ddl {

/// What of a prediction lies outside of what was measured of a machine, or of what datasheets were held against, and what that adds to how far it may be off.
struct Beyond {
  std::vector<std::string> words;  ///< one for each; empty: all is inside
  double ranks = 0;                ///< doublings between the ranks of messages or collectives and those nearest to them that were measured, of those furthest off
  double bytes = 0;                ///< doublings of the largest message, or compressed bucket, over the largest that was measured; or of the smallest that was, over the smallest message
  double workers = 0;              ///< doublings of the workers that compute on a host over the most that were measured at once
  double carried = 0;              ///< doublings of an update, or of making a batch, over the most that was measured
  double readers = 0;              ///< doublings of what makes a worker's batches, or reads a storage, at once over the one that was measured
  bool storage = false;            ///< batches are read from storage as it was measured, once
  bool brief = false;              ///< steps below a millisecond of several emulated workers
  double crowded = 0;              ///< doublings of workers, emulated ones among them, over the host's cores
  bool untimed = false;            ///< collectives of a sort that was never timed are priced by the rounds of others
  bool memory = false;             ///< of exchanges: whose memory lies elsewhere than what was measured
  bool fabric = false;             ///< exchanges go over a test network, which was not measured
  bool host = false;               ///< of this host its wires alone were measured
  bool contention = false;         ///< what a collective and computing take from each other was not measured over its transport
  bool alone = false;              ///< tasks are priced as if each had cores, memory and wires for itself
  double devices = 0;              ///< of datasheets: doublings of devices over the most whose measured steps this was held against
  bool node = false;               ///< of datasheets: what several devices have on their way at once on the wires of a node shares nothing there
  double unheld = 0;               ///< of datasheets: how much further off what no measured step had may be, of the logarithm
  double unheld_apart = 0;         ///< of that, what is of this way of the job and not of every other
  bool wires = false;              ///< of datasheets: over wires that are not the profile's
};

/// The most devices whose measured steps predictions by datasheets were held against (docs/validation.md, "What predict says of these rows"): of convolutional networks, and of others.
inline constexpr int kDatasheetDevices = 3072, kDatasheetDevicesOfConvolutions = 64;

/// `part`: what worker 0 has of the network; `machine` as `costs` were made of it; `step`: what was predicted.
Beyond beyond_known(const Job& job, const Plan& plan, const ModelGraph& part, const JobCosts& costs, const Json& machine, const StoredSamples& stored, const StepPrediction& step);

}  // namespace ddl
