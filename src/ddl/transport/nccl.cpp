#include "ddl/transport/nccl.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sched.h>

#include <atomic>
#include <cstring>
#include <optional>

#include "ddl/core/error.h"
#include "ddl/transport/check.h"
#include "ddl/transport/deadline.h"
#include "ddl/transport/native.h"

namespace ddl {
namespace {

void check(cudaError_t result, const char* what) {
  if (result != cudaSuccess) throw Error(Code::io, fmt::format("[nccl] cannot {}: {}", what, cudaGetErrorString(result)));
}
void check(ncclResult_t result, const char* what) {
  if (result != ncclSuccess && result != ncclInProgress) throw Error(Code::io, fmt::format("[nccl] cannot {}: {}", what, ncclGetErrorString(result)));
}

ncclDataType_t type_of(ElementType type) {
  switch (type) {
    case ElementType::fp32: return ncclFloat32;
    case ElementType::fp64: return ncclFloat64;
    case ElementType::bf16: return ncclBfloat16;
    case ElementType::fp16: return ncclFloat16;
    case ElementType::int32: return ncclInt32;
    case ElementType::int64: return ncclInt64;
  }
  return ncclUint8;
}

/// A rendezvous carries text: six bits to a letter.
std::string to_text(const ncclUniqueId& id) {
  std::string text;
  unsigned bits = 0, held = 0;
  for (const char byte : id.internal) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    for (held += 8; held >= 6; held -= 6) text += static_cast<char>('0' + (bits >> (held - 6) & 63));
  }
  if (held != 0) text += static_cast<char>('0' + (bits << (6 - held) & 63));
  return text;
}
ncclUniqueId from_text(const std::string& text) {
  ncclUniqueId id{};
  std::size_t at = 0;
  unsigned bits = 0, held = 0;
  for (const char letter : text) {
    bits = bits << 6 | (static_cast<unsigned>(letter - '0') & 63);
    held += 6;
    if (held < 8 || at == sizeof id.internal) continue;
    held -= 8;
    id.internal[at++] = static_cast<char>(bits >> held & 255);
  }
  return id;
}

class NcclTransport final : public Transport, public NativeCollectives {
 public:
  NcclTransport(Rendezvous& rendezvous, const TransportOptions& options) : rank_(rendezvous.rank()), size_(rendezvous.size()), options_(options) {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) throw Error(Code::unsupported, "[nccl] unsupported: no GPU is here");
    device_ = rank_ % devices;
    check(cudaSetDevice(device_), "choose a GPU");
    ncclUniqueId id{};
    if (rank_ == 0) check(ncclGetUniqueId(&id), "make an id");
    id = from_text(rendezvous.exchange(rank_ == 0 ? to_text(id) : std::string(), options.connect_timeout)[0]);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream");
    if (const auto result = ncclCommInitRank(&group_, size_, id, rank_); result != ncclSuccess) {
      cudaStreamDestroy(stream_);
      check(result, "join the group");
    }
  }

  ~NcclTransport() override {
    cudaSetDevice(device_);
    if (group_ != nullptr) failure_ ? ncclCommAbort(group_) : ncclCommDestroy(group_);
    cudaStreamDestroy(stream_);
    for (void* const block : blocks_) cudaFree(block);
  }
  NcclTransport(const NcclTransport&) = delete;
  NcclTransport& operator=(const NcclTransport&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool shares_memory() const override { return false; }
  Traffic traffic() const override { return {sent_.load(), received_.load()}; }
  NativeCollectives* native() override { return this; }
  bool scales() const override { return true; }
  void interrupt() noexcept override { interrupted_.store(true); }
  std::unique_ptr<Transport> subgroup(const std::vector<int>&, Rendezvous& rendezvous) override { return make_nccl(rendezvous, options_); }

  std::span<std::byte> allocate(std::size_t bytes) override {
    check(cudaSetDevice(device_), "choose a GPU");
    void* block = nullptr;
    check(cudaMalloc(&block, bytes == 0 ? 1 : bytes), "allocate");
    blocks_.push_back(block);
    check(cudaMemset(block, 0, bytes), "clear memory");
    return {static_cast<std::byte*>(block), bytes};
  }

  void abandon(const Error& why) noexcept override {
    if (!failure_) failure_ = why;
    if (group_ != nullptr) ncclCommAbort(group_);
    group_ = nullptr;
  }

  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming, Seconds timeout, const Signature&) override {
    check_messages("nccl", rank_, size_, outgoing, incoming);
    for (const auto& message : incoming)
      if (message.bytes != 0 && message.into == nullptr)
        throw Error(Code::unsupported, "[nccl] unsupported: a schedule cannot reduce what comes in on a GPU; expected collective=native");
    guarded(timeout, [&] {
      check(ncclGroupStart(), "begin a group");
      for (const auto& message : outgoing) {
        check(ncclSend(message.data.data(), message.data.size(), ncclUint8, message.peer, group_, stream_), "send");
        sent_ += static_cast<std::int64_t>(message.data.size());
      }
      for (const auto& message : incoming) {
        check(ncclRecv(message.into, message.bytes, ncclUint8, message.peer, group_, stream_), "receive");
        received_ += static_cast<std::int64_t>(message.bytes);
      }
      check(ncclGroupEnd(), "end a group");
    });
  }

  void run(const NativeCall& call, Reducer, bool, Seconds timeout, const Signature&) override {
    guarded(timeout, [&] { enqueue(call); });
  }

 private:
  /// Enqueues by `body` and waits until the GPU is done.
  template <typename Body>
  void guarded(Seconds timeout, const Body& body) {
    if (interrupted_) throw_interrupted("nccl", rank_);
    if (failure_) throw Error(*failure_);
    try {
      check(cudaSetDevice(device_), "choose a GPU");
      body();
      for (const Nanoseconds deadline = deadline_after(timeout);;) {
        const auto state = cudaStreamQuery(stream_);
        if (state == cudaSuccess) return;
        if (state != cudaErrorNotReady) check(state, "complete");
        ncclResult_t trouble = ncclSuccess;
        check(ncclCommGetAsyncError(group_, &trouble), "ask for errors");
        if (trouble == ncclRemoteError) throw Error(Code::peer_lost, fmt::format("[nccl] rank {} lost a rank: {}", rank_, ncclGetErrorString(trouble)));
        check(trouble, "go on");
        if (interrupted_) throw_interrupted("nccl", rank_);
        if (left_until(deadline).value == 0)
          throw Error(Code::timeout, fmt::format("[nccl] rank {} waited {}; a rank of {} did not come", rank_, to_string(timeout), size_));
        ::sched_yield();
      }
    } catch (const Error& error) {
      abandon(error);
      throw;
    }
  }

  void enqueue(const NativeCall& call) {
    using Kind = NativeCall::Kind;
    const auto type = type_of(call.type);
    const std::size_t element = size_of(call.type);
    ncclRedOp_t op = ncclSum;
    if (call.op == ReduceOp::max) op = ncclMax;
    if (call.op == ReduceOp::min) op = ncclMin;
    if (call.op == ReduceOp::average) op = ncclAvg;
    const bool own_op = call.op == ReduceOp::weighted_sum;
    if (own_op) op = weighted(call);
    std::size_t place = 0, mine = 0;
    std::vector<std::size_t> places;
    bool even = true;
    for (std::size_t each = 0; each < call.counts.size(); ++each) {
      places.push_back(place);
      place += call.counts[each];
      even &= call.counts[each] == call.counts[0];
    }
    if (!call.counts.empty()) mine = call.counts[static_cast<std::size_t>(rank_)];
    const auto part = [&](int rank) { return call.data + places[static_cast<std::size_t>(rank)] * element; };
    const auto count = [&](int rank) { return call.counts[static_cast<std::size_t>(rank)]; };
    switch (call.kind) {
      case Kind::all_reduce: check(ncclAllReduce(call.data, call.data, call.elements, type, op, group_, stream_), "all-reduce"); break;
      case Kind::broadcast: check(ncclBroadcast(call.data, call.data, call.elements, type, call.root, group_, stream_), "broadcast"); break;
      case Kind::reduce: check(ncclReduce(call.data, call.data, call.elements, type, op, call.root, group_, stream_), "reduce"); break;
      case Kind::barrier:
        if (flag_ == nullptr) flag_ = allocate(sizeof(float)).data();
        check(ncclAllReduce(flag_, flag_, 1, ncclFloat32, ncclSum, group_, stream_), "meet");
        break;
      case Kind::reduce_scatter:
        if (!even) throw Error(Code::unsupported, fmt::format("[nccl] reduce-scatter wants elements that {} ranks can share evenly; got {}", size_, call.elements));
        check(ncclReduceScatter(call.data, part(rank_), mine, type, op, group_, stream_), "reduce-scatter");
        break;
      case Kind::all_gather:
        if (even) {
          check(ncclAllGather(part(rank_), call.data, mine, type, group_, stream_), "all-gather");
          break;
        }
        check(ncclGroupStart(), "begin a group");
        for (int root = 0; root < size_; ++root) check(ncclBroadcast(part(root), part(root), count(root), type, root, group_, stream_), "all-gather");
        check(ncclGroupEnd(), "end a group");
        break;
      case Kind::gather:
      case Kind::scatter: {
        const bool gathers = call.kind == Kind::gather;
        check(ncclGroupStart(), "begin a group");
        for (int each = 0; each < size_; ++each) {
          if (each == call.root || (rank_ != call.root && rank_ != each)) continue;
          const int other = rank_ == call.root ? each : call.root;
          if ((rank_ == call.root) == gathers)
            check(ncclRecv(part(each), count(each), type, other, group_, stream_), "receive");
          else
            check(ncclSend(part(each), count(each), type, other, group_, stream_), "send");
        }
        check(ncclGroupEnd(), "end a group");
        break;
      }
      case Kind::all_to_all: {
        // Parts go out of a copy: what comes in takes their places.
        const std::size_t bytes = call.elements * element;
        if (bytes > scratch_.size()) scratch_ = allocate(bytes);
        check(cudaMemcpyAsync(scratch_.data(), call.data, bytes, cudaMemcpyDeviceToDevice, stream_), "copy");
        check(ncclGroupStart(), "begin a group");
        for (int each = 0; each < size_; ++each) {
          check(ncclSend(scratch_.data() + (part(each) - call.data), count(each), type, each, group_, stream_), "send");
          check(ncclRecv(part(each), count(each), type, each, group_, stream_), "receive");
        }
        check(ncclGroupEnd(), "end a group");
        break;
      }
    }
    if (own_op) check(ncclRedOpDestroy(op, group_), "end a weighted sum");
  }

  /// This rank's elements times its factor, in the same pass.
  ncclRedOp_t weighted(const NativeCall& call) {
    ncclRedOp_t op = ncclSum;
    float single = static_cast<float>(call.factor);
    double twice = call.factor;
    void* scalar = &single;
    if (call.type == ElementType::fp64) scalar = &twice;
    if (call.type == ElementType::bf16 || call.type == ElementType::fp16)
      throw Error(Code::unsupported, "[nccl] a weighted sum is of fp32 or fp64; 16-bit factors would round the weights");
    check(ncclRedOpCreatePreMulSum(&op, scalar, type_of(call.type), ncclScalarHostImmediate, group_), "make a weighted sum");
    return op;
  }

  int rank_;
  int size_;
  TransportOptions options_;
  int device_ = 0;
  cudaStream_t stream_ = nullptr;
  ncclComm_t group_ = nullptr;
  std::vector<void*> blocks_;
  std::byte* flag_ = nullptr;
  std::span<std::byte> scratch_;
  std::atomic<bool> interrupted_{false};
  std::atomic<std::int64_t> sent_{0};
  std::atomic<std::int64_t> received_{0};
  std::optional<Error> failure_;
};

}  // namespace

std::unique_ptr<Transport> make_nccl(Rendezvous& rendezvous, const TransportOptions& options) {
  return std::make_unique<NcclTransport>(rendezvous, options);
}

std::string nccl_missing() { return {}; }

}  // namespace ddl
