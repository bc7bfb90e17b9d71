#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddl/measure/trace.h"
#include "ddl/plan/holdings.h"
#include "ddl/plan/mesh.h"
#include "ddl/plan/schedule.h"

namespace ddl {

enum class TaskKind : std::uint8_t {
  load,             ///< take the next batch from the loader
  forward,          ///< of one stage, on one micro-batch
  backward,         ///< the last of a stage in a step raises the events of its buckets as their gradients become complete
  backward_input,   ///< the gradient of what the stage was given alone; raises no events
  backward_weight,  ///< what backward_input left out: raises events as backward does
  send,             ///< a message to the worker abreast in role `peer`; where one of the two roles has one worker, between that and each of the other's
  receive,
  collective,       ///< the workers of `group` take part
  update,           ///< the optimizer, on the parameters of one bucket, or on all that are in none
  release,          ///< parameters that were gathered for a stage are dropped
  average,          ///< of one bucket: what a worker holds becomes the mean of it and of what came by the messages that this is after, or what a collective made
};

std::string_view name(TaskKind kind);
/// The ledger's line for time that the compute stream spends in a task of this kind.
Cause cause_of(TaskKind kind);

/// What a message or a collective is of.
enum class Cargo : std::uint8_t {
  none,
  activations,           ///< made in `stage`, read in `to_stage`, of one micro-batch
  activation_gradients,  ///< of the same, going back
  gradients,             ///< of `bucket`
  parameters,            ///< of `bucket`
  control,               ///< a few numbers: whether to stop, whether all is finite, the norm of the gradient
  norms,                 ///< of each parameter, where a worker has but a part of it: sums of squares that its update depends on
  state,                 ///< what the optimizer keeps for the parameters of `bucket`: its tensor number `tensor`
  inputs,                ///< what the loader read, of one micro-batch
};

std::string_view name(Cargo cargo);

inline constexpr int kNone = -1;

/// One piece of a step's work. Its number is its place in Role::tasks. Tasks of the compute stream run in that order; so do the collectives of
/// a group, and the messages of one cargo from one worker to another. These queues run beside each other.
struct Task {
  TaskKind kind = TaskKind::load;
  Stream stream = Stream::compute;
  std::string label;             ///< unique within the role: what traces and messages call it
  std::vector<int> after;        ///< tasks of the same role that must be complete before
  int waits_for = kNone;         ///< bucket whose event starts it; raised by `backward` while that runs
  int bucket = kNone;            ///< of the role; of collectives of gradients and parameters, and of updates
  int peer = kNone;              ///< role number, of send and receive
  int group = kNone;             ///< of collectives
  Goal goal = Goal::all_reduce;  ///< of collectives
  Cargo cargo = Cargo::none;     ///< of send, receive and collective
  int stage = 0;
  int to_stage = kNone;          ///< of activations and their gradients
  int micro_batch = 0;
  bool recompute = false;        ///< of forward: keeps what the stage was given alone, and backward runs it again
  std::int64_t bytes = 0;        ///< moved by send and receive; the whole buffer of a collective
  double flops = 0;
  /// The same in all roles that take part in the same message or collective (number_meetings()).
  int meeting = kNone;
  /// Of asynchronous plans: in step t it is done on batch t + ahead, where there is one. Steps before the first, of which nothing else is done, come
  /// before step 0.
  int ahead = 0;
  // Of messages within a role, `peer` being the role itself (plan/peers.h).
  int shift = 0;                 ///< to or from the worker so many places further on, around the role
  int flip = 0;                  ///< to and from the one whose place differs in these bits; a worker that has no such leaves the task out
  int tensor = 0;                ///< of Cargo::state
  bool by_samples = false;       ///< of collectives of parameters and state: workers count by their samples since the last one; else all alike
  // In which steps of a run it is done (plan/occasion.h); in others it counts as done. Meetings are done by all at the same steps.
  int first_step = 0;            ///< kNone: in none but as `at_end` says
  int every = 1;                 ///< steps from one time to the next
  int until_step = kNone;        ///< not in this one nor later
  bool at_end = false;           ///< also in the last step of the run, where replicas differ by then
  int layer = kNone;             ///< of collectives of activations and their gradients: the network's layer that they do, the first of `stage`
};

/// Layers [first, last) of the network, run as one piece.
struct Stage {
  int first = 0;
  int last = 0;
  std::vector<int> parameters = {};  ///< that its layers use: numbers among those of the network that train
};

/// Parameters whose gradients travel together: their numbers, in the order in which they lie in memory.
struct Bucket {
  std::vector<int> parameters;
  std::int64_t bytes = 0;
  int stage = 0;          ///< whose backward completes it; kNone: several may, and it is complete after the last of all
  bool control = false;   ///< one element more travels at its end, with what cargo `control` says
  /// Complete after the stage's backward of each micro-batch: its event is that of the waiting task's micro-batch. Else after the last.
  bool every_pass = false;
};

/// `count` workers that do the same: a plan for 4,096 of them is as small as one for two.
struct Role {
  std::string name;
  int first = 0;
  int count = 1;
  std::vector<Task> tasks;
  Holdings holds;
  std::vector<int> stages = {};      ///< that its workers hold
  std::vector<Bucket> buckets = {};
  /// Of asynchronous plans: batch b is computed with the weights that b - staleness updates made, or with the first.
  int staleness = 0;

  /// Whether its workers keep a part of each parameter's state, and gather parameters from each other.
  bool keeps_parts() const;
  /// Whether it gathers parameters when they are needed, and lets them go.
  bool releases() const;
};

/// Servers of parameters: threads in the processes of workers, that of bucket s with worker s. Their tasks are on Stream::server, and done as what they wait for comes.
struct Serving {
  int servers = 0;     ///< 0: parameters live with workers alone
  bool sums = true;    ///< gradients of a step are added up and applied once; else each is applied as it comes
  int stale = kNone;   ///< else: steps that the slowest worker may be behind one that goes on; kNone: any number
  std::int64_t window = 0;  ///< bytes of a sum that a server has at once; 0: all of it
};

/// One training step of one strategy. Executed, verified, later priced and simulated.
struct Plan {
  std::string strategy;
  Mesh mesh;                         ///< along its axes "data" and "sharded" each place has a part of the batch of its own
  std::vector<Stage> stages;
  std::vector<Group> groups;
  std::vector<Role> roles;           ///< in the order of their workers
  int micro_batches = 1;             ///< that a worker's part of the batch is cut into
  /// Whether running statistics of batch norm are updated once a step, with those of all of a worker's micro-batches together; else with each.
  bool deferred_statistics = false;
  int local_from = kNone;            ///< from this step on each worker follows the gradient of the mean over its own samples, and replicas differ
  int hops = 1;                      ///< of messages within a role: how often they are exchanged until what one worker says has reached all
  Serving serving = {};
  /// Dimensions that each worker's network is split along (nn/split/split.h), by name, those of one axis after the other's, "height/channels"; empty: workers have
  /// whole layers. Stages and tasks are then of the layers of such a part. Its axes are the mesh's last: "tensor", or of several "tensor 1", "tensor 2", …
  std::string split = {};
  bool in_process = false;           ///< workers are threads of one process

  int workers() const { return mesh.workers(); }
  int role_number(int worker) const;
  const Role& role_of(int worker) const { return roles[static_cast<std::size_t>(role_number(worker))]; }
  /// The part of the batch that a worker sees, and how many there are.
  int share_of(int worker) const { return mesh.coordinate("data", worker) * mesh.size("sharded") + mesh.coordinate("sharded", worker); }
  int shares() const { return mesh.size("data") * mesh.size("sharded"); }
  /// Places of each axis that the network is split over, and how many parts those are; a worker's part.
  std::vector<int> part_axes() const;
  int parts() const;
  int part_of(int worker) const { return worker % parts(); }
  /// Whether some task is done on a batch of a later step.
  bool asynchronous() const;
};

/// `steps` steps of an asynchronous plan one after the other, with the forwards that come before the first, as one: nothing is ahead, micro-batch i of
/// batch b is number b * micro_batches + i, and labels tell the step. To be verified, or drawn; not to be executed.
Plan unroll(const Plan& plan, int steps);

/// Gives tasks of several roles that are one event the same Task::meeting: the n-th collective of a group, the n-th message of a cargo from one role
/// to another. What has no counterpart keeps kNone; verify() tells of it.
void number_meetings(Plan& plan);

/// What is wrong with a plan; empty where nothing is:
///  - roles that do not cover the workers exactly once and in order, labels used twice, dependencies on tasks that do not exist;
///  - a deadlock, found by running the roles' queues without time: names the tasks that cannot start;
///  - collectives that roles join in different orders or with different sizes, sends without their receive;
///  - parameters (of `parameters`) that no stage uses, buckets that repeat one, or that no update reads;
///  - more memory than `memory_limit` bytes on a worker (0: no limit).
/// Takes time in proportion to the tasks of all roles, of asynchronous plans, too, however many steps are in flight (run_queues.h).
std::vector<std::string> verify(const Plan& plan, int parameters, std::int64_t memory_limit = 0);

}  // namespace ddl
