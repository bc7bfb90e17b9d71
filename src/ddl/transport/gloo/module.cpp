// Compiled only where Gloo's headers are given; of LibTorch's version, since both meet inside libtorch_cpu.so.
#include "ddl/transport/gloo/module.h"

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <atomic>
#include <charconv>
#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace ddl {
namespace {

using Work = c10::intrusive_ptr<c10d::Work>;
using Outcome = GlooWire::Outcome;

std::chrono::milliseconds milliseconds(Seconds time) { return std::chrono::milliseconds(static_cast<std::int64_t>(time.value * 1e3) + 1); }

at::ScalarType type_of(ElementType type) {
  switch (type) {
    case ElementType::fp32: return at::kFloat;
    case ElementType::fp64: return at::kDouble;
    case ElementType::bf16: return at::kBFloat16;
    case ElementType::fp16: return at::kHalf;
    case ElementType::int32: return at::kInt;
    case ElementType::int64: return at::kLong;
  }
  return at::kByte;
}

c10d::ReduceOp op_of(ReduceOp op) {
  if (op == ReduceOp::max) return c10d::ReduceOp::MAX;
  if (op == ReduceOp::min) return c10d::ReduceOp::MIN;
  return c10d::ReduceOp::SUM;
}

at::Tensor bytes_at(std::byte* data, std::size_t bytes) { return at::from_blob(data, {static_cast<std::int64_t>(bytes)}, at::kByte); }

/// The first line of what went wrong, and which of the three it was. Gloo has one exception for all.
Outcome outcome_of(const std::exception& error, int peer) {
  std::string why = error.what();
  why.resize(std::min(why.size(), why.find('\n')));
  return {says_late(why) ? Outcome::Kind::timeout : Outcome::Kind::lost, peer, why};
}

class Wire final : public GlooWire {
 public:
  Wire(int rank, int size, c10::intrusive_ptr<c10d::ProcessGroupGloo> group) : rank_(rank), size_(size), group_(std::move(group)) {}

  Outcome start(std::span<const Piece> outgoing) noexcept override {
    for (const auto& piece : outgoing) {
      const auto done = guarded(piece.peer, [&] {
        std::vector<at::Tensor> tensors{bytes_at(piece.data, piece.bytes)};
        add(sends_, {group_->send(tensors, piece.peer, 0), piece.peer});
      });
      if (done.kind != Outcome::Kind::done) return done;
    }
    return {};
  }

  Outcome receive(std::span<const Piece> incoming, Seconds timeout) noexcept override {
    for (const auto& piece : incoming) {
      const auto done = guarded(piece.peer, [&] {
        std::vector<at::Tensor> tensors{bytes_at(piece.data, piece.bytes)};
        add(receives_, {group_->recv(tensors, piece.peer, 0), piece.peer});
      });
      if (done.kind != Outcome::Kind::done) return done;
    }
    return wait_for(receives_, timeout);
  }

  Outcome finish(Seconds timeout) noexcept override { return wait_for(sends_, timeout); }

  Outcome run(const NativeCall& call, Seconds timeout) noexcept override {
    if (call.elements == 0 && call.kind != NativeCall::Kind::barrier) return {};
    return guarded(-1, [&] {
      const auto work = enqueue(call, milliseconds(timeout));
      if (work) work->wait();
    });
  }

  void forget() noexcept override {
    std::vector<Pending> sends, receives;
    const std::lock_guard lock(mutex_);
    sends.swap(sends_);
    receives.swap(receives_);
  }

  void interrupt() noexcept override {
    const std::lock_guard lock(mutex_);
    interrupted_ = true;
    for (const auto* works : {&sends_, &receives_})
      for (const auto& each : *works)
        try {
          each.work->abort();
        } catch (...) {
        }
  }

 private:
  struct Pending {
    Work work;
    int peer;
  };

  template <typename Body>
  Outcome guarded(int peer, const Body& body) noexcept {
    try {
      body();
      return {};
    } catch (const c10::NotImplementedError& error) {
      return {Outcome::Kind::unsupported, peer, error.what_without_backtrace()};
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      if (interrupted_) return {Outcome::Kind::interrupted, peer, {}};
      return outcome_of(error, peer);
    } catch (...) {
      return {Outcome::Kind::lost, peer, "unknown"};
    }
  }

  void add(std::vector<Pending>& works, const Pending& pending) {
    const std::lock_guard lock(mutex_);
    works.push_back(pending);
    if (interrupted_) pending.work->abort();
  }

  /// Each once: a second wait would be for a second message.
  Outcome wait_for(std::vector<Pending>& works, Seconds timeout) noexcept {
    for (std::size_t i = 0; i < works.size(); ++i)
      if (auto done = wait(works[i], timeout); done.kind != Outcome::Kind::done) return done;
    const std::lock_guard lock(mutex_);
    works.clear();
    return {};
  }

  Outcome wait(const Pending& pending, Seconds timeout) noexcept {
    bool whole = false;
    const auto done = guarded(pending.peer, [&] { whole = pending.work->wait(milliseconds(timeout)); });
    if (done.kind != Outcome::Kind::done || whole) return done;
    return {Outcome::Kind::interrupted, pending.peer, {}};  // it was aborted
  }

  /// Parts are where `counts` puts them. Null where nothing is left to wait for.
  Work enqueue(const NativeCall& call, std::chrono::milliseconds timeout) {
    using Kind = NativeCall::Kind;
    const auto type = type_of(call.type);
    const auto element = c10::elementSize(type);
    const auto tensor = [&](std::byte* at, std::size_t elements) { return at::from_blob(at, {static_cast<std::int64_t>(elements)}, type); };
    std::vector<std::int64_t> counts(call.counts.begin(), call.counts.end());
    std::vector<std::byte*> parts;
    bool even = true;
    std::byte* place = call.data;
    for (const auto count : call.counts) {
      parts.push_back(place);
      place += count * element;
      even &= count == call.counts[0];
    }
    const auto self = static_cast<std::size_t>(rank_);
    const auto part = [&](std::size_t rank) { return tensor(parts[rank], call.counts[rank]); };
    auto whole = call.elements == 0 ? at::Tensor() : tensor(call.data, call.elements);
    std::vector<at::Tensor> one{whole};
    switch (call.kind) {
      case Kind::all_reduce: {
        c10d::AllreduceOptions options;
        options.reduceOp = op_of(call.op);
        options.timeout = timeout;
        return group_->allreduce(one, options);
      }
      case Kind::broadcast: {
        c10d::BroadcastOptions options;
        options.rootRank = call.root;
        options.timeout = timeout;
        return group_->broadcast(one, options);
      }
      case Kind::barrier: {
        c10d::BarrierOptions options;
        options.timeout = timeout;
        return group_->barrier(options);
      }
      case Kind::reduce: {
        c10d::ReduceOptions options;
        options.reduceOp = op_of(call.op);
        options.rootRank = call.root;
        options.timeout = timeout;
        return group_->reduce(one, options);
      }
      case Kind::reduce_scatter: {
        if (!even) {
          for (std::size_t root = 0; root < parts.size(); ++root) {
            c10d::ReduceOptions options;
            options.reduceOp = op_of(call.op);
            options.rootRank = static_cast<std::int64_t>(root);
            options.timeout = timeout;
            std::vector<at::Tensor> each{part(root)};
            if (call.counts[root] != 0) group_->reduce(each, options)->wait();
          }
          return {};
        }
        c10d::ReduceScatterOptions options;
        options.reduceOp = op_of(call.op);
        options.timeout = timeout;
        // Out of a copy: the result takes the place of what it is made of.
        auto into = part(self), from = whole.clone();
        group_->_reduce_scatter_base(into, from, options)->wait();
        return {};
      }
      case Kind::all_gather: {
        if (even) {
          c10d::AllgatherOptions options;
          options.timeout = timeout;
          auto from = part(self).clone();
          group_->_allgather_base(whole, from, options)->wait();
          return {};
        }
        for (std::size_t root = 0; root < parts.size(); ++root) {
          c10d::BroadcastOptions options;
          options.rootRank = static_cast<std::int64_t>(root);
          options.timeout = timeout;
          std::vector<at::Tensor> each{part(root)};
          if (call.counts[root] != 0) group_->broadcast(each, options)->wait();
        }
        return {};
      }
      case Kind::gather:
      case Kind::scatter: {
        std::vector<Work> works;
        const bool gathers = call.kind == Kind::gather;
        for (std::size_t each = 0; each < parts.size(); ++each) {
          const int rank = static_cast<int>(each);
          if (rank == call.root || call.counts[each] == 0 || (rank_ != call.root && rank_ != rank)) continue;
          const int other = rank_ == call.root ? rank : call.root;
          std::vector<at::Tensor> data{part(each)};
          works.push_back((rank_ == call.root) == gathers ? group_->recv(data, other, 1) : group_->send(data, other, 1));
        }
        for (const auto& work : works) work->wait(timeout);
        return {};
      }
      case Kind::all_to_all: {
        c10d::AllToAllOptions options;
        options.timeout = timeout;
        auto from = whole.clone();
        group_->alltoall_base(whole, from, counts, counts, options)->wait();
        return {};
      }
    }
    return {};
  }

  int rank_;
  int size_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  std::mutex mutex_;
  std::vector<Pending> sends_, receives_;
  bool interrupted_ = false;
};

/// How long those who could not all connect wait for each other's word, once the time for connecting is over.
constexpr std::chrono::milliseconds kRollCall{1'000};

using Store = c10::intrusive_ptr<c10d::TCPStore>;
using Group = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

/// What connecting leaves to whoever waits for it.
struct Connecting {
  std::promise<Group> made;
  std::atomic<int> missing{-1};
};

/// Of those who could not all connect, the first who does not say by then that it is there; -1 where all do. Errors: the store's.
int missing_of(c10d::TCPStore& store, int rank, int size, std::chrono::steady_clock::time_point until) {
  const auto key = [](int each) { return "there/" + std::to_string(each); };
  store.set(key(rank), std::vector<std::uint8_t>{1});
  for (int each = 0; each < size; ++each)
    try {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      store.wait({key(each)}, std::max(left, std::chrono::milliseconds(1)));
    } catch (const c10::Error&) {
      if (each == rank) throw;
      return each;
    }
  return -1;
}

/// With every other rank, through rank 0's `store`, or the one that is where `told` says.
Group connect(int rank, int size, const std::string& host, Store store, const std::string& told, c10d::TCPStoreOptions meeting, std::atomic<int>& missing) {
  const auto until = std::chrono::steady_clock::now() + meeting.timeout + kRollCall;
  if (rank != 0) missing = 0;  // whose store it is
  if (!store) {
    const auto space = told.find(' ');
    std::from_chars(told.data() + space + 1, told.data() + told.size(), meeting.port);
    store = c10::make_intrusive<c10d::TCPStore>(told.substr(0, space), meeting);
  }
  auto options = c10d::ProcessGroupGloo::Options::create(meeting.timeout);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(host));
  try {
    return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
  } catch (const std::exception&) {
    // Gloo names whose address it lacks, but not whom it could not connect to. All who are left come here, the last when time is over.
    missing = missing_of(*store, rank, size, until);
    throw;
  }
}

Wire* open(int rank, int size, const std::string& host, const std::function<std::string(const std::string&)>& meet, Seconds timeout, std::string& why,
           int& missing) {
  c10d::TCPStoreOptions meeting;
  meeting.isServer = rank == 0;
  meeting.port = 0;
  meeting.waitWorkers = false;
  meeting.timeout = milliseconds(timeout);
  Store store;
  if (rank == 0) store = c10::make_intrusive<c10d::TCPStore>(host, meeting);
  const auto told = meet(rank == 0 ? host + " " + std::to_string(store->getPort()) : std::string());
  // On a thread of its own, which is left where it is: connecting to the store of a rank that has stopped has no end.
  const auto connecting = std::make_shared<Connecting>();
  auto result = connecting->made.get_future();
  std::thread([=] {
    try {
      connecting->made.set_value(connect(rank, size, host, store, told, meeting, connecting->missing));
    } catch (...) {
      connecting->made.set_exception(std::current_exception());
    }
  }).detach();
  const auto patience = meeting.timeout + 2 * kRollCall;
  try {
    if (result.wait_for(patience) == std::future_status::ready) return new Wire(rank, size, result.get());
    why = "timed out";
  } catch (const c10::Error& error) {
    why = error.what_without_backtrace();
  } catch (const std::exception& error) {
    why = error.what();
  }
  missing = connecting->missing;
  return nullptr;
}

}  // namespace
}  // namespace ddl

extern "C" [[gnu::visibility("default")]] ddl::GlooWire* ddl_open_gloo_wire(int rank, int size, const std::string& host,
                                                                            const std::function<std::string(const std::string&)>& meet,
                                                                            ddl::Seconds timeout, std::string& why, int& missing) {
  return ddl::open(rank, size, host, meet, timeout, why, missing);
}
