#include "ddl/predict/step/compressed.h"

#include <algorithm>

#include "ddl/collective/compression.h"

namespace ddl {
namespace {

/// All that a rank gets of the others' choices: alike for two ranks and for many where it is an all-reduce.
std::int64_t gathered_bytes(const std::vector<Transfer>& transfers) {
  std::int64_t bytes = 0;
  for (const auto& each : transfers)
    if (each.goal == Goal::all_gather) bytes += static_cast<std::int64_t>(each.elements * size_of(each.type));
  return bytes;
}

}  // namespace

std::string compression_of(const Spec& strategy) {
  const auto own = strategy.options.find("compress");
  return own == strategy.options.end() || own->second == "none" ? "" : to_string(parse_spec(own->second));
}

CompressedBucket compressed_bucket(const std::string& compression, const Bucket& bucket, const std::vector<ParameterSpec>& parameters, int ranks) {
  const auto chosen = choose_compression(compression);
  CompressedBuffer buffer;
  for (const int parameter : bucket.parameters) {
    const auto& spec = parameters.at(static_cast<std::size_t>(parameter));
    const auto elements = static_cast<std::size_t>(spec.elements());
    const auto rows = spec.shape.empty() ? 1 : static_cast<std::size_t>(spec.shape[0]);
    buffer.tensors.push_back({rows, rows == 0 ? 0 : elements / rows});
    buffer.elements += elements;
  }
  const std::size_t exact = bucket.control ? 1 : 0;
  const auto element = static_cast<std::size_t>(bucket.bytes) / std::max<std::size_t>(1, buffer.elements + exact);
  CompressedBucket out;
  std::vector<Transfer> transfers, of_two;
  if (buffer.elements > 0) {
    const auto ask = [&](const auto& compressor) {
      if (compressor == nullptr) throw Error(Code::invalid_argument, fmt::format("[compression] what sends gradients as they are; got {}, expected one that compresses", compression));
      transfers = compressor->transfers(ranks);
      of_two = compressor->transfers(std::min(ranks, 2));
    };
    element == 8 ? ask(chosen.compression.fp64(chosen.spec, buffer)) : ask(chosen.compression.fp32(chosen.spec, buffer));
    out.bytes = static_cast<std::int64_t>(buffer.elements * element);
    // What each rank compresses is alike; of what goes to all it takes all.
    out.gathered = std::max<std::int64_t>(0, gathered_bytes(transfers) - gathered_bytes(of_two));
  }
  if (chosen.compression.feedback) out.memory += out.bytes;
  for (const auto& each : transfers) {
    out.parts.push_back({each.goal, static_cast<std::int64_t>(each.elements * size_of(each.type))});
    out.memory += out.parts.back().bytes;
  }
  if (exact > 0) out.parts.push_back({Goal::all_reduce, static_cast<std::int64_t>(exact * element)});
  return out;
}

Plan compressed_moves(const Plan& plan, const std::string& compression, const std::vector<ParameterSpec>& parameters) {
  auto out = plan;
  for (auto& role : out.roles) {
    std::vector<Task> tasks;
    for (auto& task : role.tasks) {
      task.after.clear();
      const auto ranks = task.kind == TaskKind::collective ? static_cast<int>(members(plan.mesh, plan.groups.at(static_cast<std::size_t>(task.group)), role.first).size()) : 0;
      if (ranks < 2 || task.cargo != Cargo::gradients || task.bucket == kNone || task.layer != kNone) {
        tasks.push_back(task);
        continue;
      }
      for (const auto& part : compressed_bucket(compression, role.buckets.at(static_cast<std::size_t>(task.bucket)), parameters, ranks).parts) {
        auto& own = tasks.emplace_back(task);
        own.goal = part.goal;
        own.bytes = part.bytes;
      }
    }
    role.tasks = std::move(tasks);
  }
  return out;
}

std::int64_t compression_memory(const std::string& compression, const Role& role, const std::vector<ParameterSpec>& parameters, int ranks) {
  std::int64_t bytes = 0, largest = 0;
  for (const auto& bucket : role.buckets) {
    const auto own = compressed_bucket(compression, bucket, parameters, ranks);
    bytes += own.memory;
    largest = std::max(largest, own.bytes);
  }
  return bytes + 2 * largest;
}

}  // namespace ddl
