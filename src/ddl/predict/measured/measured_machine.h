#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/predict/measured/curve.h"
#include "ddl/predict/measured/layer_table.h"
#include "ddl/predict/measured/wire_seconds.h"
#include "ddl/predict/step/cost_source.h"

namespace ddl {

/// One worker that is predicted for.
struct MeasuredWorker {
  int threads = 1;
  int host = 0;
  bool computes = true;  ///< false: elsewhere it is said what it computes; of this machine it takes what moves and loads data
  double slow = 1;       ///< how many times as long as measured it computes, by standing still: of the memory bus it takes so much less
  std::string device = "cpu";  ///< or "cuda:1"

  /// What entries of profiles say of it.
  std::string kind() const { return device.substr(0, device.find(':')); }
  bool is_host() const { return device == "cpu"; }
};

/// How it is trained.
struct MeasuredSetup {
  std::vector<MeasuredWorker> workers{MeasuredWorker{}};  ///< by number; all hosts are like the profile's machine
  std::string network;            ///< as users write it, for messages; what was measured of the same network counts before others
  std::string dataset;            ///< whose batches are loaded
  bool made_up = true;            ///< its samples are; else they are real
  std::string precision = "fp32";
  std::string kernels = "fast";
  bool graphs = false;            ///< passes on GPUs are graphs of the device
  std::string optimizer = "sgd";  ///< as users write it, options and all
  bool judges_gradient = false;  ///< all of it is read before it is applied: clipping by its norm, or a loss that is scaled
  std::string strategy;          ///< as users write it: what passes were measured to lose in its own training counts before others'
  std::string transport = "shm";
  std::string collective = "auto";
  /// Of a test network between the workers, which all stay on the machine that was measured: bytes a second each way of a host's wire, and what it adds one way. 0: none.
  double wire_bytes_per_s = 0, wire_latency = 0;
  std::vector<int> wire_hosts = {};  ///< of workers on it; empty: each has one of its own
};

/// Costs from a machine profile (docs/machine.md). What was not measured is not_found, naming the term and the probe that measures it; but for layers whose sort was not measured while others of
/// their family were.
/// Shared: the cores of each host ("cores of host 0"), of which a worker that computes takes its threads and a collective what it was measured to; and its memory ("memory of host 0"), of which
/// a worker takes so much that several at once slow each other down as was measured. Workers on one GPU share it ("cuda:0 of host 0"), those on several what GPUs were measured to lose to each other; a collective takes of each
/// what was measured that its computing loses beside one, and as long as its bytes take to the host's memory and back.
/// Threads: one caller.
class MeasuredMachine final : public CostSource {
 public:
  /// Errors: corrupt; not_found where nothing was measured of such workers at all.
  MeasuredMachine(Json profile, MeasuredSetup setup);

  int place(int worker) const override { return setup_.wire_hosts.empty() ? setup_.workers.at(static_cast<std::size_t>(worker)).host : wire_host(worker); }
  LayerCost layer(int worker, const ModelGraph& graph, std::size_t number, std::int64_t samples) const override;
  TaskCost collective(Goal goal, std::int64_t bytes, const std::vector<int>& workers, StepCosts& resources) const override;
  TaskCost collective_after(Goal goal, std::int64_t bytes, std::int64_t touched, const std::vector<int>& workers, StepCosts& resources) const override;
  TaskCost message(std::int64_t bytes, int from, int to, StepCosts& resources) const override;
  TaskCost numbers(Goal goal, std::int64_t bytes, const std::vector<int>& workers, StepCosts& resources) const override;
  TaskCost exchange(Goal goal, std::int64_t bytes, const std::vector<int>& workers, StepCosts& resources) const override;
  TaskCost activation(std::int64_t bytes, int from, int to, StepCosts& resources) const override;
  TaskCost compressing(int worker, const std::string& compression, std::int64_t bytes, int ranks, StepCosts& resources) const override;
  double update(int worker, std::int64_t bytes) const override;
  double copy(int worker, std::int64_t bytes) const override;
  std::int64_t parameter_bytes() const override { return setup_.precision == "fp64" ? 8 : 4; }
  bool writes_in_place(int worker) const override;
  LayerCost loss(int worker, const ModelGraph& graph, std::int64_t samples) const override;
  double load(int worker, std::int64_t samples) const override;
  TaskCost loader(int worker, std::int64_t samples, StepCosts& resources) const override;
  /// Of a core. Of an emulated worker, which slept `computes` until then, between that of one that was awake and that of one that slept long, or the latter where workers outnumber cores; either where the other was not measured.
  TaskCost harness(int worker, double computes, StepCosts& resources) const override;
  std::vector<Demand> computing(int worker, StepCosts& resources) const override;
  std::vector<Demand> updating(int worker, std::int64_t held, StepCosts& resources) const override;
  Jitter jitter(int workers) const override;
  /// Of so many workers of one sort at once.
  Jitter jitter_of(const MeasuredWorker& own, int workers) const;

  /// What layer() is made of, corrections included.
  LayerEstimate estimate(int worker, const ModelGraph& graph, std::size_t number, std::int64_t samples) const;
  LayerEstimate estimate_loss(int worker, const ModelGraph& graph, std::int64_t samples) const;
  /// The share of the time in which others had the cores while what such a worker computes was measured, on the mean over what counts: of the network itself, else of all.
  double waited(int worker) const;
  /// Whether what steps take was measured as the worker's passes are: as graphs of its device (MeasuredSetup::graphs), where those were found to be had.
  bool knows_graphs(int worker) const;
  /// Whether updates were measured of the optimizer with just these options; else those of its name are taken.
  bool knows_optimizer(const std::string& words) const;
  /// Whether an entry is of such a worker: its kind of device and, of a processor, its threads.
  static bool is_of(const Json& entry, const MeasuredWorker& worker);
  /// " --threads 2", or " --device cuda": of the probe that measures it.
  static std::string probe_flags(const MeasuredWorker& worker);
  /// How many workers compute on such a device on the host of one that does, itself included.
  std::int64_t computing_beside(int worker) const;
  const MeasuredWorker& worker(int number) const { return setup_.workers.at(static_cast<std::size_t>(number)); }
  /// The shares of what layers and the loss take that were measured for other numbers of samples alone, or for none of their sort.
  struct Beyond {
    double samples = 0, sorts = 0;
    double between = 0;  ///< of those between two such numbers, on the mean over what takes time: how far the nearest is away, doublings; on a processor 0, where time goes along with samples
  };
  Beyond beyond(int worker, const ModelGraph& graph, std::int64_t samples) const;
  /// Whether exchanges of such memory ("outside", "evicted"; WireSetup::memory) between so many ranks were measured; else it counts as the transport's own.
  bool knows_memory(const std::string& memory, int ranks) const;
  /// How much of a buffer has left the caches before it is exchanged, 0 to 1, after the workers of a worker's host each made so many bytes: of these and as many of parameters over what its largest cache holds; 0 where a profile
  /// does not say what that is.
  double left_caches(std::int64_t touched, int worker) const;
  /// How much more than the most that was measured, in doublings, or, below 0, less than the least, an update of so many bytes of parameters and making a batch of so many samples are: carried on from there; and how much more a copy of
  /// so many bytes within its memory, or to the host's and back, of which the least that is measured takes microseconds. 0 where as many were, or what was measured is a rate.
  struct Carried {
    double update = 0, loader = 0, copy = 0;
  };
  Carried carried(int worker, std::int64_t update_bytes, std::int64_t samples, std::int64_t copied_bytes) const;
  /// Relative, of what all layers and the loss take: as if all were off the same way; and as far as the machine was found to drift.
  double uncertainty(int worker, const ModelGraph& graph, std::int64_t samples) const;
  /// Of that, the part that all of a worker's computing shares: how far the machine was found to drift from one measurement to another.
  double drift(int worker) const;
  /// Of logarithms, what making the same batch is apart from one measurement to another, or may be where none was made twice, or a rate was measured, once; 0 where nothing was.
  double loader_uncertainty(int worker) const;

 private:
  /// Of workers of a kind, with so many threads.
  struct Compute {
    LayerTable own, all;              ///< of the network itself, and of any
    double correction = 1;            ///< what sums have to be multiplied with; 1 where each entry's is in its times
    double spread = 0;                ///< of the measured ones, relative
    double waited = 0;                ///< while that was measured
    double disturbed = 0;             ///< by what that may have made of it, relative
    double drift = 0;                 ///< what measurements of the same were apart, of logarithms
    bool as_asked = true;             ///< where graphs are asked for, all that counts was measured by such, or found to have none
    std::vector<double> loads;        ///< s, of each network and batch: taking a batch from the loader, and copying it
    double takes = 0;                 ///< s, the first of these alone: the least, of a batch that is there
    std::map<std::int64_t, std::vector<double>> copies;  ///< s, of a device that batches are copied to: by batch, of the network itself with such samples
    std::map<std::int64_t, std::vector<double>> launches;  ///< of passes of a GPU that are not graphs: by batch of the network itself, else of others, the share of the time in which it waits for the host
    struct Pass {
      double seconds = 0, graphs = 1;  ///< and so many times as long as a graph
    };
    std::map<std::int64_t, Pass> started;  ///< of the same, by batch: forward and backward, each operation started by itself
    std::map<std::int64_t, double> replayed;  ///< s, by batch: forward and backward of the network itself, by graphs
    /// What goes along a line between two batches, times this. Operations that the host starts take the longer of what it takes to start them, whatever the samples, and of what the device takes to do them; those of a graph are many kernels,
    /// of which each has a least time and a pace of its own.
    double bent(std::int64_t samples) const {
      const auto by_graphs = between_graphs(samples);
      return by_graphs ? *by_graphs : between_started(samples);
    }
    /// Nothing where no two batches by graphs enclose it.
    std::optional<double> between_graphs(std::int64_t samples) const;
    double between_started(std::int64_t samples) const;
    std::map<double, std::vector<double>> updates;  ///< s, by bytes of parameters: of networks of its name, by the optimizer that is asked for
    std::map<std::int64_t, std::vector<double>> loaders;  ///< s, by batch
  };
  struct Word {
    std::string sort, family;
    LayerWork work;
  };

  const Compute& compute(int worker) const;
  Compute read(const MeasuredWorker& worker) const;
  /// s to the host's memory and back, for the first of these whose memory is another; 0 where none is. Errors: not_found where nothing was measured of that.
  double staged(std::int64_t bytes, const std::vector<int>& workers) const;
  /// What it takes of the GPUs of those that take part, each of whom says its share.
  void demand_gpus(const std::vector<int>& workers, TaskCost& cost, StepCosts& resources) const;
  int gpu_of(int worker, StepCosts& resources) const;
  std::vector<CurvePoint> memory_curve(const MeasuredWorker& worker, const char* what) const;
  /// Whether an entry is of a network of the asked one's name.
  bool of_network(const Json& entry) const;
  /// Of contention: what passes lose in the training by a strategy; empty: in that of replicas, which all others go by.
  bool of_steps(const Json& entry, const std::string& strategy) const;
  /// The strategy, where passes of this network were measured in its training, of as many workers as compute beside; else empty.
  std::string trained_so(const MeasuredWorker& worker) const;
  /// Of the network's own parameters, in as many tensors as they are, where so many or about so many were measured.
  std::optional<double> own_update(int worker, std::int64_t bytes) const;
  std::vector<CurvePoint> update_curve(int worker) const;
  /// Reading so many bytes, half of a copy; 0 where gradients are not judged.
  double judged(int worker, std::int64_t bytes) const { return setup_.judges_gradient ? copy(worker, bytes) / 2 : 0; }
  /// What probe loader found of such samples; null where it was not asked.
  const Json* loader_rate() const;
  /// s, by samples of a batch of the data set; nothing where a rate was measured.
  std::vector<CurvePoint> loader_curve(int worker) const;
  const std::vector<Word>& words(const ModelGraph& graph) const;
  LayerEstimate estimate(int worker, const Word& word, const std::string& called, const std::string& network, std::int64_t samples, const std::function<bool(std::int64_t)>& alike = {}) const;
  /// Of a family that was not measured and computes next to nothing, as the parts that layers are cut into (adding a bias, moments): by its bytes at the speed of copies.
  LayerEstimate by_bytes(int worker, const LayerWork& work, double samples) const;
  /// left_caches(), where exchanges of such buffers were measured; else 0.
  double evicted_share(std::int64_t touched, const std::vector<int>& workers) const;
  /// A copy of so many bytes while so many workers of a host copy as many: what does not stay in caches they get from memory together.
  double copy_together(int worker, std::int64_t bytes, int workers) const;
  /// What is moved, which says where it lies and who chooses the algorithm.
  enum class Moved {
    buckets,  ///< the transport's own memory; with the algorithm that is asked for
    layers,   ///< what layers make, elsewhere; its parts are gathered and scattered as ranks choose by themselves
    numbers,  ///< votes and norms: as ranks choose by themselves
  };
  std::string asked_of(Goal goal, Moved what) const { return what == Moved::buckets || (what == Moved::layers && goal == Goal::all_reduce) ? setup_.collective : "auto"; }
  double wire_alone(Goal goal, std::int64_t bytes, int ranks, const std::string& memory, const std::string& asked, bool over_fabric) const;
  TaskCost wire(Goal goal, std::int64_t bytes, std::int64_t touched, const std::vector<int>& workers, Moved what, StepCosts& resources) const;
  std::string network_words(const std::string& otherwise) const;
  /// How many workers of a host compute there on such a kind of device.
  std::int64_t computing_on(int host, const std::string& kind) const;
  /// Of the memory of a worker's host: so many at once, each with this share, want as much more than there is as they were slowed down. Of what counts of what was measured of such workers, at the number of workers that is
  /// nearest; absent where nothing does, or where it computes there alone.
  std::optional<double> memory_share(int worker, const std::function<bool(const Json&)>& counts) const;
  int memory_of(int worker, StepCosts& resources) const;
  static int cores_of(int host, StepCosts& resources);
  /// What a collective takes beside workers of so many threads.
  struct OfCollective {
    double cores = 0;  ///< of the host's, each rank
    double lost = 0;   ///< of what all who compute on the host have of something else, all ranks
  };
  OfCollective beside_collective(int threads) const;
  /// That something.
  static int room_of(int host, StepCosts& resources);

  Json profile_;
  MeasuredSetup setup_;
  int cores_ = 1;
  mutable std::map<std::pair<std::string, int>, Compute> computes_;       ///< by kind of device and threads
  mutable std::pair<const ModelGraph*, std::vector<Word>> words_{};
  mutable std::map<int, OfCollective> besides_;  ///< by threads
  /// Of a test network: which hosts' wires these workers' bytes go over.
  const WireLoads& loads(Goal goal, std::int64_t bytes, const std::vector<int>& workers, const std::string& asked) const;
  bool crosses(const std::vector<int>& workers) const;
  int wire_host(int worker) const { return setup_.wire_hosts.empty() ? worker : setup_.wire_hosts.at(static_cast<std::size_t>(worker)); }
  mutable std::map<std::tuple<int, std::string, std::int64_t, std::vector<int>>, WireLoads> loads_;  ///< by goal, the algorithm that is asked for, bytes, and hosts of workers
  mutable std::map<std::tuple<int, std::string, std::string, bool, std::int64_t, int>, double> wires_;  ///< s, by goal, whose memory, the algorithm that is asked for, whether over the test network, bytes and ranks
};

}  // namespace ddl
