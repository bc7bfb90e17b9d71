#include "ddl/transport/mpi/module.h"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

// Compiled once for each MPI's mpi.h, without linking it: the library is in the process before this file is loaded, since
// one build of it for MPICH's ABI serves MPICH and Intel MPI, whose libraries have different names.

namespace ddl::mpi {
namespace {

template <typename T>
Handle pack(T value) {
  static_assert(sizeof(T) <= sizeof(Handle));
  Handle handle = 0;
  std::memcpy(&handle, &value, sizeof value);
  return handle;
}

template <typename T>
T unpack(Handle handle) {
  T value;
  std::memcpy(&value, &handle, sizeof value);
  return value;
}

MPI_Comm comm(Handle handle) { return unpack<MPI_Comm>(handle); }

std::atomic<Reducer> reducer{nullptr};

constexpr int kOps = 3;
constexpr int kFirstOwnType = 2;  // bf16, fp16
constexpr int kOwnTypes = 2;

/// The elements and operations that MPI lacks, made with our reducer.
struct Own {
  MPI_Datatype types[kOwnTypes];
  MPI_Op ops[kOwnTypes][kOps];
};

template <int op, int type>
void reduce_own(void* in, void* inout, int* elements, MPI_Datatype*) {
  if (const auto run = reducer.load()) run(op, type, inout, in, static_cast<std::size_t>(*elements));
}

template <int type>
int make_ops(Own& own) {
  MPI_Op* ops = own.ops[type - kFirstOwnType];
  int failed = MPI_Type_contiguous(2, MPI_BYTE, &own.types[type - kFirstOwnType]);
  if (failed == 0) failed = MPI_Type_commit(&own.types[type - kFirstOwnType]);
  if (failed == 0) failed = MPI_Op_create(reduce_own<0, type>, 1, &ops[0]);
  if (failed == 0) failed = MPI_Op_create(reduce_own<1, type>, 1, &ops[1]);
  if (failed == 0) failed = MPI_Op_create(reduce_own<2, type>, 1, &ops[2]);
  return failed;
}

int own(const Own** into) {
  static Own all;
  static std::once_flag once;
  static int failed = 0;
  std::call_once(once, [] {
    failed = make_ops<kFirstOwnType>(all);
    if (failed == 0) failed = make_ops<kFirstOwnType + 1>(all);
  });
  *into = &all;
  return failed;
}

int type_of(int type, MPI_Datatype* into) {
  switch (type) {
    case 0: *into = MPI_FLOAT; return 0;
    case 1: *into = MPI_DOUBLE; return 0;
    case 4: *into = MPI_INT32_T; return 0;
    case 5: *into = MPI_INT64_T; return 0;
    default: {
      const Own* all = nullptr;
      const int failed = own(&all);
      if (failed == 0) *into = all->types[type - kFirstOwnType];
      return failed;
    }
  }
}

int op_of(int op, int type, MPI_Op* into) {
  if (type >= kFirstOwnType && type < kFirstOwnType + kOwnTypes) {
    const Own* all = nullptr;
    const int failed = own(&all);
    if (failed == 0) *into = all->ops[type - kFirstOwnType][op];
    return failed;
  }
  *into = op == 0 ? MPI_SUM : op == 1 ? MPI_MAX : MPI_MIN;
  return 0;
}

int start(int* rank, int* ranks, int* threads, int* already) {
  int failed = MPI_Initialized(already);
  int provided = MPI_THREAD_SINGLE;
  if (failed == 0) failed = *already != 0 ? MPI_Query_thread(&provided) : MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  if (failed == 0) failed = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (failed == 0) failed = MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  if (failed == 0) failed = MPI_Comm_rank(MPI_COMM_WORLD, rank);
  if (failed == 0) failed = MPI_Comm_size(MPI_COMM_WORLD, ranks);
  *threads = provided == MPI_THREAD_MULTIPLE ? 1 : 0;
  return failed;
}

int finish() {
  int done = 0;
  const int failed = MPI_Finalized(&done);
  return failed != 0 || done != 0 ? failed : MPI_Finalize();
}

int end_job(int status) { return MPI_Abort(MPI_COMM_WORLD, status); }

void error_text(int number, char* into, int capacity, Trouble* trouble) {
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0, kind = 0;
  MPI_Error_string(number, text, &length);
  MPI_Error_class(number, &kind);
  *trouble = kind == MPI_ERR_TRUNCATE ? Trouble::truncated : Trouble::other;
  std::strncpy(into, text, static_cast<std::size_t>(capacity - 1));
  into[capacity - 1] = '\0';
}

void library(char* into, int capacity) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING + 1] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::strncpy(into, text, static_cast<std::size_t>(capacity - 1));
  into[capacity - 1] = '\0';
}

int make_group(const int* world_ranks, int ranks, int tag, Handle* group) {
  MPI_Group world, part;
  int failed = MPI_Comm_group(MPI_COMM_WORLD, &world);
  if (failed != 0) return failed;
  failed = MPI_Group_incl(world, ranks, world_ranks, &part);
  MPI_Group_free(&world);
  if (failed != 0) return failed;
  MPI_Comm made = MPI_COMM_NULL;
  failed = MPI_Comm_create_group(MPI_COMM_WORLD, part, tag, &made);
  MPI_Group_free(&part);
  if (failed == 0) failed = MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
  *group = pack(made);
  return failed;
}

int free_group(Handle* group) {
  MPI_Comm gone = comm(*group);
  const int failed = MPI_Comm_free(&gone);
  *group = pack(gone);
  return failed;
}

int send(Handle group, const void* data, int bytes, int peer, int tag, Handle* request) {
  MPI_Request made = MPI_REQUEST_NULL;
  const int failed = MPI_Isend(data, bytes, MPI_BYTE, peer, tag, comm(group), &made);
  *request = pack(made);
  return failed;
}

int receive(Handle group, void* data, int bytes, int peer, int tag, Handle* request) {
  MPI_Request made = MPI_REQUEST_NULL;
  const int failed = MPI_Irecv(data, bytes, MPI_BYTE, peer, tag, comm(group), &made);
  *request = pack(made);
  return failed;
}

int test(Handle* request, int* done, Completion* completion) {
  auto asked = unpack<MPI_Request>(*request);
  MPI_Status status;
  status.MPI_ERROR = MPI_SUCCESS;
  const int failed = MPI_Test(&asked, done, &status);
  *request = pack(asked);
  if (failed != 0 || *done == 0) return failed;
  completion->source = status.MPI_SOURCE;
  completion->error = 0;
  return MPI_Get_count(&status, MPI_BYTE, &completion->bytes);
}

int cancel(Handle* request) {
  auto asked = unpack<MPI_Request>(*request);
  return asked == MPI_REQUEST_NULL ? 0 : MPI_Cancel(&asked);
}

int probe(Handle group, int tag, int* found, Completion* what) {
  MPI_Status status;
  const int failed = MPI_Iprobe(MPI_ANY_SOURCE, tag, comm(group), found, &status);
  if (failed != 0 || *found == 0) return failed;
  what->source = status.MPI_SOURCE;
  return MPI_Get_count(&status, MPI_BYTE, &what->bytes);
}

int run(Handle group, const Call* call) {
  MPI_Datatype type = MPI_BYTE;
  MPI_Op op = MPI_SUM;
  if (call->work == Work::barrier) return MPI_Barrier(comm(group));
  int failed = type_of(call->type, &type);
  if (failed == 0) failed = op_of(call->op, call->type, &op);
  if (failed != 0) return failed;
  const MPI_Comm on = comm(group);
  const bool root = call->rank == call->root;
  const void* from = call->send != nullptr ? call->send : MPI_IN_PLACE;
  switch (call->work) {
    case Work::all_reduce: return MPI_Allreduce(from, call->receive, call->count, type, op, on);
    case Work::broadcast: return MPI_Bcast(call->receive, call->count, type, call->root, on);
    case Work::reduce:
      return MPI_Reduce(root ? from : call->receive, root ? call->receive : nullptr, call->count, type, op, call->root, on);
    case Work::reduce_scatter: return MPI_Reduce_scatter(from, call->receive, call->counts, type, op, on);
    case Work::reduce_scatter_block: return MPI_Reduce_scatter_block(from, call->receive, call->count, type, op, on);
    case Work::all_gather: return MPI_Allgather(MPI_IN_PLACE, 0, type, call->receive, call->count, type, on);
    case Work::all_gather_v: return MPI_Allgatherv(MPI_IN_PLACE, 0, type, call->receive, call->counts, call->places, type, on);
    case Work::gather_v:
      return MPI_Gatherv(root ? MPI_IN_PLACE : call->send, call->count, type, call->receive, call->counts, call->places, type, call->root, on);
    case Work::scatter_v:
      return MPI_Scatterv(call->send, call->counts, call->places, type, root ? MPI_IN_PLACE : call->receive, call->count, type, call->root, on);
    case Work::all_to_all: return MPI_Alltoall(from, call->count, type, call->receive, call->count, type, on);
    case Work::barrier: break;
  }
  return MPI_ERR_ARG;
}

void reduce_with(Reducer with) { reducer = with; }

}  // namespace

extern "C" __attribute__((visibility("default"))) const Module* ddl_mpi_module() {
  static const Module module{kModuleVersion, sizeof(Module), start, finish, end_job, error_text, library, make_group,
                             free_group, send, receive, test, cancel, probe, run, reduce_with};
  return &module;
}

}  // namespace ddl::mpi
