#include <algorithm>
#include <cmath>

#include "ddl/core/error.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/datasheet/machine_layout.h"
#include "ddl/predict/datasheet/wires.h"
#include "ddl/predict/images/memory.h"
#include "ddl/predict/images/steps.h"
#include "ddl/predict/validate/estimate.h"

namespace ddl {
namespace {

/// Of a package or library that nobody has measured, taken for another: docs/validation.md, "Intervals".
constexpr double kOtherStack = 0.25;

/// A row with what its device and stack say.
struct Described {
  const MeasuredRow& row;
  Json machine, stack;
  std::string precision;
  Wires wires = {};
  int per_node = 1;
  double launch = 0;  ///< seconds between operators
  double other_stack = 0;  ///< standard deviation for being taken for another package
  std::vector<std::string> notes = {};
};


/// What a library's calls take under a package, where the package leaves that to the library.
Json with_library(Json stack) {
  auto& images = stack["images"];
  if (images.contains("library")) {
    const auto library = find_library(images["library"].get<std::string>());
    for (const auto* calls : {"of_two", "of_more"}) images[calls] = library.at("horovod").at(calls);
  }
  return stack;
}

/// package/library by that name, or by the package alone. Of those that nobody has measured, what is staged through a host's memory costs what Intel MPI does, what is NCCL what its wires say, and
/// pipelines what torchgpipe's do.
Json stack_of(const MeasuredRow& row, double& sigma, std::vector<std::string>& notes) {
  auto name = row.stack;
  std::replace(name.begin(), name.end(), '/', '-');
  const auto package = row.stack.substr(0, row.stack.find('/'));
  const bool host_staged = row.stack.find("nccl") == std::string::npos && (row.stack.find("mpi") != std::string::npos || row.stack.find("gloo") != std::string::npos);
  const auto near = row.is_pipeline() ? "torchgpipe" : host_staged ? "horovod-intelmpi" : "horovod-nccl";
  for (const auto& known : {name, package})
    if (auto found = stack_with(known, "images")) {
      if (known == "horovod-nccl") notes.emplace_back("horovod over NCCL with RDMA was not measured: its terms are judgement");
      return with_library(*std::move(found));
    }
  notes.push_back(fmt::format("stack '{}' has no profile; taken for {}, and the interval is wider for it", row.stack, near));
  sigma = kOtherStack;
  return with_library(find_stack(near));
}

Described described(const MeasuredRow& row) {
  Described out{row, machine_laid_out(row.device), {}, row.precision.empty() ? "fp32" : row.precision};
  out.stack = stack_of(row, out.other_stack, out.notes);
  out.wires = wires_of(out.machine, row.link_intra, row.link_inter);
  out.per_node = row.devices_per_node > 0 ? row.devices_per_node : static_cast<int>(term(out.machine, "node.devices"));
  out.launch = term_or(out.machine, "device.operator_us", term(out.stack, "images.operator_us")) * 1e-6;
  return out;
}

bool fitted(const Json& stack, const char* what, const std::string& word) {
  for (const auto& each : stack.at("images").at("fitted").at(what))
    if (each == word) return true;
  return false;
}

std::string size_of(const std::vector<std::int64_t>& image) { return fmt::format("{}x{}x{}", image.at(0), image.at(1), image.at(2)); }

/// Standard deviation of the logarithm, from residuals of the tables that constants were fitted to; docs/validation.md, "Intervals".
double sigma_of(Described& of, const ImageSeconds& priced) {
  constexpr double kOfStalls = 0.5, kOfExposed = 0.15, kOfUneven = 0.1;
  constexpr double kOtherDeviceByDatasheet = 0.35, kOtherPrecision = 0.06, kOtherWires = 0.06, kOtherImages = 0.06, kOtherData = 0.15, kPerDoubling = 0.04;
  const auto& row = of.row;
  const bool rated = row.one_device_samples_per_s > 0;
  const double total = priced.total();
  std::vector<double> parts{term(of.stack, "images.sigma"), kOfStalls * priced.stalls / total, kOfExposed * priced.exposed / total, kOfUneven * priced.uneven / total, of.other_stack};
  const auto beyond = [&](double sigma, const std::string& what) {
    parts.push_back(sigma);
    of.notes.push_back(fmt::format("{} was not measured with {}", what, of.stack.value("name", "?")));
  };
  if (!fitted(of.stack, "devices", of.machine.value("name", ""))) beyond(rated ? term(of.stack, "images.sigma_of_device") : kOtherDeviceByDatasheet, row.device);
  else if (!rated) parts.push_back(term(of.stack, "images.sigma_of_roofline"));
  if (!fitted(of.stack, "precisions", of.precision)) beyond(rated ? kOtherPrecision : kOtherDeviceByDatasheet, of.precision);
  if (of.stack.at("images").at("fitted").contains("wires"))
    for (const auto& [word, used] : {std::pair(row.link_intra, row.devices > 1), {row.link_inter, row.devices > of.per_node}})
      if (used && !word.empty() && !fitted(of.stack, "wires", word)) beyond(kOtherWires, word);
  const auto& of_fit = of.stack.at("images").at("fitted");
  // Sizes of a network are no networks of their own.
  if (of_fit.contains("networks") && !fitted(of.stack, "networks", row.model.substr(0, row.model.find('(')))) beyond(term(of.stack, "images.sigma_of_network"), row.model);
  if (of_fit.contains("images") && !row.image.empty() && !fitted(of.stack, "images", size_of(row.image))) beyond(kOtherImages, "images of " + size_of(row.image));
  if (of_fit.contains("data") && !row.data.empty() && !fitted(of.stack, "data", row.data)) beyond(kOtherData, row.data + " data");
  if (of_fit.contains("devices_per_node") && row.devices > 1) {
    const double least = of_fit.at("devices_per_node").at(0).get<double>(), most = of_fit.at("devices_per_node").at(1).get<double>();
    if (of.per_node < least || of.per_node > most) beyond(kPerDoubling * std::abs(std::log2(of.per_node / std::clamp<double>(of.per_node, least, most))), fmt::format("a node of {} devices", of.per_node));
  }
  const double batch = row.micro_batch > 0 ? row.micro_batch : row.global_batch / row.devices;
  if (batch > 0 && of_fit.contains("batches")) {
    const double least = of_fit.at("batches").at(0).get<double>(), most = of_fit.at("batches").at(1).get<double>();
    if (batch < least || batch > most) beyond(kPerDoubling * std::abs(std::log2(batch / std::clamp(batch, least, most))), fmt::format("{} samples a device, {} than {},", batch, batch < least ? "fewer" : "more", batch < least ? least : most));
  } else if (batch > 0 && of_fit.contains("networks")) {
    beyond(kPerDoubling, fmt::format("a batch of {} a device: rows of fitting print none; it", batch));
  }
  if (const double count = term(of.stack, "images.fitted.count"); row.devices > count) beyond(kPerDoubling * std::log2(row.devices / count), fmt::format("more than {} devices", count));
  double square = 0;
  for (const double part : parts) square += part * part;
  return std::sqrt(square);
}

[[noreturn]] void contradiction(const std::string& what, const std::string& got, const std::string& expected) { throw Error(Code::invalid_argument, fmt::format("{}; got {}, expected {}", what, got, expected)); }

/// Steps of one replica that a step of the row is made of: more than one where gradients are accumulated.
double passes_of(const MeasuredRow& row, double batch) {
  if (row.global_batch <= 0) return 1;
  const double passes = row.global_batch / (batch * row.devices);
  if (std::abs(passes - std::round(passes)) > 1e-6 || passes < 0.5) contradiction("global_batch", fmt::format("{}", row.global_batch), fmt::format("a multiple of micro_batch x devices, {} x {}", batch, row.devices));
  return std::round(passes);
}

double batch_of(Described& of) {
  const auto& row = of.row;
  if (row.micro_batch > 0) return row.micro_batch;
  if (row.global_batch > 0) return row.global_batch / row.devices;
  const double assumed = term(of.stack, "images.micro_batch");
  of.notes.push_back(fmt::format("micro_batch is empty; {} assumed", assumed));
  return assumed;
}

ImageSeconds price_replicas(Described& of, const ImageRoofline& device, double& samples) {
  const auto& row = of.row;
  const auto form = of.stack.at("images").value("form", "");
  const double batch = batch_of(of), passes = passes_of(row, batch);
  const auto& network = image_network(row.model, row.image);
  const double rate = row.one_device_samples_per_s, alone = rate > 0 ? batch / rate : device.step(network, batch);
  const auto slash = row.stack.find('/');
  const ReplicaStep step{network, device, batch, alone, row.devices, of.per_node, slash == std::string::npos ? "" : row.stack.substr(slash + 1),
                         of.wires.nvlink, row.data == "real", of.wires.network, row.overlap};
  auto out = form == "tensorflow" ? price_tensorflow(step, of.stack) : form == "apex" ? price_apex(step, of.stack, of.machine) : price_horovod(step, of.stack);
  if (passes > 1) {
    out.terms.emplace_back("accumulated passes", (passes - 1) * alone);
    out.notes.push_back(fmt::format("{:.0f} passes for each step, of which the last exchanges gradients", passes));
  }
  if (step.reads && form == "horovod") out.notes.emplace_back("data is real; what reading it takes is not in the model of this stack");
  samples = batch * row.devices * passes;
  return out;
}

FillDrainStep::Recompute recompute_of(const std::string& word) {
  if (word.empty() || word == "none") return FillDrainStep::Recompute::none;
  if (word == "except_last") return FillDrainStep::Recompute::except_last;
  if (word == "full") return FillDrainStep::Recompute::full;
  contradiction("recompute", word, "none, except_last or full of a pipeline");
}

ImageSeconds price_stages(Described& of, const ImageRoofline& device, double& samples) {
  const auto& row = of.row;
  const auto& network = sequential_network(row.model, row.image);
  const double batch = row.global_batch > 0 ? row.global_batch : row.micro_batch;
  if (batch <= 0) throw Error(Code::invalid_argument, fmt::format("global_batch is empty; a pipeline needs it, in row '{}'", row.id));
  auto stages = row.stages;
  if (stages.empty() && row.pp > 1) throw Error(Code::invalid_argument, fmt::format("stages is empty; a pipeline needs it, in row '{}'", row.id));
  if (stages.empty()) stages = {static_cast<int>(network.size())};
  if (static_cast<int>(stages.size()) != row.devices) contradiction("stages", fmt::format("{} of them", stages.size()), fmt::format("as many as devices, {}", row.devices));
  const double micro_batch = row.micro_batch > 0 ? row.micro_batch : batch;
  const double measured_at = term_or(of.stack, fmt::format("images.one_device_batch.{}", row.model), micro_batch);
  samples = batch;
  if (!row.schedule.empty() && row.schedule != "gpipe") of.notes.push_back(fmt::format("schedule {} is taken for stages that are filled and drained: as long, but more is held", row.schedule));
  return price_fill_drain({network, device, stages, micro_batch, batch, recompute_of(row.recompute), row.one_device_samples_per_s, measured_at}, of.stack);
}

/// What each device holds, as its allocator counts. Of a pipeline: all micro-batches that wait for their backward, of which those that are run again keep what came in alone.
std::vector<double> memory_of(const Described& of, const Json& kernels) {
  const auto& row = of.row;
  const auto terms = image_memory_terms(kernels, of.stack, row.model);
  const double value = value_bytes(of.precision);
  if (of.stack.at("images").value("form", "") != "fill-drain") {
    auto assumed = of;
    return {image_memory({image_network(row.model, row.image), batch_of(assumed), 0, value}, terms)};
  }
  const auto& network = sequential_network(row.model, row.image);
  const double batch = row.global_batch > 0 ? row.global_batch : row.micro_batch, micro_batches = std::max(1.0, std::ceil(batch / (row.micro_batch > 0 ? row.micro_batch : batch) - 1e-9));
  const double samples = batch / micro_batches;
  const bool again = recompute_of(row.recompute) != FillDrainStep::Recompute::none;
  auto stages = row.stages;
  if (stages.empty()) stages = {static_cast<int>(network.size())};
  std::vector<double> out;
  double comes = 0;  // elements of a sample that the stage is given
  for (const auto& each : network.front().operators) comes = std::max(comes, each.read);
  auto from = network.begin();
  for (const int layers : stages) {
    const SequentialNetwork part(from, from + layers);
    from += layers;
    const auto operators = operators_of(part);
    out.push_back(image_memory({operators, again ? samples : batch, again ? batch * comes : 0, value}, terms));
    comes = part.back().leaves;
  }
  return out;
}

void require_images(Described& of) {
  const auto& row = of.row;
  const auto form = of.stack.at("images").value("form", "");
  const bool fills = form == "fill-drain";
  // What no model is of is no reason to price the row without it.
  const auto refuse = [&](bool used, const char* column, const std::string& got, const char* expected) {
    if (used) throw Error(Code::unsupported, fmt::format("{}; got {}, expected {}: no model of {} has it", column, got, expected, of.stack.value("name", "?")));
  };
  for (const auto& [column, size] : {std::pair("hidden", row.hidden), {"ffn", row.ffn}, {"layers", row.layers}, {"heads", row.heads}, {"kv_heads", row.kv_heads}, {"seq", row.seq}, {"vocab", row.vocab}})
    if (size > 0) contradiction(column, fmt::format("{}", size), "none: it is a size of a gpt");
  refuse(row.untied, "untied", "1", "0");
  if (!fills && row.memory_stage > 1) contradiction("memory_stage", fmt::format("{}", row.memory_stage), "none, or 1: there are no stages");
  if (!fills && !row.schedule.empty()) of.notes.push_back(fmt::format("schedule {} is of pipelines: left out", row.schedule));
  refuse(!row.sharded.empty(), "sharded", row.sharded, "0");
  refuse(!row.sequence_parallel.empty(), "sequence_parallel", row.sequence_parallel, "0");
  refuse(row.interleave > 1, "interleave", fmt::format("{}", row.interleave), "1");
  refuse(!fills && !row.recompute.empty() && row.recompute != "none", "recompute", row.recompute, "none");
  refuse(!row.overlap && form != "horovod" && row.devices > 1, "overlap", "0", "1");
  if (!fills && row.dp > 0 && row.dp != row.devices) contradiction("dp", fmt::format("{}", row.dp), fmt::format("devices, {}", row.devices));
  if (row.tp > 1 || (fills && row.dp > 1) || (!fills && row.is_pipeline()))
    throw Error(Code::unsupported, fmt::format("[predict] unsupported: {} with strategy '{}', dp {}, tp {}, pp {}; expected {} over {}", row.model, row.strategy, row.dp == 0 ? "not told" : std::to_string(row.dp), row.tp, row.pp,
                                               fills ? "a pipeline" : "data parallelism", of.stack.value("name", "?")));
}

}  // namespace

Estimate estimate_images(const MeasuredRow& row) {
  auto of = described(row);
  require_images(of);
  const auto kernels = find_stack("nvidia");
  auto gpu = gpu_of(of.machine, of.precision);
  // A node's wires are shared by as many as the row says.
  gpu.network *= static_cast<double>(gpu.per_node) / of.per_node;
  gpu.per_node = of.per_node;
  join(gpu, of.wires, row.devices);
  const ImageRoofline device(gpu, image_kernels(kernels, gpu), of.launch, of.precision);
  double samples = 1;
  const auto priced = of.stack.at("images").value("form", "") == "fill-drain" ? price_stages(of, device, samples) : price_replicas(of, device, samples);
  Estimate out;
  out.sigma = sigma_of(of, priced);
  const double scale = row.global_batch > 0 || (!row.prints_rate() && row.micro_batch > 0) ? 1 : 1 / samples;
  for (const auto& [name, seconds] : priced.terms) out.terms.emplace_back(name, seconds * scale);
  out.seconds = priced.total() * scale;
  const auto memory = memory_of(of, kernels);
  out.memory_bytes = *std::max_element(memory.begin(), memory.end());
  for (const double each : memory) out.memory_of_all_bytes += each * (memory.size() == 1 ? row.devices : 1);
  out.fits = out.memory_bytes + image_memory_terms(kernels, of.stack, row.model).context <= term(of.machine, "device.memory_bytes");
  out.notes = of.notes;
  out.notes.insert(out.notes.end(), of.wires.notes.begin(), of.wires.notes.end());
  out.notes.insert(out.notes.end(), priced.notes.begin(), priced.notes.end());
  if (row.one_device_samples_per_s <= 0) out.notes.emplace_back("one device was not measured: its time is from the datasheet");
  return out;
}

}  // namespace ddl
