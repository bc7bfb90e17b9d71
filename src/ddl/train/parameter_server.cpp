#include "ddl/train/parameter_server.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <c10/core/GradMode.h>

#include "ddl/collective/reduce.h"
#include "ddl/plan/plan.h"
#include "ddl/train/tensor_buffer.h"

namespace ddl {

ParameterServer::ParameterServer(const Options& options, const std::vector<at::Tensor>& start, Transport& transport, const MakeOptimizer& make)
    : options_(options),
      clocks_(static_cast<std::size_t>(options.workers)),
      asked_(clocks_.size()),
      given_(clocks_.size()),
      behind_(clocks_.size()) {
  invariant(!start.empty(), "a server has parameters");
  const c10::NoGradGuard guard;
  std::size_t bytes = 0;
  for (const auto& each : start) bytes += each.nbytes();
  memory_ = transport.allocate(bytes);
  std::size_t offset = 0;
  for (const auto& each : start) {
    parameters_.push_back(at::from_blob(memory_.data() + offset, each.sizes(), each.strides(), each.options().requires_grad(false)));
    parameters_.back().copy_(each);
    offset += each.nbytes();
  }
  memory_ = memory_.first(bytes);
  if (options_.sums) sum_.resize(bytes);
  optimizer_ = make(parameters_);
}

template <typename Ready>
void ParameterServer::wait(std::unique_lock<std::mutex>& lock, const Ready& ready) {
  changed_.wait(lock, [&] { return failure_ || ready(); });
  if (failure_) throw Error(*failure_);
}

std::int64_t ParameterServer::slowest() const { return *std::min_element(clocks_.begin(), clocks_.end()); }

void ParameterServer::push(int worker, const ServerWord& word, const Fetch& fetch) {
  if (word.bytes != 0 && word.bytes != static_cast<std::int64_t>(memory_.size()))
    throw Error(Code::corrupt, fmt::format("[parameter-server] worker {} pushes {} bytes of gradients, expected {}", worker, word.bytes, memory_.size()));
  options_.sums ? push_sum(worker, word, fetch) : push_alone(worker, word, fetch);
}

/// The first of a clock begins the sum; no pass over memory to zero it.
void ParameterServer::add(int worker, std::size_t offset, std::span<const std::byte> piece) {
  const auto type = parameter_type(parameters_[0]);
  if (worker == 0)
    std::memcpy(sum_.data() + offset, piece.data(), piece.size());
  else
    reduce_into(ReduceOp::sum, type, sum_.data() + offset, piece.data(), piece.size() / size_of(type));
}

void ParameterServer::push_sum(int worker, const ServerWord& word, const Fetch& fetch) {
  std::unique_lock lock(mutex_);
  wait(lock, [&] { return turn_ == worker; });
  lock.unlock();
  // It is this worker's turn until it says otherwise: nobody else is at the sum.
  const auto begin = now();
  struct Context {
    ParameterServer* server;
    int worker;
  } context{this, worker};
  fetch({[](void* at, std::size_t offset, std::span<const std::byte> piece, double) {
           auto& [server, number] = *static_cast<Context*>(at);
           server->add(number, offset, piece);
         }, &context});
  const bool complete = worker + 1 == options_.workers;
  if (complete) apply(sum_.data(), word.learning_rate);
  lock.lock();
  trace_.push_back({begin, now(), static_cast<std::int32_t>(word.clock - 1), -1, static_cast<std::int16_t>(options_.worker), Stream::server, complete ? Cause::update : Cause::communication});
  clocks_[static_cast<std::size_t>(worker)] = word.clock;
  turn_ = complete ? 0 : worker + 1;
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
    const auto begin = now();
    apply(gradients, word.learning_rate);
    const auto between = updates_ - given_[w];
    report_.largest_updates = std::max(report_.largest_updates, between);
    report_.mean_updates += static_cast<double>(between);
    report_.largest_clocks = std::max(report_.largest_clocks, behind_[w]);
    report_.mean_clocks += static_cast<double>(behind_[w]);
    ++report_.updates;
    ++updates_;
    trace_.push_back({begin, now(), static_cast<std::int32_t>(word.clock - 1), -1, static_cast<std::int16_t>(options_.worker), Stream::server, Cause::update});
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

void ParameterServer::apply(const std::byte* gradients, double learning_rate) {
  const c10::NoGradGuard guard;
  std::vector<std::size_t> numbers;
  std::vector<at::Tensor> views;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto& parameter = parameters_[i];
    numbers.push_back(i);
    // The optimizer reads gradients alone.
    views.push_back(at::from_blob(const_cast<std::byte*>(gradients), parameter.sizes(), parameter.strides(), parameter.options()));
    gradients += parameter.nbytes();
  }
  optimizer_->update(numbers, views, learning_rate);
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
  wait(lock, [&] {
    if (options_.sums) return all_at(clocks_, word.clock) && all_at(asked_, word.clock);
    // Who stops pushes no more: nobody waits for it.
    return options_.stale < 0 || stops_ || fails_ || slowest() >= word.clock - options_.stale;
  });
  behind_[w] = std::max<std::int64_t>(0, word.clock - slowest());
  given_[w] = updates_;
  const ServerAnswer answer{told(stops_, word.clock) ? 1 : 0, told(fails_, word.clock) ? 1 : 0, behind_[w]};
  // Sums are applied when all have pushed again, which they do after they were answered: several are answered at once.
  if (options_.sums) lock.unlock();
  send(answer, memory_);
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
