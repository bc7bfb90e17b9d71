#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ddl/report/synthetic_records.h"

namespace ddl {

/// A record of `workers` stages in the order of GPipe, whose trace has `steps` steps: forward takes 100 µs, backward 200, a message 10.
inline Json synthetic_pipeline(int workers = 2, int micro_batches = 3, int steps = 2) {
  Json record = synthetic_record({.workers = workers});
  Json roles = Json::array(), trace = Json::array(), trace_steps = Json::array();
  std::map<std::pair<int, std::string>, int> numbers;
  for (int worker = 0; worker < workers; ++worker) {
    Json tasks = Json::array();
    const auto add = [&](const std::string& kind, const std::string& cargo, int micro_batch, int from, int to) {
      std::string label = cargo.empty() ? kind + " " + std::to_string(worker) : kind + " " + cargo + " " + std::to_string(from) + ">" + std::to_string(to);
      label += " " + std::to_string(micro_batch);
      numbers[{worker, label}] = static_cast<int>(tasks.size());
      tasks.push_back({{"name", label}, {"kind", kind}, {"stage", worker}, {"micro_batch", micro_batch}});
      if (!cargo.empty()) tasks.back().update({{"cargo", cargo}, {"bytes", 4096}});
    };
    for (int m = 0; m < micro_batches; ++m) {
      if (worker > 0) add("receive", "activations", m, worker - 1, worker);
      add("forward", "", m, 0, 0);
      if (worker + 1 < workers) add("send", "activations", m, worker, worker + 1);
    }
    for (int m = 0; m < micro_batches; ++m) {
      if (worker + 1 < workers) add("receive", "activation_gradients", m, worker + 1, worker);
      add("backward", "", m, 0, 0);
      if (worker > 0) add("send", "activation_gradients", m, worker, worker - 1);
    }
    roles.push_back({{"name", "stage " + std::to_string(worker)}, {"first", worker}, {"count", 1}, {"tasks", tasks}});
  }

  const auto label_of = [&](int worker, int task) { return roles[static_cast<std::size_t>(worker)]["tasks"][static_cast<std::size_t>(task)]["name"]; };
  double origin = 0;
  for (int step = 10; step < 10 + steps; ++step) {
    std::vector<double> now(static_cast<std::size_t>(workers), origin);
    double end = origin;
    const auto span = [&](int worker, const std::string& label, const char* stream, const char* cause, double from, double to, int meeting) {
      const int task = numbers.at({worker, label});
      trace.push_back({{"rank", worker}, {"step", step}, {"task", task}, {"stream", stream}, {"cause", cause}, {"name", label_of(worker, task)}, {"begin_us", from}, {"end_us", to}});
      if (meeting > 0) trace.back()["meeting"] = meeting;
      end = std::max(end, to);
    };
    int meeting = 0;
    for (const bool forward : {true, false})
      for (int m = 0; m < micro_batches; ++m)
        for (int place = 0; place < workers; ++place) {
          const int worker = forward ? place : workers - 1 - place, next = forward ? worker + 1 : worker - 1;
          auto& time = now[static_cast<std::size_t>(worker)];
          const auto number = " " + std::to_string(m);
          const double ready = time + (forward ? 100 : 200);
          span(worker, (forward ? "forward " : "backward ") + std::to_string(worker) + number, "compute", forward ? "forward" : "backward", time, ready, 0);
          time = ready;
          if (next < 0 || next >= workers) continue;
          const auto route = (forward ? " activations " : " activation_gradients ") + std::to_string(worker) + ">" + std::to_string(next) + number;
          auto& theirs = now[static_cast<std::size_t>(next)];
          const double there = std::max(ready + 10, theirs);
          span(worker, "send" + route, "communication", "communication", ready, there, ++meeting);
          span(next, "receive" + route, "communication", "communication", std::min(theirs, ready), there, meeting);
          if (theirs < there) span(next, "receive" + route, "compute", "bubble", theirs, there, meeting);
          theirs = there;
        }
    for (int worker = 0; worker < workers; ++worker) trace_steps.push_back({{"rank", worker}, {"step", step}, {"begin_us", origin}, {"end_us", end + 5}});
    origin = end + 5;
  }
  record["config"]["strategy"] = "pipeline[micro=" + std::to_string(micro_batches) + ",schedule=gpipe]";
  record["plan"] = {{"strategy", "pipeline"},
                    {"stages", workers},
                    {"micro_batches", micro_batches},
                    {"bubble", {{"schedule", "gpipe"}, {"workers", workers}, {"chunks", 1}, {"ideal", (workers - 1.0) / (micro_batches + workers - 1.0)}, {"exact", true}}},
                    {"roles", roles}};
  record["trace"] = trace;
  record["trace_steps"] = trace_steps;
  return record;
}

}  // namespace ddl
