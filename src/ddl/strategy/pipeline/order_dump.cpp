// order_dump SCHEDULE WORKERS MICRO_BATCHES CHUNKS
//
// An order as text, for tests/pipeline_schedules_test.py: a line of the worker of each stage, then a line of each worker's actions,
// STAGE PASS MICRO_BATCH with F, B, I and W for the passes: 0F0 0F1 0B0; with +AHEAD behind those of a later batch.
#include <array>
#include <iostream>
#include <utility>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/strategy/pipeline/schedules.h"

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
        if (pass == action.pass)
          std::cout << action.stage << letter << action.micro_batch << (action.ahead == 0 ? "" : fmt::format("+{}", action.ahead)) << ' ';
  }
  std::cout << '\n';
}

void run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 4) throw Error(Code::invalid_argument, "[order_dump] takes SCHEDULE WORKERS MICRO_BATCHES CHUNKS");
  const auto number = [&](std::size_t i) { return std::stoi(arguments[i]); };
  print(builtin_pipeline_schedules().at(arguments[0]).make.order({number(1), number(2), number(3)}));
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
