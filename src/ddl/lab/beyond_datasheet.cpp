#include "ddl/lab/beyond_datasheet.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/ranges.h>

#include "ddl/lab/beyond_exchanges.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/datasheet/machine_source.h"
#include "ddl/predict/step/compressed.h"
#include "ddl/train/emulation/machine_costs.h"
#include "ddl/train/job_passes.h"

namespace ddl {
namespace {

/// Of the logarithm, of what no measured step had: a device, a precision, each doubling of samples of a worker or of a sample's size, layers of a sort, layers split over nodes, compressed gradients. Judgement, beside the .35 of all.
constexpr double kOtherDevice = 0.10, kOtherPrecision = 0.10, kSamplesDoubling = 0.04, kOtherLayers = 0.20, kTensorOverNodes = 0.10, kOtherCompression = 0.10;

/// What those steps had: devices, and in which precisions on each of them convolutional networks ran, and others; both sorts of 16 bits count as one. A V100 is a V100, however much memory it has.
struct Held {
  std::set<std::string> convolutions, others;
};
const std::map<std::string, Held> kHeld{{"a100", {{}, {"16 bits", "fp32"}}}, {"gh200", {{}, {"tf32"}}}, {"h100", {{"16 bits", "fp32"}, {"16 bits", "fp32"}}}, {"k80", {{"fp32"}, {}}},
                                        {"p100", {{"fp32"}, {}}},            {"p40", {{"fp32"}, {}}},   {"v100", {{"fp32"}, {"16 bits", "fp32"}}}};
/// Samples of a worker's pass: of convolutional networks, and of others.
constexpr std::pair<double, double> kSamplesOfConvolutions{14, 512}, kSamples{1, 64};
constexpr double kPlaces = 4096, kPixels = 299;  // of the longest sequences, and on a side of the largest images
constexpr std::pair<double, double> kWidths{768, 25600};  // of what attention sees of a place
constexpr double kWords = 256000;  // of the largest vocabulary

/// What a step of a GPU takes besides computing and exchanging, which datasheets know nothing of: an upload, an end that the host waits for. An H100's LeNet took .15 ms for these and its update (docs/validation.md, "One H100").
constexpr double kBesides = 0.15e-3;
/// The share of a step above which that is told.
constexpr double kBesidesTold = 0.05;

enum class Of { job, way };

/// `of`: whether all ways of a job have it alike.
void unheld(Beyond& out, double widens, const std::string& words, Of of = Of::job) {
  out.unheld = std::hypot(out.unheld, widens);
  if (of == Of::way) out.unheld_apart = std::hypot(out.unheld_apart, widens);
  out.words.push_back(words + ": the interval is wider for it");
}

/// Steps that classes of processors were held against (bench/processors.py): one, in fp32, on one of its cores.
constexpr const char* kProcessor = "cpu-avx512";
constexpr std::pair<double, double> kSamplesOnProcessors{1, 128};

/// The layer whose value this is, however it came to lie on the parts of a split network.
int whole_of(const ModelGraph& part, int layer) {
  while (part.layers[static_cast<std::size_t>(layer)].exchange) layer = part.layers[static_cast<std::size_t>(layer)].inputs.at(0);
  return layer;
}

/// What that layer is where no measured step had its sort: steps were of convolutional networks as ResNets, Inception, VGG-16, AlexNet and LeNet are, and of GPTs and BERT; on processors of MobileNetV2, too. On GPUs Azure's rows of
/// MobileNetV2 held nothing: a K80's are beyond what its memory carries (docs/validation.md).
std::string unheld_sort(const ModelGraph& part, const Layer& layer, bool processor) {
  if (layer.kind == LayerKind::lstm) return "an LSTM";
  if (layer.kind == LayerKind::conv2d && layer.attributes.groups > 1 && !processor) return "convolutions in groups";
  if (layer.kind == LayerKind::attention && whole_of(part, layer.inputs.at(0)) != whole_of(part, layer.inputs.at(1))) return "attention to another sequence";
  return "";
}

/// What attention sees of a place, at most and at least, and the vectors of the largest table of them; 0 where there is none.
struct Widths {
  double most = 0, least = 0, words = 0;
};
Widths widths(const ModelGraph& part) {
  Widths out;
  for (const auto& layer : part.layers) {
    if (layer.kind == LayerKind::embedding && !layer.parameters.empty() && !layer.parameters.front().shape.empty()) out.words = std::max(out.words, static_cast<double>(layer.parameters.front().shape.front()));
    if (layer.kind != LayerKind::attention) continue;
    const auto width = static_cast<double>(part.layers[static_cast<std::size_t>(layer.inputs.at(0))].shape.back());
    out.most = std::max(out.most, width);
    out.least = out.least == 0 ? width : std::min(out.least, width);
  }
  return out;
}

/// The places of the longest sequence that attention sees, or an LSTM goes through; and pixels on the longer side of the largest image.
std::pair<double, double> sample_sizes(const ModelGraph& part) {
  double places = 0, pixels = 0;
  for (const auto& layer : part.layers) {
    // What attention sees is there as a whole, whoever has the places that ask.
    if (layer.kind == LayerKind::attention) places = std::max(places, static_cast<double>(part.layers[static_cast<std::size_t>(layer.inputs.at(1))].shape.at(0)));
    if (layer.kind == LayerKind::lstm) places = std::max(places, static_cast<double>(layer.shape.at(0)));
    if (layer.kind == LayerKind::input && layer.shape.size() == 3) pixels = std::max(pixels, static_cast<double>(std::max(layer.shape[1], layer.shape[2])));
  }
  return {places, pixels};
}

/// Of the network, whatever the device.
void beyond_network(const ModelGraph& part, bool processor, Beyond& out) {
  std::set<std::string> sorts;
  for (const auto& layer : part.layers) sorts.insert(unheld_sort(part, layer, processor));
  sorts.erase("");
  if (!sorts.empty()) unheld(out, kOtherLayers, fmt::format("no measured step that this was held against had {}", fmt::join(sorts, ", or ")));
  const auto [places, pixels] = sample_sizes(part);
  const auto larger = [&](double asked, double held, const std::string& what) {
    if (const double doublings = doublings_over(asked, held); doublings > 0) unheld(out, kSamplesDoubling * doublings, fmt::format("{} {} are more than any measured step had that this was held against, {}", asked, what, held));
  };
  larger(places, kPlaces, "places of a sequence");
  larger(pixels, kPixels, "pixels on a side of an image");
  const auto wide = widths(part);
  larger(wide.most, kWidths.second, "values of a place");
  larger(wide.words, kWords, "words of a vocabulary");
  if (wide.least > 0 && wide.least < kWidths.first)
    unheld(out, kSamplesDoubling * std::log2(kWidths.first / wide.least), fmt::format("{} values of a place are fewer than any measured step had that this was held against, {}", wide.least, kWidths.first));
  if (std::none_of(part.layers.begin(), part.layers.end(), [](const Layer& layer) { return layer.kind == LayerKind::conv2d || layer.kind == LayerKind::attention || layer.kind == LayerKind::lstm; }))
    unheld(out, kOtherLayers, "no measured step that this was held against was of a network without convolutions and attention");
}

void beyond_held(const Job& job, const Plan& plan, const ModelGraph& part, const Json& machine, const StepPrediction& step, Beyond& out) {
  const auto told = machine.value("name", std::string("this device"));
  const auto name = told.substr(0, told.find('['));  // joined otherwise it is the same device
  const bool processor = machine.value("device", Json::object()).value("kind", "gpu") == "cpu";
  if (processor) unheld(out, kOtherDevice, name == kProcessor && job.precision == "fp32" ? fmt::format("steps of one core alone, not of a whole {}, were held against its profile", name) : fmt::format("no measured step of {} in {} was held against its profile", name, job.precision));
  const auto held = kHeld.find(name.substr(0, name.find('-')));
  const auto precision = job.precision == "bf16" || job.precision == "fp16" ? std::string("16 bits") : job.precision;
  if (!processor && held == kHeld.end()) unheld(out, kOtherDevice, fmt::format("no measured step of {} was held against its profile", name));
  const bool known = std::any_of(kHeld.begin(), kHeld.end(), [&](const auto& each) { return each.second.convolutions.contains(precision) || each.second.others.contains(precision); });
  if (!processor && !known) unheld(out, kOtherPrecision, fmt::format("no measured step was in {}", job.precision));
  else if (!processor && held != kHeld.end() && !(convolves(part) ? held->second.convolutions : held->second.others).contains(precision))
    unheld(out, kOtherPrecision, fmt::format("no measured step of {} in {} was held against its profile that was of a network {} convolutions", name, job.precision, convolves(part) ? "with" : "without"));
  if (const double besides = kBesides / std::max(step.seconds, 1e-9); !processor && besides > kBesidesTold)
    unheld(out, std::log1p(besides), fmt::format("a step of {:.2g} ms has no upload of a batch in it, and nobody who waits for its end, which took about {} ms on an H100", step.seconds * 1e3, kBesides * 1e3), Of::way);
  const auto samples = static_cast<double>(largest_pass(job, plan));
  const auto [least, most] = processor ? kSamplesOnProcessors : convolves(part) ? kSamplesOfConvolutions : kSamples;
  if (const double doublings = std::abs(std::log2(samples / std::clamp(samples, least, most))); doublings > 0)
    unheld(out, kSamplesDoubling * doublings, fmt::format("{} samples in a pass are {} than in any measured step that this was held against, {}", samples, samples < least ? "fewer" : "more", samples < least ? least : most), Of::way);
}

/// Whether several messages or collectives may be on their way in one node at once, of devices that one switch or bus joins: of several devices each is priced as if alone there.
bool shares_node(const Plan& plan, const Json& machine, int near) {
  const auto node = machine.value("node", Json::object());
  if (!node.value("link", std::string()).starts_with("pcie")) return false;
  const auto here = std::min(static_cast<std::size_t>(plan.workers()), static_cast<std::size_t>(near));
  const bool messages = std::any_of(plan.roles.begin(), plan.roles.end(), [](const Role& role) { return std::any_of(role.tasks.begin(), role.tasks.end(), [](const Task& task) { return task.kind == TaskKind::send; }); });
  const bool groups = std::any_of(plan.groups.begin(), plan.groups.end(), [&](const auto& group) {
    const auto among = members(plan.mesh, group, 0).size();
    return among > 1 && 2 * among <= here;
  });
  return here > 2 && (messages || groups);
}

}  // namespace

Beyond beyond_datasheet(const Job& job, const Plan& plan, const ModelGraph& part, const Json& machine, int per_node, const StepPrediction& step) {
  Beyond out;
  const int near = per_node > 0 ? per_node : static_cast<int>(term_or(machine, "node.devices", 8));
  const auto workers = static_cast<std::size_t>(plan.workers());
  // Which kind of device, and how many threads, is of workers here; a datasheet is of whole devices. Of a GPU that is plain.
  const auto device = machine.value("device", Json::object());
  if (device.value("kind", "") == "cpu" && !job.emulates())
    out.words.push_back(fmt::format("each worker is taken for a whole {}, all of its cores: threads of workers are left out", machine.value("name", std::string("device"))));
  const int most = convolves(part) ? kDatasheetDevicesOfConvolutions : kDatasheetDevices;
  out.devices = doublings_over(workers, most);
  if (out.devices > 0) out.words.push_back(fmt::format("{} devices are more than any whose measured steps this was held against, {}: the interval is wider for it", workers, most));
  beyond_held(job, plan, part, machine, step, out);
  beyond_network(part, device.value("kind", "gpu") == "cpu", out);
  if (workers < 2) return out;
  for (const auto& words : machine.value("node", Json::object()).value("replaced", Json::array())) out.words.push_back(words.get<std::string>() + ": the interval is wider for it"), out.wires = true;
  if (shares_node(plan, machine, near)) {
    out.node = true;
    out.words.push_back(fmt::format("messages or collectives of several devices at once within a node have its {} each for themselves here: the interval is wider for it", machine["node"].value("link", std::string("wires"))));
  }
  if (!compression_of(job.strategy).empty())
    unheld(out, kOtherCompression, fmt::format("what {} takes on a {} was not measured: counted in passes over its memory", compression_of(job.strategy), device.value("kind", "") == "cpu" ? "processor of that class" : "GPU"), Of::way);
  if (!plan.split.empty() && plan.parts() > near)
    unheld(out, kTensorOverNodes, fmt::format("no measured step had layers split over {} devices, {} of which share a node", plan.parts(), near), Of::way);
  const auto library = machine.value("node", Json::object()).value("library", std::string("nccl"));
  if (const auto collective = collective_of(job); collective != "auto") out.words.push_back(fmt::format("collectives as {} does them there: collective={} is of transports here, and left out", library, collective));
  if (!job.fabric.empty()) out.words.push_back(fmt::format("wires as the profile has them: fabric {} is of transports here, and left out (NAME[link_inter=…] says what joins nodes)", job.fabric));
  return out;
}

}  // namespace ddl
