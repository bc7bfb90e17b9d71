#include "ddl/collective/communicator.h"

#include <algorithm>
#include <map>
#include <thread>
#include <tuple>

#include <fmt/ranges.h>

#include "ddl/collective/bus_factor.h"
#include "ddl/collective/native.h"
#include "ddl/collective/queue.h"
#include "ddl/transport/rendezvous.h"

namespace ddl {
namespace {

/// What was asked for once and may be asked for again.
struct Planned {
  Goal goal = Goal::all_reduce;
  std::string algorithm;
  std::size_t elements = 0;
  ElementType type = ElementType::fp32;
  int root = 0;
  int peer = 0;
  int index = 0;
  Prepared prepared;
  std::optional<NativeChoice> native = {};
  int options = 0;

  bool fits(const Collective& what, const Buffer& buffer) const {
    return goal == what.goal && elements == buffer.elements && type == buffer.type && root == what.root && peer == what.peer &&
           algorithm == what.algorithm;
  }
};

constexpr Signature kMakesGroup{~std::uint64_t{0}, 0};

std::string describe(const Signature& signature) {
  return signature.what == kMakesGroup.what ? "making a group" : describe_operation(signature);
}

/// The members of a group meet through messages of the transport that they leave.
class MembersMeeting final : public Rendezvous {
 public:
  MembersMeeting(Transport& transport, const std::vector<int>& members, int me)
      : transport_(transport), members_(members), me_(me) {
    signature_ = kMakesGroup;
    for (const int member : members) signature_.size = signature_.size * 4099 + static_cast<std::uint64_t>(member) + 1;
  }

  int rank() const override { return me_; }
  int size() const override { return static_cast<int>(members_.size()); }
  std::vector<std::string> exchange(const std::string& mine, Seconds timeout) override {
    const std::uint64_t length = mine.size();
    std::vector<std::uint64_t> lengths(members_.size(), length);
    to_all(std::as_bytes(std::span(&length, 1)), [&](std::size_t i) { return std::as_writable_bytes(std::span(&lengths[i], 1)); }, timeout);
    std::vector<std::string> texts;
    for (const auto size : lengths) {
      if (size > kMost) throw Error(Code::corrupt, fmt::format("[group] a member says {} bytes; expected at most {}", size, kMost));
      texts.emplace_back(size, '\0');
    }
    to_all(std::as_bytes(std::span(mine)), [&](std::size_t i) { return std::as_writable_bytes(std::span(texts[i])); }, timeout);
    texts[static_cast<std::size_t>(me_)] = mine;
    return texts;
  }

 private:
  static constexpr std::uint64_t kMost = 1 << 20;

  template <typename Into>
  void to_all(std::span<const std::byte> data, const Into& into, Seconds timeout) {
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (static_cast<int>(i) == me_) continue;
      const auto place = into(i);
      outgoing.push_back({members_[i], data});
      incoming.push_back({members_[i], place.size(), place.data(), {}});
    }
    transport_.exchange(outgoing, incoming, timeout, signature_);
  }

  Transport& transport_;
  const std::vector<int>& members_;
  int me_;
  Signature signature_;
};

}  // namespace

std::string_view default_algorithm(Goal goal, std::size_t bytes, int ranks, bool shares_memory) {
  // A wire's latency is worth some tens of KiB of it.
  constexpr std::size_t kSmall = std::size_t{32} << 10;
  switch (goal) {
    case Goal::all_reduce:
      // Where messages cost no copy, nothing is gained by a ring's short ways; on a wire it loads every link alike.
      if (shares_memory) return "direct";
      return bytes <= kSmall ? "recursive-doubling" : ranks <= 2 ? "direct" : "ring";
    case Goal::broadcast: return "binomial";
    case Goal::reduce: return "binomial";
    case Goal::reduce_scatter: return "direct";
    case Goal::all_gather: return "direct";
    case Goal::barrier: return "dissemination";
    default: return "direct";
  }
}

struct Communicator::Impl {
  Impl(std::unique_ptr<Transport> wire, CommunicatorOptions chosen)
      : transport(std::move(wire)), options(std::move(chosen)), executor(*transport), thread([queue = queue] { queue->serve(); }) {
    transport->describe_with(describe);
  }

  const Planned& plan(const Collective& what, const Buffer& buffer);
  Signature sign(const Planned& planned, const Collective& what, const Buffer& buffer);
  void execute(const Planned& planned, const Collective& what, const Buffer& buffer, const Signature& signature);

  /// " in the group of ranks 2, 0": messages count ranks as the group does.
  std::string whose() const;

  std::unique_ptr<Transport> transport;
  CommunicatorOptions options;
  std::vector<int> members;  // of a group, as its ranks are called outside; empty where this is everyone
  ScheduleExecutor executor;
  // Pointers into it stay; a run has some tens of shapes.
  std::map<std::tuple<Goal, std::string, std::size_t, ElementType, int, int>, std::unique_ptr<Planned>> plans;
  const Planned* last = nullptr;
  std::uint64_t number = 0;
  std::map<std::pair<int, int>, std::uint64_t> messages;  // from the one to the other
  std::shared_ptr<CommunicationQueue> queue = std::make_shared<CommunicationQueue>();
  std::thread thread;  // last: it uses the queue
};

const Planned& Communicator::Impl::plan(const Collective& what, const Buffer& buffer) {
  if (last != nullptr && last->fits(what, buffer)) return *last;
  const int ranks = transport->size();
  if (has_root(what.goal) && (what.root < 0 || what.root >= ranks || what.peer < 0 || what.peer >= ranks))
    throw Error(Code::invalid_argument, fmt::format("[{}] no such root or peer; got {} and {}, expected ranks of {}",
                                                    name(what.goal), what.root, what.peer, ranks));
  if (reduces(what.goal) && what.op == ReduceOp::weighted_sum && (buffer.type == ElementType::int32 || buffer.type == ElementType::int64))
    throw Error(Code::invalid_argument, fmt::format("[{}] a weighted sum is of floating-point numbers; got {}", name(what.goal),
                                                    name(buffer.type)));
  auto& found = plans[{what.goal, std::string(what.algorithm), buffer.elements, buffer.type, what.root, what.peer}];
  if (!found) {
    const std::size_t bytes = buffer.elements * size_of(buffer.type);
    std::string word(what.algorithm);
    if (word == "auto")
      word = options.automatic ? options.automatic(what.goal, bytes, ranks)
                               : std::string(default_algorithm(what.goal, bytes, ranks, transport->shares_memory()));
    auto made = std::make_unique<Planned>();
    try {
      const auto native = choose_native(what.goal, word, *transport);
      const auto chosen = native ? ChosenAlgorithm{kNativeAlgorithm} : choose_algorithm(what.goal, word);
      CollectiveShape shape{ranks, buffer.elements, what.root, what.peer};
      shape.segment = chosen.segment_bytes / size_of(buffer.type);
      shape.hosts = options.hosts;
      *made = {what.goal, std::string(what.algorithm), buffer.elements, buffer.type, what.root, what.peer, chosen.index,
               native ? Prepared{} : prepare(chosen.algorithm(transport->rank(), shape), what.goal, what.root), native, chosen.options};
    } catch (...) {
      plans.erase({what.goal, std::string(what.algorithm), buffer.elements, buffer.type, what.root, what.peer});
      throw;
    }
    found = std::move(made);
  }
  last = found.get();
  return *last;
}

Signature Communicator::Impl::sign(const Planned& planned, const Collective& what, const Buffer& buffer) {
  Operation operation;
  operation.goal = what.goal;
  operation.op = reduces(what.goal) ? what.op : ReduceOp::sum;
  operation.type = buffer.type;
  operation.algorithm = planned.index;
  operation.root = has_root(what.goal) ? what.root : 0;
  operation.peer = what.goal == Goal::point_to_point ? what.peer : 0;
  operation.number = what.goal == Goal::point_to_point ? ++messages[{what.root, what.peer}] & 0xffffff : ++number;
  operation.elements = buffer.elements;
  operation.options = planned.options;
  return pack(operation);
}

void Communicator::Impl::execute(const Planned& planned, const Collective& what, const Buffer& buffer, const Signature& signature) {
  try {
    if (planned.native)
      run_native(*planned.native, *transport, what, buffer, signature, options.timeout);
    else
      executor.run(planned.prepared, what, buffer, signature, options.timeout);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("[{}{}] {}", describe_operation(signature), whose(), error.what()));
  }
}

std::string Communicator::Impl::whose() const {
  return members.empty() ? "" : fmt::format(" in the group of ranks {}", fmt::join(members, ", "));
}

Communicator::Communicator(std::unique_ptr<Transport> transport, CommunicatorOptions options)
    : impl_(std::make_unique<Impl>(std::move(transport), std::move(options))) {}

Communicator::~Communicator() {
  impl_->queue->stop([&] { impl_->transport->interrupt(); });
  impl_->thread.join();
}

int Communicator::rank() const { return impl_->transport->rank(); }
int Communicator::size() const { return impl_->transport->size(); }
Transport& Communicator::transport() { return *impl_->transport; }

Handle Communicator::start(const Collective& what, const Buffer& buffer, Start start, std::function<void()> ready) {
  const auto& planned = impl_->plan(what, buffer);
  auto state = std::make_shared<Handle::State>();
  state->queue = impl_->queue;
  state->ready = ready_or_abandon(std::move(ready), *impl_->transport);
  Collective kept = what;
  kept.algorithm = planned.algorithm;  // what a caller's word was may be gone by then
  state->work = [impl = impl_.get(), &planned, kept, buffer, signature = impl_->sign(planned, what, buffer)] {
    impl->execute(planned, kept, buffer, signature);
  };
  impl_->queue->push(state, start);
  return Handle(std::move(state));
}

void Communicator::run(const Collective& what, const Buffer& buffer) {
  const auto& planned = impl_->plan(what, buffer);
  const auto signature = impl_->sign(planned, what, buffer);
  impl_->queue->run_now([&] { impl_->execute(planned, what, buffer, signature); });
}

std::int64_t Communicator::bytes_sent(const Collective& what, std::size_t elements, ElementType type) {
  const auto& planned = impl_->plan(what, {nullptr, elements, type});
  // A library tells nobody what it sends: what links carry by NCCL's factors, as of a ring.
  if (planned.native) return static_cast<std::int64_t>(bus_factor(what.goal, size()) * static_cast<double>(elements * size_of(type)));
  return static_cast<std::int64_t>(planned.prepared.sent * size_of(type));
}

Handle Communicator::all_reduce(Buffer buffer, ReduceOp op, std::string_view algorithm, Start when, std::function<void()> ready) {
  return start({Goal::all_reduce, op, algorithm}, buffer, when, std::move(ready));
}

Handle Communicator::broadcast(Buffer buffer, int root, Start when) {
  Collective what{Goal::broadcast};
  what.root = root;
  return start(what, buffer, when);
}

Handle Communicator::barrier(Start when) { return start({Goal::barrier}, {}, when); }

std::unique_ptr<Communicator> Communicator::group(const std::vector<int>& ranks) {
  auto sorted = ranks;
  std::sort(sorted.begin(), sorted.end());
  const auto me = std::find(ranks.begin(), ranks.end(), rank());
  if (ranks.empty() || sorted.front() < 0 || sorted.back() >= size() || me == ranks.end() ||
      std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    std::string text;
    for (const int member : ranks) text += fmt::format(" {}", member);
    throw Error(Code::invalid_argument, fmt::format("[group] got ranks{}, expected different ranks of {}, {} among them", text, size(), rank()));
  }
  CommunicatorOptions options = impl_->options;
  if (!options.hosts.empty()) {
    options.hosts.clear();
    for (const int member : ranks) options.hosts.push_back(impl_->options.hosts.at(static_cast<std::size_t>(member)));
  }
  std::vector<int> members;
  for (const int member : ranks) members.push_back(impl_->members.empty() ? member : impl_->members[static_cast<std::size_t>(member)]);
  std::unique_ptr<Transport> transport;
  try {
    impl_->queue->run_now([&] {
      MembersMeeting meeting(*impl_->transport, ranks, static_cast<int>(me - ranks.begin()));
      transport = impl_->transport->subgroup(ranks, meeting);
    });
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("[making the group of ranks {}{}] {}", fmt::join(ranks, ", "), impl_->whose(), error.what()));
  }
  auto group = std::make_unique<Communicator>(std::move(transport), std::move(options));
  group->impl_->members = std::move(members);
  return group;
}

bool Handle::done() const { return state_->queue->done(*state_); }
void Handle::wait() const { state_->queue->wait(*state_); }
Nanoseconds Handle::began() const { return state_->began; }
Nanoseconds Handle::ended() const { return state_->ended; }

}  // namespace ddl
