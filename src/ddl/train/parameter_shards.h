#pragma once

#include <vector>

#include <ATen/ATen.h>

#include "ddl/collective/communicator.h"
#include "ddl/nn/network.h"
#include "ddl/plan/plan.h"
#include "ddl/train/device.h"
#include "ddl/train/shard_layout.h"

namespace ddl {

/// The memory of a network's parameters where workers share the work of updating them, or the parameters themselves.
///
/// The network's tensors stay; the memory under them is exchanged (StorageImpl::set_data_ptr_noswap), so that what autograd has saved of them, views
/// included, sees what is there when it is read. Where the plan releases parameters (level 3) each worker keeps its own part of every
/// bucket and lends memory to the whole of some: slots in the transport's memory, taken in turn by the gathers, as large as the largest bucket that
/// comes to them; a bucket that lasts the whole step (Bucket::stage is kNone) has one of its own. A parameter without memory points nowhere: who
/// reads it too late or too early crashes and does not compute with what is not its value. Where nothing is released (levels 1, 2) all parameters lie in the
/// transport's memory, bucket after bucket, and are gathered in place.
///
/// Source: Zhao et al., PyTorch FSDP, VLDB 2023, section 3.
class ParameterShards {
 public:
  /// Takes the network's parameters over: their memory is its own from here on. All are kept by reference, and `transport` reaches all workers. `poison`: memory that is
  /// given back is filled with NaN, for tests.
  /// Errors: unsupported for a device with memory of its own, and those of shard_layouts().
  ParameterShards(const Plan& plan, int worker, Network& network, Transport& transport, Device& device, bool poison = false);
  /// Leaves parameters without memory.
  ~ParameterShards();
  ParameterShards(const ParameterShards&) = delete;
  ParameterShards& operator=(const ParameterShards&) = delete;

  /// Whether a worker of the plan keeps parameters, or what belongs to them, in parts.
  static bool needed(const Plan& plan, int worker);

  const std::vector<ShardLayout>& layouts() const { return layouts_; }
  /// Of each of the network's parameters, the elements that this worker updates: what its optimizer is given.
  const std::vector<at::Tensor>& own() const { return own_; }

  /// Before a step: slots are taken from the first on.
  void begin_step() { gathers_ = 0; }
  /// The memory that a bucket's parameters are to be gathered in, the slot's until release().
  Buffer gather(int bucket);
  /// Puts the worker's own part there. Threads: any, between gather() and attach().
  void fill(int bucket);
  /// The parameters are there.
  void attach(int bucket);
  /// They are not any more.
  void release(int bucket);

  /// All parameters at once, for evaluation and digests, until release_all(); nothing to do where they are there anyway.
  /// Collective. Memory: all of the network's, besides.
  void gather_all(Communicator& communicator);
  void release_all();

  /// Own parts and slots, or whole parameters.
  std::int64_t bytes() const { return bytes_; }

 private:
  void refer(int bucket, std::byte* data);
  std::size_t size_of_bucket(int bucket) const { return layouts_[static_cast<std::size_t>(bucket)].elements * element_bytes_; }
  void keep_whole(Transport& transport);
  void keep_parts(Transport& transport, const Role& role);

  Network& network_;
  int shards_;        ///< workers that have a part each, the first of them worker 0, and so on in turn
  bool poison_;
  bool releases_ = false;
  ElementType type_;
  std::size_t element_bytes_;
  std::vector<ShardLayout> layouts_;
  std::vector<at::Tensor> own_;
  std::vector<at::Tensor> parts_;         ///< by bucket, where parameters are released
  std::vector<std::byte*> slots_;         ///< taken in turn
  std::vector<std::byte*> place_;         ///< by bucket: where it is whole, or to be
  std::size_t gathers_ = 0;               ///< of this step, into slots
  std::vector<at::Tensor> whole_;         ///< of gather_all()
  std::int64_t bytes_ = 0;
};

/// All of a network's parameters, while it lives, of whatever plan.
class WholeParameters {
 public:
  /// Collective where `shards` is not null.
  WholeParameters(ParameterShards* shards, Communicator* communicator) : shards_(shards) {
    if (shards_ != nullptr) shards_->gather_all(*communicator);
  }
  ~WholeParameters() {
    if (shards_ != nullptr) shards_->release_all();
  }
  WholeParameters(const WholeParameters&) = delete;
  WholeParameters& operator=(const WholeParameters&) = delete;

 private:
  ParameterShards* shards_;
};

}  // namespace ddl
