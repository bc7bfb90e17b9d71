#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ddl/core/spec.h"
#include "ddl/core/units.h"

namespace ddl {

/// One worker's device as asked for: `cpu[threads=2]`.
struct WorkerSpec {
  std::string device = "cpu";  ///< cpu; cuda:N where there is a GPU and a LibTorch with CUDA; several workers may share one; emulated:PROFILE, by name or file
  int threads = 1;             ///< compute threads of this worker; of an emulated one, those that its profile was measured with
  double slow = 1;             ///< how many times as long as its profile says an emulated one computes; cpu: as the processor does, 1 or more (slowing.h)
  std::string stands_for = {};  ///< of an emulated one, whose layers of a measured profile it has, cpu or cuda; empty: of the only kind that is there

  /// Whether it waits for as long as its profile says instead of computing.
  bool emulated() const { return device.starts_with("emulated:"); }
  /// Whether it computes as the other does: GPUs of a machine are taken to be alike, by whatever number.
  bool like(const WorkerSpec& other) const {
    const auto on_gpu = [](const WorkerSpec& worker) { return worker.device.starts_with("cuda"); };
    return threads == other.threads && slow == other.slow && stands_for == other.stands_for && (device == other.device || (on_gpu(*this) && on_gpu(other)));
  }
  bool operator==(const WorkerSpec&) const = default;
};

/// The all-reduce that was fastest between so many ranks for [from, to) bytes.
struct MeasuredChoice {
  int ranks = 0;
  std::size_t from = 0;
  std::size_t to = 0;
  std::string algorithm;
};

enum class TraceMode : std::uint8_t { off, recent, all };

/// Everything that a group of workers needs to know to train: one experiment, resolved. Plain data; the same on
/// every worker.
struct Job {
  Spec model{"lenet", {}};
  std::string dataset = "fashion-mnist";
  std::string data_folder;
  bool synthetic = false;
  std::int64_t train_samples = 0;  ///< of a synthetic data set; 0: the real one's number
  std::int64_t test_samples = 0;
  bool shuffle = true;

  Spec strategy{"data", {}};
  std::vector<WorkerSpec> workers{WorkerSpec{}};
  std::string transport = "shm";
  std::string collective = "auto";
  std::string fabric;          ///< a test network for it, as transport/fabric_description.h has it; empty: this host's own
  /// Where the ranks are on it: host, its address, and what its wires add one way. Filled when it has been made.
  std::vector<int> hosts = {};
  std::vector<std::string> addresses = {};
  Seconds latency{0};
  /// Measured seconds of each layer of the network for one micro-batch (measure_layers.h), which strategies cut it by; empty: by FLOPs.
  std::vector<double> forward_seconds = {}, backward_seconds = {};
  std::vector<MeasuredChoice> measured;  ///< what "auto" stands for here, by a machine profile; empty: the built-in rule

  std::int64_t batch = 64;    ///< global: of all workers together
  std::int64_t steps = 0;     ///< 0: whole epochs
  std::int64_t epochs = 1;
  std::string precision = "fp32";
  std::string kernels = "fast";
  std::optional<bool> multiplies_bf16 = {};  ///< whether the processors that compute multiply bf16 themselves; nothing: as this one
  std::string graphs = "off";   ///< whether passes on devices that have such are graphs: on, as experiments have it unless they say otherwise, or off
  std::string pin = "auto";   ///< whether threads that compute are bound to cores of their own: auto (where there are enough) or off
  bool launched = false;      ///< a launcher (mpirun, srun) started the workers, and may have bound them
  bool evaluate = true;       ///< accuracy on the test set after each epoch, or after the last step

  Spec optimizer{"sgd", {}};
  double learning_rate = 0.05;
  double momentum = 0.9;      ///< of optimizers that have one, unless their own options say otherwise
  double weight_decay = 0;
  Spec learning_rate_schedule{"constant", {}};
  std::int64_t accumulate = 1;    ///< micro-batches that each worker's part of a batch is cut into
  double clip = 0;                ///< the largest norm of the whole gradient; 0: any
  double label_smoothing = 0;
  bool recompute = false;         ///< activations, in backward, instead of keeping all of them

  int loader_threads = 1;
  int loader_prefetch = 2;

  std::uint64_t seed = 1;
  std::string secret;  ///< of this run: workers know each other by it; drawn by the coordinator, never stored
  TraceMode trace = TraceMode::recent;
  Seconds timeout{0};              ///< of the whole run; 0: none
  Seconds collective_timeout{60};  ///< a peer that does not come to a collective for so long is lost
  std::int64_t memory_limit = 0;   ///< bytes that a worker's plan may hold; 0: what its machine has

  /// Whether some worker is emulated: gradients, parameters and losses then mean nothing.
  bool emulates() const {
    return std::any_of(workers.begin(), workers.end(), [](const WorkerSpec& worker) { return worker.emulated(); });
  }
};

}  // namespace ddl
