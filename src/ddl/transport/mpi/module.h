#pragma once

#include <cstddef>
#include <cstdint>

// What ddlbench calls of an MPI, as a table of C functions: each MPI has handles and constants of its own, so module.cpp is
// compiled against each one's mpi.h and loaded when a run asks for it. Plain data only: no exception and no C++ object
// crosses. Every function but `error_text` answers 0 or an error number of the MPI.

namespace ddl::mpi {

inline constexpr std::uint32_t kModuleVersion = 2;
inline constexpr char kModuleSymbol[] = "ddl_mpi_module";

/// A communicator or a request: an int in one MPI, a pointer in another.
using Handle = std::uint64_t;

/// How one message, or a look for one, ended.
struct Completion {
  int source = 0;
  int bytes = 0;
  int error = 0;
};

enum class Work : std::int32_t {
  all_reduce, broadcast, barrier, reduce, reduce_scatter, reduce_scatter_block, all_gather, all_gather_v, gather_v,
  scatter_v, all_to_all,
};

/// One blocking collective. `send` null: in place. Elements are counted; `counts` and `places` are by rank.
struct Call {
  Work work = Work::barrier;
  int op = 0;    ///< 0 sum, 1 max, 2 min
  int type = 0;  ///< ElementType's number
  int root = 0;
  int rank = 0;
  const void* send = nullptr;
  void* receive = nullptr;
  int count = 0;
  const int* counts = nullptr;
  const int* places = nullptr;
};

/// inout[i] = op(inout[i], in[i]): of types that MPI does not have (bf16, fp16). Set before the first collective of one.
using Reducer = void (*)(int op, int type, void* inout, const void* in, std::size_t elements);

/// What an error means, in words that all MPIs share.
enum class Trouble : std::int32_t { other, truncated };

struct Module {
  std::uint32_t version;
  std::uint32_t size;  ///< of this struct
  /// Once a process. `threads` is whether any thread may call at any time; `already` whether somebody else did it.
  int (*start)(int* rank, int* ranks, int* threads, int* already);
  int (*finish)();
  int (*end_job)(int status);
  void (*error_text)(int number, char* into, int capacity, Trouble* trouble);
  void (*library)(char* into, int capacity);
  /// Of ranks of the world, called by each of them with one `tag`.
  int (*make_group)(const int* world_ranks, int ranks, int tag, Handle* group);
  int (*free_group)(Handle* group);
  int (*send)(Handle group, const void* data, int bytes, int peer, int tag, Handle* request);
  int (*receive)(Handle group, void* data, int bytes, int peer, int tag, Handle* request);
  /// Once done, the request is gone.
  int (*test)(Handle* request, int* done, Completion* completion);
  /// Asks; test() says when it has ended.
  int (*cancel)(Handle* request);
  /// Whether a message of `tag` is there, from anyone.
  int (*probe)(Handle group, int tag, int* found, Completion* what);
  int (*run)(Handle group, const Call* call);
  void (*reduce_with)(Reducer reducer);
};

using ModuleFunction = const Module* (*)();

}  // namespace ddl::mpi
