// order_dump order SCHEDULE WORKERS MICRO_BATCHES CHUNKS
// order_dump time FORWARD BACKWARD_INPUT BACKWARD_WEIGHT < ORDER
//
// For tests/pipeline_schedules_test.py. An order is text: a line of the worker of each stage, then a line of each worker's actions,
// STAGE PASS MICRO_BATCH with F, B, I and W for the passes: 0F0 0F1 0B0. `time` reads one and prints its seconds.
#include <array>
#include <iostream>
#include <sstream>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/strategy/pipeline/timing.h"

namespace ddl {
namespace {

constexpr std::array<std::pair<char, Pass>, 4> kLetters{
    {{'F', Pass::forward}, {'B', Pass::backward}, {'I', Pass::backward_input}, {'W', Pass::backward_weight}}};

void print(const PipelineOrder& order) {
  for (const int worker : order.worker_of_stage) std::cout << worker << ' ';
  for (const auto& actions : order.actions) {
    std::cout << '\n';
    for (const Action& action : actions)
      for (const auto& [letter, pass] : kLetters)
        if (pass == action.pass) std::cout << action.stage << letter << action.micro_batch << ' ';
  }
  std::cout << '\n';
}

PipelineOrder read() {
  PipelineOrder order;
  std::string line;
  std::getline(std::cin, line);
  std::istringstream placement(line);
  for (int worker; placement >> worker;) order.worker_of_stage.push_back(worker);
  while (std::getline(std::cin, line)) {
    auto& actions = order.actions.emplace_back();
    std::istringstream words(line);
    Action action;
    for (char letter; words >> action.stage >> letter >> action.micro_batch;) {
      for (const auto& [known, pass] : kLetters)
        if (known == letter) action.pass = pass;
      actions.push_back(action);
    }
    if (!words.eof()) throw Error(Code::invalid_argument, fmt::format("[order_dump] unreadable actions; got '{}'", line));
  }
  return order;
}

void run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 5 && arguments[0] == "order") {
    print(builtin_pipeline_schedules().at(arguments[1]).make.order({std::stoi(arguments[2]), std::stoi(arguments[3]), std::stoi(arguments[4])}));
  } else if (arguments.size() == 4 && arguments[0] == "time") {
    const auto order = read();
    const PassSeconds each{std::stod(arguments[1]), std::stod(arguments[2]), std::stod(arguments[3])};
    std::cout << time_pipeline(order, uniform_costs(order.stages(), each)).makespan_seconds << '\n';
  } else {
    throw Error(Code::invalid_argument, "[order_dump] takes order SCHEDULE WORKERS MICRO_BATCHES CHUNKS, or time FORWARD BACKWARD_INPUT BACKWARD_WEIGHT");
  }
}

}  // namespace
}  // namespace ddl

int main(int count, char** values) {
  try {
    ddl::run({values + 1, values + count});
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
