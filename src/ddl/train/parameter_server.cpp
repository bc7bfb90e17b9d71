#include "ddl/train/parameter_server.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <c10/core/GradMode.h>

#include "ddl/collective/reduce.h"
#include "ddl/plan/plan.h"
#include "ddl/train/core_clock.h"
#include "ddl/train/tensor_buffer.h"

namespace ddl {
namespace {

/// Of a sum that is made and applied at once: with the gradient's, the parameter's and its state's part it fits a second-level cache of 1 MiB.
constexpr std::size_t kPart = std::size_t{128} << 10;

/// After how many of them the next worker is woken.
constexpr std::size_t kPartsAtOnce = 8;

}  // namespace

ParameterServer::ParameterServer(const Options& options, const std::vector<at::Tensor>& start, Transport& transport, const MakeOptimizer& make)
    : options_(options),
      death_(options.worker),
      moved_(static_cast<std::size_t>(options.workers)),
      added_(moved_.size()),
      clocks_(moved_.size()),
      asked_(moved_.size()),
      given_(moved_.size()),
      behind_(moved_.size()) {
  invariant(!start.empty(), "a server has parameters");
  const c10::NoGradGuard guard;
  std::size_t bytes = 0;
  for (const auto& each : start) bytes += each.nbytes();
  memory_ = transport.allocate(bytes).first(bytes);
  type_ = start[0].scalar_type() == at::kDouble ? ElementType::fp64 : ElementType::fp32;
  const bool reads_norms = dynamic_cast<NormsOfParts*>(make({}).get()) != nullptr;
  cut(start, reads_norms);
  optimizer_ = make(views_);
}

/// `whole`: the optimizer wants parameters as they are, and a sum is applied when all of it is there.
void ParameterServer::cut(const std::vector<at::Tensor>& start, bool whole) {
  const auto element = static_cast<std::int64_t>(size_of(type_));
  const auto most = static_cast<std::int64_t>(kPart) / element;
  std::size_t offset = 0;
  for (const auto& each : start) {
    auto* const data = memory_.data() + offset;
    const auto plain = each.options().requires_grad(false);
    const auto own = at::from_blob(data, each.sizes(), each.strides(), plain);
    own.copy_(each);
    offset += each.nbytes();
    if (whole) views_.push_back(own);
    for (std::int64_t first = 0; first < each.numel() && !whole; first += most) {
      const auto elements = std::min(most, each.numel() - first);
      const auto bytes = static_cast<std::size_t>(elements * element), begin = offset - each.nbytes() + static_cast<std::size_t>(first * element);
      if (parts_.empty() || parts_.back().end - parts_.back().begin + bytes > kPart) parts_.push_back({begin, begin, views_.size(), views_.size()});
      parts_.back().end += bytes;
      ++parts_.back().last_view;
      views_.push_back(at::from_blob(data + first * element, {elements}, plain));
    }
  }
  for (std::size_t begin = 0; begin < offset && whole; begin += kPart) parts_.push_back({begin, std::min(offset, begin + kPart)});
  const bool in_window = !whole && options_.window > 0 && static_cast<std::size_t>(options_.window) < offset;
  slots_ = in_window ? std::max<std::size_t>(2, static_cast<std::size_t>(options_.window) / kPart) : parts_.size();
  for (std::size_t p = 0; p < parts_.size(); ++p) parts_[p].at = in_window ? p % slots_ * kPart : parts_[p].begin;
  if (options_.sums) sum_.resize(in_window ? slots_ * kPart : offset);
  at_once_ = whole;
}

template <typename Ready>
void ParameterServer::wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, const Ready& ready) {
  changed.wait(lock, [&] { return failure_ || ready(); });
  if (failure_) throw Error(*failure_);
}

std::int64_t ParameterServer::slowest() const { return *std::min_element(clocks_.begin(), clocks_.end()); }

void ParameterServer::push(int worker, const ServerWord& word, const Fetch& fetch) {
  death_.at(word.clock - 1, "server receive");
  // In a sum each has a place.
  if (word.bytes != static_cast<std::int64_t>(memory_.size()) && (word.bytes != 0 || options_.sums))
    throw Error(Code::corrupt, fmt::format("[parameter-server] worker {} pushes {} bytes of gradients, expected {}", worker, word.bytes, memory_.size()));
  options_.sums ? push_sum(worker, word, fetch) : push_alone(worker, word, fetch);
}

/// The worker before has added its own to the part; the first of all waits until the part's place in the window is free.
void ParameterServer::wait_for_turn(std::size_t worker) {
  const auto number = added_[worker], of_clock = number % parts_.size();
  const auto before = worker == 0 ? moved_.size() - 1 : worker - 1;
  const auto expected = worker > 0 ? number + 1 : number - of_clock + (of_clock < slots_ ? 0 : of_clock + 1 - slots_);
  std::unique_lock lock(mutex_);
  if (added_[before] >= expected) return;
  // Whoever waits for this one may have been left asleep.
  moved_[worker].notify_all();
  wait(lock, moved_[before], [&] { return added_[before] >= expected; });
}

void ParameterServer::add(std::size_t worker, double learning_rate, std::size_t offset, std::span<const std::byte> piece) {
  while (!piece.empty()) {
    const auto number = added_[worker] % parts_.size();
    const auto& part = parts_[number];
    if (offset == part.begin) wait_for_turn(worker);
    const auto here = piece.first(std::min(piece.size(), part.end - offset));
    auto* const sum = sum_.data() + part.at + (offset - part.begin);
    // The first of a clock begins the sum; no pass over memory to zero it.
    if (worker == 0)
      std::memcpy(sum, here.data(), here.size());
    else
      reduce_into(ReduceOp::sum, type_, sum, here.data(), here.size() / size_of(type_));
    offset += here.size();
    piece = piece.subspan(here.size());
    if (offset < part.end) continue;
    if (worker + 1 == moved_.size()) {
      death_.at(static_cast<std::int64_t>(added_[worker] / parts_.size()), "server update");
      if (!at_once_)
        apply(part.first_view, part.last_view, sum_.data() + part.at, learning_rate);
      else if (number + 1 == parts_.size())
        apply(0, views_.size(), sum_.data(), learning_rate);
    }
    {
      const std::lock_guard lock(mutex_);
      if (failure_) throw Error(*failure_);
      ++added_[worker];
    }
    // A wake-up for each would cost about as much as what it is for.
    if (added_[worker] % kPartsAtOnce == 0 || number + 1 == parts_.size()) moved_[worker].notify_all();
  }
}

/// Each span is as long as it took: what several threads did at once overlaps. They are told in the order in which they ended.
void ParameterServer::tell(const std::vector<Message>& messages, int worker, const ServerWord& word, Nanoseconds begin, Cause cause) {
  const auto message = messages.empty() ? Message{} : messages[static_cast<std::size_t>(worker)];
  trace_.push_back({begin, now(), static_cast<std::int32_t>(word.clock - 1), message.task, static_cast<std::int16_t>(options_.worker), Stream::server, cause, message.meeting});
}

void ParameterServer::push_sum(int worker, const ServerWord& word, const Fetch& fetch) {
  const auto begin = now();
  struct Context {
    ParameterServer* server;
    std::size_t worker;
    double learning_rate;
  } context{this, static_cast<std::size_t>(worker), word.learning_rate};
  fetch({[](void* at, std::size_t offset, std::span<const std::byte> piece, double) {
           auto& [server, number, learning_rate] = *static_cast<Context*>(at);
           server->add(number, learning_rate, offset, piece);
         }, &context});
  const bool complete = worker + 1 == options_.workers;
  const std::lock_guard lock(mutex_);
  tell(options_.pushed, worker, word, begin, complete ? Cause::update : Cause::communication);
  clocks_[context.worker] = word.clock;
  if (complete) {
    ++updates_;
    ++report_.updates;
  }
  changed_.notify_all();
}

void ParameterServer::push_alone(int worker, const ServerWord& word, const Fetch& fetch) {
  const auto w = static_cast<std::size_t>(worker);
  const auto use = [&](const std::byte* gradients) {
    const std::lock_guard lock(mutex_);
    death_.at(word.clock - 1, "server update");
    const auto begin = now();
    apply(0, views_.size(), gradients, word.learning_rate);
    const auto between = updates_ - given_[w];
    report_.largest_updates = std::max(report_.largest_updates, between);
    report_.mean_updates += static_cast<double>(between);
    report_.largest_clocks = std::max(report_.largest_clocks, behind_[w]);
    report_.mean_clocks += static_cast<double>(behind_[w]);
    ++report_.by_updates[between];
    ++report_.by_clocks[behind_[w]];
    ++report_.updates;
    ++updates_;
    tell(options_.pushed, worker, word, begin, Cause::update);
  };
  if (word.bytes > 0) {
    // Straight from where it lies if it comes in one piece; the pieces of a wire are put together, without keeping others from the parameters.
    struct Context {
      const decltype(use)& whole;
      std::size_t bytes;
      std::vector<std::byte> together;
    } context{use, memory_.size(), {}};
    fetch({[](void* at, std::size_t offset, std::span<const std::byte> piece, double) {
             auto& own = *static_cast<Context*>(at);
             if (piece.size() == own.bytes) return own.whole(piece.data());
             own.together.resize(own.bytes);
             std::memcpy(own.together.data() + offset, piece.data(), piece.size());
           }, &context});
    if (!context.together.empty()) use(context.together.data());
  }
  const std::lock_guard lock(mutex_);
  clocks_[w] = word.clock;
  changed_.notify_all();
}

/// `gradients` of views [first, last), packed.
void ParameterServer::apply(std::size_t first, std::size_t last, const std::byte* gradients, double learning_rate) {
  const c10::NoGradGuard guard;
  std::vector<std::size_t> numbers;
  std::vector<at::Tensor> laid;
  for (std::size_t i = first; i < last; ++i) {
    const auto& view = views_[i];
    numbers.push_back(i);
    // The optimizer reads gradients alone.
    laid.push_back(at::from_blob(const_cast<std::byte*>(gradients), view.sizes(), view.strides(), view.options()));
    gradients += view.nbytes();
  }
  const auto begin = options_.slow > 1 ? core_time() : 0;
  optimizer_->update(numbers, laid, learning_rate);
  if (options_.slow <= 1) return;
  // Threads of several workers come by turns; parts are small enough that each is paid for at its end.
  const auto end = core_time();
  const auto until = end + static_cast<Nanoseconds>((options_.slow - 1) * static_cast<double>(end - begin));
  while (core_time() < until) continue;
}

void ParameterServer::pull(int worker, const ServerWord& word, const Send& send) {
  const auto w = static_cast<std::size_t>(worker);
  std::unique_lock lock(mutex_);
  if (word.stops != 0) stops_ = std::min(stops_.value_or(word.clock), word.clock);
  if (word.fails != 0) fails_ = std::min(fails_.value_or(word.clock), word.clock);
  asked_[w] = word.clock;
  changed_.notify_all();
  const auto all_at = [](const std::vector<std::int64_t>& each, std::int64_t clock) {
    return std::all_of(each.begin(), each.end(), [&](std::int64_t one) { return one >= clock; });
  };
  wait(lock, changed_, [&] {
    if (options_.sums) return all_at(clocks_, word.clock) && all_at(asked_, word.clock);
    // Who stops pushes no more: nobody waits for it.
    return options_.stale < 0 || stops_ || fails_ || slowest() >= word.clock - options_.stale;
  });
  behind_[w] = std::max<std::int64_t>(0, word.clock - slowest());
  given_[w] = updates_;
  const ServerAnswer answer{told(stops_, word.clock) ? 1 : 0, told(fails_, word.clock) ? 1 : 0, behind_[w]};
  death_.at(word.clock - 1, "server send");
  // Sums are applied when all have pushed again, which they do after they were answered: several are answered at once.
  if (options_.sums) lock.unlock();
  const auto begin = now();
  send(answer, memory_);
  if (options_.sums) lock.lock();
  tell(options_.answered, worker, word, begin, Cause::communication);
}

void ParameterServer::look(const Send& send) {
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
  send({}, memory_);
}

void ParameterServer::fail(const Error& why) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = why;
  changed_.notify_all();
  for (auto& each : moved_) each.notify_all();
}

StalenessReport ParameterServer::report() const {
  const std::lock_guard lock(mutex_);
  auto report = report_;
  const auto count = static_cast<double>(std::max<std::int64_t>(1, report.updates));
  report.mean_clocks /= count;
  report.mean_updates /= count;
  return report;
}

Trace ParameterServer::take_trace() {
  const std::lock_guard lock(mutex_);
  return std::exchange(trace_, {});
}

}  // namespace ddl
