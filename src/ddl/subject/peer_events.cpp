#include "ddl/subject/peer_events.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/core/json.h"
#include "ddl/core/text.h"

namespace ddl {
namespace {

std::optional<double> number_or_nothing(const Json& event, const char* key) {
  const auto& value = event.at(key);
  if (value.is_null()) return std::nullopt;
  return value.get<double>();
}

PeerStep step_of(const Json& event) {
  return {.step = event.at("step").get<std::int64_t>(),
          .samples = event.at("samples").get<std::int64_t>(),
          .loss = number_or_nothing(event, "loss"),
          .begin = event.at("begin_ns").get<Nanoseconds>(),
          .end = event.at("end_ns").get<Nanoseconds>(),
          .load_ms = event.at("load_ms").get<double>(),
          .forward_ms = event.at("forward_ms").get<double>(),
          .backward_ms = event.at("backward_ms").get<double>(),
          .update_ms = event.at("update_ms").get<double>()};
}

}  // namespace

void PeerEvents::feed(std::string_view bytes) {
  rest_ += bytes;
  std::size_t begin = 0;
  for (auto end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n', begin)) {
    line(std::string_view(rest_).substr(begin, end - begin));
    begin = end + 1;
  }
  rest_.erase(0, begin);
}

void PeerEvents::line(std::string_view text) {
  ++lines_;
  text = trim(text);
  if (text.empty()) return;
  try {
    const auto event = Json::parse(text);
    const auto kind = event.at("event").get<std::string>();
    if (kind == "ready") {
      ready = event.at("ns").get<Nanoseconds>();
    } else if (kind == "step") {
      steps.push_back(step_of(event));
    } else if (kind == "epoch") {
      epochs.push_back({event.at("epoch").get<std::int64_t>(), event.at("step").get<std::int64_t>(),
                        number_or_nothing(event, "loss"), number_or_nothing(event, "accuracy")});
    } else if (kind == "done") {
      announced_ = event.at("steps").get<std::int64_t>();
      done = PeerDone{event.at("parameters").get<std::int64_t>(), event.at("parameters_digest").get<std::string>(),
                      event.at("peak_memory_bytes").get<std::int64_t>(),
                      event.at("versions").get<std::map<std::string, std::string>>()};
    } else if (kind == "error") {
      error = event.at("message").get<std::string>();
    }
  } catch (const Json::exception&) {
    throw Error(Code::corrupt, fmt::format("[peer] line {} of its output; got '{}', expected one JSON event", lines_,
                                           text.substr(0, 80)));
  }
}

void PeerEvents::finish() {
  if (!rest_.empty()) {
    const std::string last = std::exchange(rest_, {});
    line(last);
  }
  if (!error.empty()) return;
  if (!done)
    throw Error(Code::corrupt,
                fmt::format("[peer] its output ended early; got {} steps, expected 'done'", steps.size()));
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (steps[i].step != static_cast<std::int64_t>(i))
      throw Error(Code::corrupt, fmt::format("[peer] steps out of order; got {}, expected {}", steps[i].step, i));
  if (announced_ != static_cast<std::int64_t>(steps.size()))
    throw Error(Code::corrupt, fmt::format("[peer] steps are missing; got {}, expected {}", steps.size(), announced_));
}

std::vector<double> global_losses(std::span<const PeerEvents> ranks) {
  std::size_t common = ranks.empty() ? 0 : std::numeric_limits<std::size_t>::max();
  for (const auto& rank : ranks) common = std::min(common, rank.steps.size());
  std::vector<double> losses;
  for (std::size_t i = 0; i < common; ++i) {
    double sum = 0;
    std::int64_t samples = 0;
    for (const auto& rank : ranks) {
      const auto& step = rank.steps[i];
      if (step.samples > 0)
        sum += step.loss.value_or(std::numeric_limits<double>::quiet_NaN()) * static_cast<double>(step.samples);
      samples += step.samples;
    }
    losses.push_back(samples > 0 ? sum / static_cast<double>(samples) : std::numeric_limits<double>::quiet_NaN());
  }
  return losses;
}

}  // namespace ddl
