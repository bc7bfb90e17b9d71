#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <mutex>
#include <numeric>

#include "ddl/core/error.h"
#include "ddl/transport/check.h"
#include "ddl/transport/deadline.h"
#include "ddl/transport/mpi/mpi_transport.h"

// The MPI's own collectives. They block without an end, so that ranks meet before them and a watchdog looks at them.

namespace ddl {
namespace {

/// Some MPIs cannot count more bytes than fit into an int.
constexpr std::size_t kAtOnce = std::size_t{1} << 30;

/// How often it is looked, after short calls that ranks do not meet before, whether all processes still run.
constexpr Nanoseconds kLookAtMembers = 50'000'000;
/// From so many bytes on, after every call.
constexpr std::size_t kLong = std::size_t{64} << 10;

/// MPI counts elements in ints.
int count_of(std::size_t elements) {
  if (elements > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw Error(Code::unsupported, fmt::format("[mpi] this collective takes at most 2^31 - 1 elements; got {}", elements));
  return static_cast<int>(elements);
}

int op_number(ReduceOp op) { return op == ReduceOp::max ? 1 : op == ReduceOp::min ? 2 : 0; }

/// An MPI hands its reducers no context.
NativeCollectives::Reducer chosen_reducer = nullptr;

void reduce(int op, int type, void* inout, const void* in, std::size_t elements) {
  constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::max, ReduceOp::min};
  chosen_reducer(kOps[op], static_cast<ElementType>(type), static_cast<std::byte*>(inout), static_cast<const std::byte*>(in), elements);
}

static_assert(static_cast<int>(ElementType::fp32) == 0 && static_cast<int>(ElementType::fp64) == 1 && static_cast<int>(ElementType::bf16) == 2 &&
                  static_cast<int>(ElementType::fp16) == 3 && static_cast<int>(ElementType::int32) == 4 && static_cast<int>(ElementType::int64) == 5,
              "module.cpp knows element types by these numbers");

}  // namespace

void MpiTransport::call_library(const mpi::Call& call, const char* name) {
  const int failed = mpi_.run(group_, &call);
  if (failed == 0) return;
  require_that_all_run(true);
  throw Error(Code::io, fmt::format("[mpi] rank {}: {}: {}", rank_, name, world_.text_of(failed)));
}

void MpiTransport::require_that_all_run(bool now_and_here) {
  const Nanoseconds at = now();
  if (!now_and_here && at - watched_ < kLookAtMembers) return;
  watched_ = at;
  for (int each = 0; each < size_; ++each)
    if (world_.processes().state(members_[static_cast<std::size_t>(each)]) == RankProcesses::State::ended) lost(each, "its process has ended");
}

void MpiTransport::run(const NativeCall& what, Reducer reducer, bool meets, Seconds timeout, const Signature& signature) {
  if (interrupted_) throw_interrupted("mpi", rank_);
  if (failure_) throw Error(*failure_);
  refuse_while_lent();
  if (what.type == ElementType::bf16 || what.type == ElementType::fp16) {
    static std::once_flag once;
    std::call_once(once, [&] {
      chosen_reducer = reducer;
      mpi_.reduce_with(reduce);
    });
  }
  std::vector<int> counts, places;
  count_of(std::accumulate(what.counts.begin(), what.counts.end(), std::size_t{0}));
  for (const auto count : what.counts) {
    places.push_back(counts.empty() ? 0 : places.back() + counts.back());
    counts.push_back(static_cast<int>(count));
  }
  const bool even = std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
  if (meets) meet(*this, timeout, signature);
  const auto me = static_cast<std::size_t>(rank_);
  const std::size_t element = size_of(what.type);
  const auto scratch = [&](std::size_t bytes) {
    if (bytes > scratch_size_) {
      scratch_.reset(new std::byte[bytes]);
      scratch_size_ = bytes;
    }
    return scratch_.get();
  };
  if (watchdog_ == nullptr)
    watchdog_ = std::make_unique<Watchdog>([this] {
      world_.end_job(fmt::format("[mpi] rank {} waited {} in {}'s own collective, {}; {}, so that this job ends", members_[static_cast<std::size_t>(rank_)],
                                 to_string(guarded_for_), world_.implementation(), describe(signature_), world_.who_is_gone(members_)));
    });
  signature_ = signature;
  guarded_for_ = timeout;
  struct Guard {
    Watchdog& dog;
    ~Guard() { dog.release(); }
  } guard{*watchdog_};
  watchdog_->guard(deadline_after(timeout));
  mpi::Call call;
  call.op = op_number(what.op);
  call.type = static_cast<int>(what.type);
  call.root = what.root;
  call.rank = rank_;
  call.counts = counts.data();
  call.places = places.data();
  call.receive = what.data;
  const auto mine = [&] { return what.data + static_cast<std::size_t>(places[me]) * element; };
  const auto in_parts = [&](mpi::Work work, const char* name) {
    call.work = work;
    for (std::size_t done = 0; done < what.elements;) {
      const std::size_t part = std::min(what.elements - done, kAtOnce / element);
      call.receive = what.data + done * element;
      if (call.send != nullptr) call.send = scratch_.get() + done * element;
      call.count = static_cast<int>(part);
      call_library(call, name);
      done += part;
    }
  };
  const auto call_it = [&] {
    using Kind = NativeCall::Kind;
    switch (what.kind) {
      case Kind::barrier: call.work = mpi::Work::barrier; return call_library(call, "MPI_Barrier");
      case Kind::all_reduce: return in_parts(mpi::Work::all_reduce, "MPI_Allreduce");
      case Kind::broadcast: return in_parts(mpi::Work::broadcast, "MPI_Bcast");
      case Kind::reduce: {
        // MPICH 4.0.2 crashes (it copies from MPI_IN_PLACE) in place at a root other than 0, from 2 KiB on.
        if (rank_ == what.root && what.root != 0 && world_.implementation() == "mpich" && what.elements != 0) {
          const std::size_t bytes = what.elements * element;
          std::memcpy(scratch(bytes), what.data, bytes);
          call.send = scratch_.get();
        }
        return in_parts(mpi::Work::reduce, "MPI_Reduce");
      }
      case Kind::reduce_scatter: {
        const std::size_t bytes = what.counts[me] * element;
        call.work = even ? mpi::Work::reduce_scatter_block : mpi::Work::reduce_scatter;
        call.count = counts[me];
        call.send = what.data;
        call.receive = scratch(bytes + 1);
        call_library(call, even ? "MPI_Reduce_scatter_block" : "MPI_Reduce_scatter");
        if (bytes != 0) std::memcpy(mine(), call.receive, bytes);
        return;
      }
      case Kind::all_gather:
        call.work = even ? mpi::Work::all_gather : mpi::Work::all_gather_v;
        call.count = counts[me];
        return call_library(call, even ? "MPI_Allgather" : "MPI_Allgatherv");
      case Kind::gather:
        call.work = mpi::Work::gather_v;
        call.count = counts[me];
        call.send = mine();
        return call_library(call, "MPI_Gatherv");
      case Kind::scatter:
        call.work = mpi::Work::scatter_v;
        call.count = counts[me];
        call.send = what.data;
        call.receive = mine();
        return call_library(call, "MPI_Scatterv");
      case Kind::all_to_all: {
        const std::size_t bytes = what.elements * element;
        if (bytes == 0) return;
        std::memcpy(scratch(bytes), what.data, bytes);
        call.work = mpi::Work::all_to_all;
        call.count = counts[me];
        call.send = scratch_.get();
        return call_library(call, "MPI_Alltoall");
      }
    }
  };
  guarded([&] {
    call_it();
    // MPICH 4.0 says that all is well, with any numbers in the result, where a rank was killed in the middle.
    require_that_all_run(meets || what.elements * element >= kLong);
  });
}

}  // namespace ddl
