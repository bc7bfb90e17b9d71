#include <algorithm>
#include <cmath>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/predict/datasheet/gpt_step.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/datasheet/machine_layout.h"
#include "ddl/predict/datasheet/wires.h"
#include "ddl/predict/validate/estimate.h"

namespace ddl {
namespace {

/// Of a package that nobody has measured, taken for another: what packages that were measured are apart (docs/validation.md, "Intervals").
constexpr double kOtherStack = 0.35;
/// Of a library of collectives that has no description, taken for its machine's. Judgement.
constexpr double kOtherLibrary = 0.10;

/// Of what rows of fitting did not have: a way to keep activations or to split them, a precision, tensor parallelism that goes over wires between nodes. Judgement.
constexpr double kOtherWay = 0.06, kOtherPrecision = 0.10, kTensorOverNodes = 0.10;

struct Package {
  Json stack;
  double sigma = 0;  ///< for being taken for another
};

/// Packages by the first word of their name; one that nobody has measured costs what Megatron does. Terms that one does not have itself are those of the stack that its "like" names.
Package package_of(const std::string& stack, std::vector<std::string>& notes) {
  if (auto found = stack_with(stack.substr(0, stack.find('/')), "gpt")) {
    auto& own = (*found)["gpt"];
    if (own.contains("like")) {
      auto terms = find_stack(own["like"].get<std::string>()).at("gpt");
      const bool level = own.contains("product_gain");
      notes.push_back(fmt::format("{}: no time of it was fitted{}; times are those of {}", found->value("name", "?"), level ? " but how fast products are" : "", own["like"].get<std::string>()));
      terms.update(own);
      own = std::move(terms);
    }
    return {*std::move(found)};
  }
  notes.push_back(fmt::format("stack '{}' has no profile; taken for megatron, and the interval is wider for it", stack));
  return {find_stack("megatron"), kOtherStack};
}

/// The library that a row names behind its package, of several the last that is described (Open MPI starts what NCCL carries: openmpi+nccl); where it names none its machine's.
CollectiveLibrary row_library(const MeasuredRow& row, const Json& machine, double& sigma, std::vector<std::string>& notes) {
  const auto slash = row.stack.find('/');
  if (slash == std::string::npos) return library_of(machine);
  const auto known = shipped_libraries();
  std::string named;
  for (const auto& word : split(row.stack.substr(slash + 1), '+'))
    if (std::find(known.begin(), known.end(), word) != known.end()) named = word;
  if (!named.empty()) return CollectiveLibrary::read(find_library(named));
  auto own = library_of(machine);
  notes.push_back(fmt::format("collectives of stack '{}' are not described; taken for those of {}, and the interval is wider for it", row.stack, own.name()));
  sigma = std::hypot(sigma, kOtherLibrary);
  return own;
}

double needed(double value, const char* column, const MeasuredRow& row) {
  if (value > 0) return value;
  throw Error(Code::invalid_argument, fmt::format("{} is empty; a gpt needs it, in row '{}'", column, row.id));
}

GptStep step_of(const MeasuredRow& row) {
  GptStep step;
  step.hidden = needed(static_cast<double>(row.hidden), "hidden", row);
  step.ffn = row.ffn > 0 ? static_cast<double>(row.ffn) : 4 * step.hidden;
  step.layers = needed(static_cast<double>(row.layers), "layers", row);
  step.heads = needed(static_cast<double>(row.heads), "heads", row);
  step.sequence = needed(static_cast<double>(row.seq), "seq", row);
  if (row.vocab > 0) step.vocabulary = static_cast<double>(row.vocab);
  step.key_heads = static_cast<double>(row.kv_heads);
  if (row.kv_heads > row.heads) throw Error(Code::invalid_argument, fmt::format("kv_heads; got {}, expected at most heads, {}", row.kv_heads, row.heads));
  step.untied = row.untied;
  step.stages = row.stages;
  step.tensor = row.tp;
  step.pipeline = row.pp;
  step.data = row.dp;
  if (std::int64_t{row.dp} * row.tp * row.pp != row.devices)
    throw Error(Code::invalid_argument, fmt::format("dp x tp x pp; got {} x {} x {}, expected devices, {}", row.dp, row.tp, row.pp, row.devices));
  if (!row.image.empty()) throw Error(Code::invalid_argument, "image; got a size, expected none of a gpt");
  if (row.schedule == "interleaved-1f1b" && row.pp > 1 && row.interleave == 0) throw Error(Code::invalid_argument, fmt::format("interleave is empty; schedule {} needs it, in row '{}'", row.schedule, row.id));
  if (!row.schedule.empty() && row.schedule != "interleaved-1f1b" && row.interleave > 1) throw Error(Code::invalid_argument, fmt::format("interleave; got {} with schedule {}, expected 1, or interleaved-1f1b", row.interleave, row.schedule));
  if (row.interleave > 1) step.chunks = row.interleave;
  step.micro_batch = row.micro_batch;
  step.global_batch = needed(row.global_batch, "global_batch", row);
  step.sequence_parallel = !row.sequence_parallel.empty();
  step.shards_optimizer = !row.sharded.empty();
  step.overlaps = row.overlap;
  step.flash = row.stack.find("flash") != std::string::npos;
  if (row.recompute == "except_last") throw Error(Code::unsupported, "recompute; got except_last, expected none, selective or full of a gpt");
  step.recompute = row.recompute == "full" ? GptStep::Recompute::full : row.recompute == "selective" ? GptStep::Recompute::selective : GptStep::Recompute::none;
  return step;
}

double fullest(const GptStep& step, const GptStack& stack) {
  double most = 0;
  for (const auto& [tensors, cached] : gpt_stage_bytes(step, stack.kept, stack.recomputes, step.flash || stack.flash)) most = std::max(most, tensors + cached);
  return most + stack.kept.context;
}

/// What tables seldom print, as runs that are made to be fast have it. Micro-batches: of a pipeline one sample, for the bubble; else as many as there is memory for, doubling from one. Chunks: a layer
/// each, where the package interleaves whenever messages overlap.
void fill_in(GptStep& step, const MeasuredRow& row, const Gpu& gpu, const GptStack& stack, std::vector<std::string>& notes) {
  if (row.schedule == "gpipe" && step.pipeline > 1) notes.emplace_back("schedule gpipe takes as long as 1f1b; that it holds all micro-batches at once is not counted");
  if (stack.interleaves && step.overlaps && step.pipeline > 1 && row.interleave == 0 && row.stages.empty() && std::fmod(step.layers, step.pipeline) == 0) {
    step.chunks = step.layers / step.pipeline;
    notes.push_back(fmt::format("interleave is empty; {} overlaps a pipeline's messages where it is interleaved: {} chunks of one layer are taken", stack.name, step.chunks));
  }
  if (step.micro_batch > 0) return;
  step.micro_batch = 1;
  auto larger = step;
  for (larger.micro_batch = 2; step.pipeline == 1 && std::fmod(step.global_batch, step.data * larger.micro_batch) == 0 && fullest(larger, stack) <= gpu.memory; larger.micro_batch *= 2) step = larger;
  notes.push_back(fmt::format("micro_batch is empty; {} is taken, {}", step.micro_batch, step.pipeline > 1 ? "one sample in a pipeline" : "the most that memory holds, in powers of two"));
}

/// Outside of what constants were fitted to: two per cent for each doubling.
double beyond(const char* what, double value, const std::pair<double, double>& fitted, std::vector<std::string>& notes) {
  const auto [low, high] = fitted;
  const double ratio = value < low ? low / value : value > high ? value / high : 1;
  // Sizes that are rounded to a multiple of something are none of their own.
  if (ratio <= 1.01) return 0;
  notes.push_back(fmt::format("{} {} lies outside of what constants were fitted to, {} to {}: the interval is wider for it", what, value, low, high));
  return std::pow(0.02 * std::log2(ratio), 2);
}

double sigma_of(const GptStep& step, const MeasuredRow& row, const Gpu& gpu, const GptStack& stack, bool known_shape, bool own_wires, std::vector<std::string>& notes) {
  double base = known_shape ? stack.sigma_of_known_shape : stack.sigma;
  const auto& fitted = stack.fitted;
  // Nothing was fitted on other devices: four rows of a V100 were 4 % off.
  if (!gpu.name.starts_with(fitted.device)) base = std::max(base, gpu.name.starts_with("v100") ? 0.06 : 0.10);
  // Whatever the device: a fitted one's own .04 is little beside it.
  if (!own_wires) base = base < 0.10 ? 0.10 : std::hypot(base, 0.10);
  double square = base * base + beyond("hidden", step.hidden, fitted.hidden, notes) + beyond("devices", row.devices, fitted.devices, notes) + beyond("micro_batch", step.micro_batch, fitted.micro_batch, notes) +
                  beyond("seq", step.sequence, fitted.sequence, notes) + beyond("tp", step.tensor, fitted.tensor, notes) + beyond("pp", step.pipeline, fitted.pipeline, notes) +
                  beyond("layers", step.layers, fitted.layers, notes) + beyond("vocab", step.vocabulary, fitted.vocabulary, notes) +
                  beyond("hidden over heads,", step.hidden / step.heads, fitted.head, notes) + beyond("ffn over hidden,", step.ffn / step.hidden, fitted.ffn, notes) + beyond("chunks of a stage,", step.chunks, fitted.chunks, notes) +
                  beyond("micro-batches of a step,", step.global_batch / step.data / step.micro_batch, fitted.micro_batches, notes);
  const auto unseen = [&](bool used, double widens, const std::string& what) {
    if (!used) return;
    notes.push_back(fmt::format("{}: no row had it where constants were fitted, and the interval is wider for it", what));
    square += widens * widens;
  };
  const auto has = [](const std::vector<std::string>& words, const std::string& word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  unseen(step.sequence_parallel && !fitted.sequence_parallel, kOtherWay, "sequence_parallel");
  if (row.devices > 1) {
    unseen(step.overlaps != fitted.overlap, kOtherWay, fmt::format("overlap {}", step.overlaps ? 1 : 0));
    unseen(step.shards_optimizer != fitted.sharded && step.data > 1, kOtherWay, fmt::format("sharded {}", step.shards_optimizer ? 1 : 0));
  }
  unseen(step.key_heads > 0 && step.key_heads < step.heads && !fitted.grouped, kOtherWay, "kv_heads fewer than heads");
  unseen(!has(fitted.recompute, row.recompute), kOtherWay, "recompute " + row.recompute);
  unseen(!has(fitted.precisions, row.precision), kOtherPrecision, "precision " + row.precision);
  unseen(step.tensor > gpu.per_node, kTensorOverNodes, fmt::format("tensor parallelism over {} devices, {} of them on a node", step.tensor, gpu.per_node));
  return std::sqrt(square);
}

}  // namespace

Estimate estimate_gpt(const MeasuredRow& asked, bool shapes) {
  Estimate out;
  auto row = asked;
  if (row.precision.empty()) row.precision = "fp16";
  if (row.recompute.empty()) row.recompute = "none";
  auto step = step_of(row);
  const auto& precision = row.precision;
  step.value_bytes = value_bytes(precision);
  const auto machine = machine_laid_out(row.device);
  if (machine.value("device", Json::object()).value("kind", "gpu") == "cpu") throw Error(Code::unsupported, fmt::format("[predict] unsupported: a gpt on {}; expected a GPU, whose kernels packages' constants are of", machine.value("name", row.device)));
  auto gpu = gpu_of(machine, precision);
  if (row.devices_per_node > 0) gpu.per_node = row.devices_per_node;
  const auto wires = wires_of(machine, row.link_intra, row.link_inter);
  const auto others = join(gpu, wires, row.devices);
  auto package = package_of(row.stack, out.notes);
  auto stack = gpt_stack(package.stack);
  // Shapes that were noted are layers of that package on an A100, in half precision.
  if (!shapes || package.stack["gpt"].contains("like") || !gpu.name.starts_with("a100") || step.value_bytes != 2) stack.shapes.clear();
  fill_in(step, row, gpu, stack, out.notes);
  if (row.data == "real") out.notes.emplace_back("data is real; what reading it takes is not in the model of a gpt");
  if (row.one_device_samples_per_s > 0) out.notes.emplace_back("one_device_samples_per_s is not used: a gpt is priced from its device's profile");
  const auto priced = price_gpt(step, gpu, gpu_kernels(find_stack("nvidia"), row_library(row, machine, package.sigma, out.notes)), stack);
  out.seconds = priced.total;
  out.noted_shape = priced.known_shape;
  out.sigma = sigma_of(step, row, gpu, stack, priced.known_shape, others.empty(), out.notes);
  out.sigma = std::hypot(out.sigma, package.sigma);
  out.terms = {{"compute", priced.passes - priced.exchange - priced.send}, {"tensor exchange", priced.exchange}, {"messages", priced.send}, {"bubble", priced.fill}, {"stragglers", priced.stragglers},
               {"gradients", priced.gradients}, {"tied embedding", priced.tied}, {"update", priced.update}, {"measured shape", priced.shape}};
  for (const auto& [tensors, cached] : priced.stage_bytes) {
    out.tensors_of_stages.push_back(tensors);
    out.memory_of_stages.push_back(tensors + cached + stack.kept.context);
  }
  out.memory_bytes = *std::max_element(out.memory_of_stages.begin(), out.memory_of_stages.end());
  out.memory_of_all_bytes = out.memory_bytes * row.devices;
  out.fits = out.memory_bytes <= gpu.memory;
  out.notes.insert(out.notes.end(), wires.notes.begin(), wires.notes.end());
  out.notes.insert(out.notes.end(), others.begin(), others.end());
  if (!gpu.name.starts_with(stack.fitted.device)) out.notes.push_back(fmt::format("no constant of {} was fitted on {}", stack.name, gpu.name));
  if (stack.recomputes == 0 && step.recompute == GptStep::Recompute::full) out.notes.push_back(fmt::format("{}: steps take the time of steps without recomputation", stack.name));
  return out;
}

}  // namespace ddl
