#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <c10/core/GradMode.h>

#include "ddl/core/error.h"
#include "ddl/train/emulation/replay.h"
#include "ddl/train/executor_serving.h"
#include "ddl/train/executor_step.h"
#include "ddl/train/slowing.h"

// Parameters that live with servers: what a worker pushes and pulls. Bucket s of a plan with servers is what server s has; parameters come into the bucket's memory, whose
// gradients the server has by then.
namespace ddl {
namespace {

/// What the server in this process receives of workers, or sends them, in the plan's words: events of the trace on both sides.
std::vector<ParameterServer::Message> messages_of(const Plan& plan, int server, TaskKind kind) {
  std::vector<ParameterServer::Message> messages(static_cast<std::size_t>(plan.workers()));
  const auto& own = plan.role_of(server).tasks;
  for (int w = 0; w < plan.workers(); ++w) {
    const int role = plan.role_number(w);
    const auto from = std::find_if(own.begin(), own.end(), [&](const Task& task) { return task.stream == Stream::server && task.kind == kind && task.peer == role; });
    invariant(from != own.end(), "a server has a task for what each role pushes, and is answered");
    // As Executor::meeting_of() counts those of worker w.
    messages[static_cast<std::size_t>(w)] = {static_cast<std::int32_t>(from - own.begin()), static_cast<std::uint32_t>(from->meeting * plan.workers() + w + 1)};
  }
  return messages;
}

}  // namespace

void Executor::adopt_serving() {
  const auto& serving = plan_.serving;
  if (serving.servers == 0 || servers_) return;
  invariant(communicator_ != nullptr && make_server_optimizer_ != nullptr, "a plan with servers has a communicator, and optimizers for them");
  servers_ = std::make_unique<Servers>();
  servers_->answers.resize(static_cast<std::size_t>(serving.servers));
  for (int s = 0; s < serving.servers && device_.is_host(); ++s) {
    auto& places = servers_->places.emplace_back();
    for (const int parameter : role().buckets[static_cast<std::size_t>(s)].parameters) {
      const auto& own = network_.parameters()[bucketed_[among_bucketed_.at(parameter)]];
      places.emplace_back(static_cast<std::byte*>(own.data_ptr()), own.nbytes());
    }
  }
  if (worker_ < serving.servers) {
    const c10::NoGradGuard without;
    std::vector<at::Tensor> start;
    for (const int parameter : role().buckets[static_cast<std::size_t>(worker_)].parameters)
      start.push_back(fetch(device_, network_.parameters()[bucketed_[among_bucketed_.at(parameter)]]));
    const ParameterServer::Options options{plan_.workers(), serving.sums, serving.stale, worker_, serving.window, messages_of(plan_, worker_, TaskKind::receive),
                                           messages_of(plan_, worker_, TaskKind::send), slowing_ != nullptr ? slowing_->factor() : 1};
    servers_->server = std::make_unique<ParameterServer>(options, start, communicator_->transport(), make_server_optimizer_);
  }
  servers_->links = std::make_unique<ServerLinks>(serving.servers, worker_, *communicator_, exchange_.timeout, servers_->server.get());
}

Holdings Executor::served() const {
  Holdings holds;
  if (!servers_ || !servers_->server) return holds;
  holds.parameters = servers_->server->bytes();
  holds.optimizer = servers_->server->state_bytes();
  holds.buckets = servers_->server->sum_bytes();
  return holds;
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
    step.handles[i].push_back(servers_->links->push(task.bucket, word, memory, std::move(ready)));
    return;
  }
  word.kind = ServerWord::Kind::pull;
  word.stops = step.ask_to_stop ? 1 : 0;
  word.fails = step.loss_sum.defined() && !std::isfinite(fetch(device_, step.loss_sum).item<double>()) ? 1 : 0;
  step.handles[i].push_back(servers_->links->pull(task.bucket, word, place_of_parameters(task.bucket), servers_->answers[static_cast<std::size_t>(task.bucket)]));
}

/// Where a server's parameters come to: straight to the network's own memory, by which time backward has read it, or to the bucket's where that is on a device.
Incoming Executor::place_of_parameters(int server) {
  const auto buffer = buckets_->buffer(server);
  const auto bytes = buffer.elements * size_of(buffer.type);
  if (servers_->places.empty()) return {0, bytes, buffer.data, {}};
  const auto take = [](void* context, std::size_t offset, std::span<const std::byte> piece, double) {
    for (const auto& place : *static_cast<const std::vector<std::span<std::byte>>*>(context)) {
      if (offset >= place.size()) {
        offset -= place.size();
        continue;
      }
      const auto here = std::min(piece.size(), place.size() - offset);
      std::memcpy(place.data() + offset, piece.data(), here);
      piece = piece.subspan(here);
      offset = 0;
      if (piece.empty()) break;
    }
  };
  return {0, bytes, nullptr, {take, &servers_->places[static_cast<std::size_t>(server)]}};
}

/// What came into a bucket's memory becomes the worker's parameters.
void Executor::take(int bucket) {
  if (servers_ && !servers_->places.empty()) return;  // they are there
  if (replay_ != nullptr) return replay_->copy(role().buckets[static_cast<std::size_t>(bucket)].bytes);
  const c10::NoGradGuard guard;
  buckets_->receive(bucket);
  for (const int parameter : role().buckets[static_cast<std::size_t>(bucket)].parameters) {
    const auto place = among_bucketed_.at(parameter);
    network_.parameters()[bucketed_[place]].detach().copy_(buckets_->gradient(static_cast<int>(place)));
  }
}

double Executor::votes_of_servers() const {
  double votes = 0;
  for (const auto& answer : servers_->answers) {
    if (answer.fails != 0) return std::numeric_limits<double>::quiet_NaN();
    votes += answer.stops;
  }
  return votes;
}

void Executor::converge() {
  if (!servers_) return replicate();
  // Before: all that was pushed is applied. After: nobody pushes while others still look.
  communicator_->barrier().wait();
  std::vector<Handle> handles;
  ServerWord word;
  word.kind = ServerWord::Kind::look;
  for (int s = 0; s < plan_.serving.servers; ++s) {
    handles.push_back(servers_->links->pull(s, word, place_of_parameters(s), servers_->answers[static_cast<std::size_t>(s)]));
  }
  for (int s = 0; s < plan_.serving.servers; ++s) {
    handles[static_cast<std::size_t>(s)].wait();
    take(s);
  }
  if (!device_.is_host()) device_.synchronize();
  communicator_->barrier().wait();
}

std::optional<StalenessReport> Executor::staleness() const {
  if (!servers_ || !servers_->server) return std::nullopt;
  return servers_->server->report();
}

}  // namespace ddl
