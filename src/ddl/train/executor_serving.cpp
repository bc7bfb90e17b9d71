#include <cmath>
#include <limits>

#include <c10/core/GradMode.h>

#include "ddl/core/error.h"
#include "ddl/train/executor_step.h"

// Parameters that live with servers: what a worker pushes and pulls. Bucket s of a plan with servers is what server s has; parameters come into the bucket's memory, whose
// gradients the server has by then.
namespace ddl {

void Executor::adopt_serving() {
  const auto& serving = plan_.serving;
  if (serving.servers == 0 || links_) return;
  invariant(communicator_ != nullptr && make_server_optimizer_ != nullptr, "a plan with servers has a communicator, and optimizers for them");
  answers_.resize(static_cast<std::size_t>(serving.servers));
  if (worker_ < serving.servers) {
    const c10::NoGradGuard guard;
    std::vector<at::Tensor> start;
    for (const int parameter : role().buckets[static_cast<std::size_t>(worker_)].parameters)
      start.push_back(fetch(device_, network_.parameters()[bucketed_[among_bucketed_.at(parameter)]].detach()));
    server_ = std::make_unique<ParameterServer>(ParameterServer::Options{plan_.workers(), serving.sums, serving.stale, worker_}, start, communicator_->transport(), make_server_optimizer_);
  }
  links_ = std::make_unique<ServerLinks>(serving.servers, worker_, *communicator_, exchange_.timeout, server_.get());
}

void Executor::start_serving(Step& step, int number) {
  const auto i = static_cast<std::size_t>(number);
  const auto& task = step.tasks[i];
  const auto buffer = buckets_->buffer(task.bucket);
  const std::span<std::byte> memory{buffer.data, buffer.elements * size_of(buffer.type)};
  ServerWord word;
  word.clock = step.number + 1;
  word.learning_rate = step.learning_rate;
  if (task.kind == TaskKind::send) {
    // In a sum everyone has a place, be it of zeros.
    word.bytes = plan_.serving.sums || step.batch->samples > 0 ? static_cast<std::int64_t>(memory.size()) : 0;
    std::function<void()> ready;
    if (const auto& there = step.there[static_cast<std::size_t>(task.bucket)]; !there.immediate()) ready = [there] { there.wait(); };
    step.handles[i].push_back(links_->push(task.bucket, word, memory, std::move(ready)));
    return;
  }
  word.kind = ServerWord::Kind::pull;
  word.stops = step.ask_to_stop ? 1 : 0;
  word.fails = step.loss_sum.defined() && !std::isfinite(fetch(device_, step.loss_sum).item<double>()) ? 1 : 0;
  step.handles[i].push_back(links_->pull(task.bucket, word, memory, answers_[static_cast<std::size_t>(task.bucket)]));
}

/// What came into a bucket's memory becomes the worker's parameters.
void Executor::take(int bucket) {
  const c10::NoGradGuard guard;
  buckets_->receive(bucket);
  for (const int parameter : role().buckets[static_cast<std::size_t>(bucket)].parameters) {
    const auto place = among_bucketed_.at(parameter);
    network_.parameters()[bucketed_[place]].detach().copy_(buckets_->gradient(static_cast<int>(place)));
  }
}

double Executor::votes_of_servers() const {
  double votes = 0;
  for (const auto& answer : answers_) {
    if (answer.fails != 0) return std::numeric_limits<double>::quiet_NaN();
    votes += answer.stops;
  }
  return votes;
}

void Executor::converge() {
  if (!links_) return;
  // Before: all that was pushed is applied. After: nobody pushes while others still look.
  communicator_->barrier().wait();
  std::vector<Handle> handles;
  ServerWord word;
  word.kind = ServerWord::Kind::look;
  for (int s = 0; s < plan_.serving.servers; ++s) {
    const auto buffer = buckets_->buffer(s);
    handles.push_back(links_->pull(s, word, {buffer.data, buffer.elements * size_of(buffer.type)}, answers_[static_cast<std::size_t>(s)]));
  }
  for (int s = 0; s < plan_.serving.servers; ++s) {
    handles[static_cast<std::size_t>(s)].wait();
    take(s);
  }
  if (!device_.is_host()) device_.synchronize();
  communicator_->barrier().wait();
}

std::optional<StalenessReport> Executor::staleness() const {
  if (!server_) return std::nullopt;
  return server_->report();
}

}  // namespace ddl
