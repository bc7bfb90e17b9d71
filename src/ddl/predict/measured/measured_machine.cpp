#include "ddl/predict/measured/measured_machine.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/core/spec.h"
#include "ddl/core/statistics.h"
#include "ddl/nn/matrix_products.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/measured/curve.h"
#include "ddl/predict/measured/history.h"
#include "ddl/strategy/partition/crossing.h"

namespace ddl {
namespace {

/// Of a normal distribution 95 % lie below so many standard deviations.
constexpr double kNormal95 = 1.645;

/// Operations a value, read or made, below which a layer takes what its values take to move.
constexpr double kPointwise = 4;

/// Of how steps vary, what comes and goes within a step where too few were measured to tell: found .4 to .7 of networks of 5 to 60 ms on virtual cores.
constexpr double kUsuallyBrief = 0.5;

/// What of the time that others had the cores may be in a measurement, as a standard deviation: on the wall all of it; of a core's own time what they did to caches and memory. Judgement.
constexpr double kOnTheWall = 1, kOnTheCore = 0.5;

/// How far a machine of which nothing was measured twice may go from what it was, as a standard deviation of logarithms; and a GPU. Judgement: on virtual cores that others share .04 to .13 were found, on no two days the same; with .08
/// 77 to 85 % of what was run minutes later on such cores lay inside of what should hold 90 (docs/own-runs.md).
constexpr double kMeasuredOnce = 0.12, kGpuMeasuredOnce = 0.04;

/// The same of a loader, which has a core to share with whoever is there. Judgement: on an H100's machine one and the same batch took 1.8 times as long in one process as in another, minutes later.
constexpr double kLoadedOnce = 0.15;

/// So many times as long as without are passes as graphs, at most, whose operations a host is what starts too slowly; or at least, whose it is not.
constexpr double kHostBound = 0.7, kDeviceBound = 0.9;

/// A step waited for its loader where more than this share of it passed before it had a batch, beyond taking one that is there, and making one takes so much of a step by itself. It took as long as the loader does beside steps, then, and taking and copying.
constexpr double kWaited = 0.1, kNearlyWaited = 0.4;

/// Kernels of a graph take no less than a least time of their own, and no less than their samples do: the sum of many lies below the line between two batches, and above the longer of what few take and the samples' part of what many do. It is taken to
/// go along as t^p = a + b n^p; p = 1 would be the line. Set by five passes of an H100 between 4 or 8 and 64 samples, which the line had 3 to 44 % too long (docs/performance.md, "On a GPU").
constexpr double kKernels = 1.5;

/// How far off a GPU's passes may be for each doubling from the nearest batch that was measured, between two: one of these five is 36 % too long still, whose tensors fit the GPU's cache where those of 64 samples do not. Judgement.
constexpr double kBetween = 0.06;

/// How far off the pace may be at which a host starts operations on a GPU, of the share of the time that the GPU waits for it, as a standard deviation of logarithms: in six visits to an H100 steps took .67 to 1.79 of what launches
/// measured minutes before came to, now less, now more (docs/performance.md, "On a GPU"). Judgement.
constexpr double kLaunching = 0.4;

/// Whether an entry says this under a key.
template <typename Value>
bool says(const Json& entry, const char* key, const Value& value) {
  const auto found = entry.find(key);
  return found != entry.end() && *found == value;
}

/// What was measured of steps whose passes were graphs of the device, or `why_not`; null where nobody tried.
Json graphs_of(const Json& entry) { return entry.value("graphs", Json()); }

std::vector<CurvePoint> ascending(std::map<std::int64_t, double> points) {
  std::vector<CurvePoint> curve;
  for (const auto& [size, value] : points) curve.push_back({static_cast<double>(size), value});
  return curve;
}

std::vector<CurvePoint> medians(const std::map<std::int64_t, std::vector<double>>& measured) {
  std::vector<CurvePoint> curve;
  for (const auto& [size, values] : measured) curve.push_back({static_cast<double>(size), median(values)});
  return curve;
}

}  // namespace

MeasuredMachine::MeasuredMachine(Json profile, MeasuredSetup setup) : profile_(std::move(profile)), setup_(std::move(setup)) {
  const auto& cpu = profile_.value("cpu", Json());
  if (cpu.is_object() && cpu.value("usable_cores", Json()).is_number()) cores_ = cpu["usable_cores"].get<int>();
  if (!knows_optimizer(setup_.optimizer)) setup_.optimizer = parse_spec(setup_.optimizer).name;
  for (int worker = 0; worker < static_cast<int>(setup_.workers.size()); ++worker)
    if (setup_.workers[at(worker)].computes) compute(worker);
}

bool MeasuredMachine::knows_optimizer(const std::string& words) const {
  for (const auto* part : {"compute", "optimizer"}) {
    const auto& all = entries(profile_, part);
    // A trace's entry of a network says nothing of updates.
    if (std::any_of(all.begin(), all.end(), [&](const Json& entry) { return says(entry, "optimizer", words) && (entry.contains("update_us") || entry.contains("parameter_bytes")); })) return true;
  }
  return false;
}

bool MeasuredMachine::is_of(const Json& entry, const MeasuredWorker& worker) {
  return entry.value("device", "cpu") == worker.kind() && (!worker.is_host() || says(entry, "threads", worker.threads));
}

std::string MeasuredMachine::probe_flags(const MeasuredWorker& worker) { return worker.is_host() ? fmt::format(" --threads {}", worker.threads) : " --device " + worker.kind(); }

int MeasuredMachine::gpu_of(int worker, StepCosts& resources) const {
  const auto& own = this->worker(worker);
  return resources.resource(fmt::format("{} of host {}", own.device, own.host));
}

int MeasuredMachine::cores_of(int host, StepCosts& resources) { return resources.resource(fmt::format("cores of host {}", host)); }

std::string MeasuredMachine::network_words(const std::string& otherwise) const {
  return (setup_.network.empty() ? otherwise : setup_.network) + (setup_.dataset.empty() ? "" : " --dataset " + setup_.dataset);
}

const MeasuredMachine::Compute& MeasuredMachine::compute(int worker) const {
  const auto& own = this->worker(worker);
  const std::pair key{own.kind(), own.is_host() ? own.threads : 0};
  const auto found = computes_.find(key);
  return found != computes_.end() ? found->second : computes_.emplace(key, read(own)).first->second;
}

MeasuredMachine::Compute MeasuredMachine::read(const MeasuredWorker& worker) const {
  Compute made;
  std::vector<double> own, all, taken;
  struct Beside {
    double waited = 0, disturbed = 0;
  };
  std::vector<Beside> own_beside, all_beside;
  Drift drift;
  struct Waited {
    std::int64_t batch;
    double alone, load, copy, wall;
  };
  std::vector<Waited> waited_for;
  std::map<std::int64_t, std::vector<double>> other_launches;
  const bool by_graphs = setup_.graphs && !worker.is_host();
  bool own_as_asked = true, all_as_asked = true;
  const auto asked = setup_.network.empty() ? Spec{} : parse_spec(setup_.network);
  const auto counts = [&](const Json& entry) { return is_of(entry, worker) && says(entry, "precision", setup_.precision) && says(entry, "kernels", setup_.kernels); };
  // A trace tells of layers alone: what it says of loaders, copies and corrections stands for nothing that was measured, and counts where nothing else was.
  bool measured = false, measured_data = false;
  for (const auto& entry : entries(profile_, "compute")) {
    if (!counts(entry) || says(entry, "source", "chakra")) continue;
    measured = true;
    measured_data = measured_data || setup_.dataset.empty() || says(entry, "dataset", setup_.dataset);
  }
  try {
    for (const auto& entry : entries(profile_, "compute")) {
      if (!counts(entry)) continue;
      const auto network = parse_spec(entry.at("network").get<std::string>());
      const bool same = !setup_.network.empty() && network.name == asked.name;
      const double corrected = entry.at("correction").get<double>();
      const bool of_trace = says(entry, "source", "chakra");
      // As usual rather than as last.
      const double passes = entry.value("pass_ms", 0.0), factor = passes > 0 ? usual(entry, "pass_ms") / passes : 1;
      if (passes > 0) drift.add(entry, "pass_ms");
      // What graphs make of a step hangs on how much of it waits for the host, so that each batch has its own: between them layers go along as they are then. What passes took that were started one by one, and how the host drifted meanwhile, is
      // not of these: layers times this are what graphs took.
      const auto graphs = by_graphs ? graphs_of(entry) : Json();
      const bool graphs_told = graphs.contains("correction");
      const double times = graphs_told ? graphs["correction"].get<double>() : by_graphs ? factor * corrected : factor;
      made.all.add(entry, times, same);
      if (same) made.own.add(entry, times);
      if (!of_trace || !measured) all.push_back(corrected);
      if (same && (!of_trace || !measured)) own.push_back(corrected);
      all_as_asked = all_as_asked && !graphs.is_null();
      if (same) own_as_asked = own_as_asked && !graphs.is_null();
      // Older profiles, and those of traces, do not say it.
      const double waited = entry.value("waited", Json()).is_number() ? entry["waited"].get<double>() : 0;
      all_beside.push_back({waited, waited * (says(entry, "clock", "core") ? kOnTheCore : kOnTheWall)});
      if (same) own_beside.push_back(all_beside.back());
      const auto& step = graphs_told ? graphs : entry.at("step");
      const bool same_data = setup_.dataset.empty() || says(entry, "dataset", setup_.dataset);
      // Another of its name, or of other samples, is on no line with it.
      const bool itself = same && same_data && network == asked;
      if (const auto beside = worker.is_host() || by_graphs ? Json() : graphs_of(entry); beside.contains("correction")) {
        const double shorter = beside["correction"].get<double>(), pass = entry.value("forward_ms", 0.0) + entry.value("backward_ms", 0.0);
        const auto batch = entry.at("batch").get<std::int64_t>();
        (same ? made.launches : other_launches)[batch].push_back(std::clamp(1 - shorter, 0.0, 1.0));
        if (itself && pass > 0) made.started[batch] = {pass * 1e-3, shorter};
      }
      if (const double pass = entry.value("forward_ms", 0.0) + entry.value("backward_ms", 0.0); itself && graphs_told && pass > 0) made.replayed[entry.at("batch").get<std::int64_t>()] = pass * times * 1e-3;
      if (same && same_data && !worker.is_host() && !(of_trace && measured_data)) made.copies[entry.at("batch").get<std::int64_t>()].push_back(step.at("copy_ms").get<double>() * 1e-3);
      taken.push_back(step.at("load_ms").get<double>() * 1e-3);
      made.loads.push_back((step.at("load_ms").get<double>() + step.at("copy_ms").get<double>()) * 1e-3);
      const double bytes = entry.value("parameter_bytes", 0.0);
      if (same && bytes > 0 && says(entry, "optimizer", setup_.optimizer)) made.updates[bytes].push_back(graphs_told ? graphs.at("update_ms").get<double>() * 1e-3 : entry.at("update_us").get<double>() * factor * 1e-6);
      if (same_data && !(of_trace && measured_data)) {
        const auto batch = entry.at("batch").get<std::int64_t>();
        made.loaders[batch].push_back(entry.at("loader_us").get<double>() * 1e-6);
        waited_for.push_back({batch, made.loaders[batch].back(), step.at("load_ms").get<double>() * 1e-3, step.at("copy_ms").get<double>() * 1e-3, step.value("wall_ms", 0.0) * 1e-3});
      }
    }
  } catch (const Json::exception& error) {
    throw Error(Code::corrupt, fmt::format("[machine] compute: {}", error.what()));
  }
  if (made.all.empty())
    throw Error(Code::not_found, fmt::format("[measured] what layers take {} in {} by kernels {} was not measured; run ddlbench probe compute --model {}{} --precision {} --kernels {}",
                                             worker.is_host() ? fmt::format("with {} threads", worker.threads) : "on " + worker.kind(), setup_.precision, setup_.kernels, network_words("NETWORK"), probe_flags(worker),
                                             setup_.precision, setup_.kernels));
  made.takes = *std::min_element(taken.begin(), taken.end());
  for (const auto& [batch, alone, load, copy, wall] : waited_for)
    if (load - made.takes > kWaited * wall && alone > kNearlyWaited * wall && wall > copy + made.takes) made.loaders[batch].push_back(wall - copy - made.takes);
  if (made.launches.empty()) made.launches = std::move(other_launches);
  const auto& known = own.empty() ? all : own;
  const double middle = median(known);
  made.correction = by_graphs ? 1 : middle;
  made.as_asked = own.empty() ? all_as_asked : own_as_asked;
  const auto& beside = own.empty() ? all_beside : own_beside;
  for (const auto& each : beside) {
    made.waited += each.waited / static_cast<double>(beside.size());
    made.disturbed += each.disturbed / static_cast<double>(beside.size());
  }
  double squares = 0;
  for (const double each : known) squares += std::pow(each / middle - 1, 2);
  made.spread = std::sqrt(squares / static_cast<double>(known.size()));
  // Of passes that are graphs nothing is remembered.
  made.drift = drift.known() && !by_graphs ? drift.ahead() : worker.is_host() ? kMeasuredOnce : kGpuMeasuredOnce;
  return made;
}

std::optional<double> MeasuredMachine::Compute::between_graphs(std::int64_t samples) const {
  const auto above = replayed.upper_bound(samples);
  if (above == replayed.begin() || above == replayed.end()) return std::nullopt;
  const auto& [few, shorter] = *std::prev(above);
  const auto& [many, longer] = *above;
  if (shorter >= longer) return 1;
  const auto between = [&](double power) {
    const auto to = [&](double value) { return std::pow(value, power); };
    const double up = (to(static_cast<double>(samples)) - to(static_cast<double>(few))) / (to(static_cast<double>(many)) - to(static_cast<double>(few)));
    return std::pow(to(shorter) + up * (to(longer) - to(shorter)), 1 / power);
  };
  return std::min(1.0, between(kKernels) / between(1));
}

double MeasuredMachine::Compute::between_started(std::int64_t samples) const {
  const auto above = started.upper_bound(samples);
  if (above == started.begin() || above == started.end()) return 1;
  const auto below = std::prev(above);
  if (below->first == samples || below->second.graphs > kHostBound) return 1;
  // What the device does; where graphs hardly make a pass shorter all of it.
  const auto device = [](const Pass& pass) { return pass.seconds * (pass.graphs > kDeviceBound ? 1 : pass.graphs); };
  const double up = static_cast<double>(samples - below->first) / static_cast<double>(above->first - below->first);
  const auto between = [&](double first, double last) { return first + up * (last - first); };
  const double line = between(below->second.seconds, above->second.seconds);
  return std::min(1.0, std::max(below->second.seconds, between(device(below->second), device(above->second))) / line);
}

const std::vector<MeasuredMachine::Word>& MeasuredMachine::words(const ModelGraph& graph) const {
  if (words_.first == &graph && words_.second.size() == graph.layers.size()) return words_.second;
  const auto learns = learning_layers(graph);
  std::vector<Word> all;
  for (std::size_t number = 0; number < graph.layers.size(); ++number) all.push_back({layer_sort(graph, number, learns), layer_family(graph, number), layer_work(graph, number, learns)});
  words_ = {&graph, std::move(all)};
  return words_.second;
}

LayerEstimate MeasuredMachine::estimate(int worker, const Word& word, const std::string& called, const std::string& network, std::int64_t samples,
                                        const std::function<bool(std::int64_t)>& alike) const {
  if (samples == 0) return {};
  const auto& known = compute(worker);
  const auto count = static_cast<double>(samples);
  auto found = known.own.of_sort(word.sort, count, alike);
  if (!found) found = known.all.of_sort(word.sort, count, alike);
  if (!found) found = known.all.of_family(word.family, word.work, count);
  if (!found && word.work.flops <= kPointwise * word.work.elements) found = by_bytes(worker, word.work, count);
  if (!found)
    throw Error(Code::not_found, fmt::format("[measured] what {} takes was not measured, nor any other {}: {}; run ddlbench probe compute --model {}{} --precision {}", called, word.family,
                                             word.sort, network_words(network), probe_flags(this->worker(worker)), setup_.precision));
  const double times = known.correction * known.bent(samples);
  found->cost.forward *= times;
  found->cost.backward_input *= times;
  found->cost.backward_weight *= times;
  if (this->worker(worker).is_host()) found->between = 0;
  found->uncertainty = std::hypot(std::hypot(found->uncertainty, known.spread, known.disturbed), kBetween * found->between);
  return *found;
}

LayerEstimate MeasuredMachine::by_bytes(int worker, const LayerWork& work, double samples) const {
  // A copy reads and writes each byte.
  const double seconds = copy(worker, static_cast<std::int64_t>(work.elements * samples * 4 / 2));
  LayerEstimate made;
  made.cost = {seconds, work.learning_input ? seconds : 0, work.trains ? seconds : 0};
  made.uncertainty = 0.5;
  made.fitted = true;
  return made;
}

LayerEstimate MeasuredMachine::estimate(int worker, const ModelGraph& graph, std::size_t number, std::int64_t samples) const {
  const auto& layer = graph.layers[number];
  // What an exchange moves is priced as the message or collective that it is.
  if (layer.kind == LayerKind::input || layer.kind == LayerKind::exchange) return {};
  std::function<bool(std::int64_t)> alike;
  // Kernels of ours compute a convolution of few samples another way than one of many.
  if (layer.kind == LayerKind::conv2d && writes_in_place(worker))
    alike = [&graph, number, way = way_of(graph, static_cast<int>(number), samples)](std::int64_t measured) { return way_of(graph, static_cast<int>(number), measured) == way; };
  return estimate(worker, words(graph)[number], fmt::format("layer {} of {}", layer.name, graph.name), graph.name, samples, alike);
}

LayerEstimate MeasuredMachine::estimate_loss(int worker, const ModelGraph& graph, std::int64_t samples) const {
  return estimate(worker, {loss_sort(graph), "loss", loss_work(graph)}, fmt::format("the loss of {}", graph.name), graph.name, samples);
}

LayerCost MeasuredMachine::layer(int worker, const ModelGraph& graph, std::size_t number, std::int64_t samples) const { return estimate(worker, graph, number, samples).cost; }

bool MeasuredMachine::writes_in_place(int worker) const {
  const auto& own = this->worker(worker);
  return setup_.kernels == "fast" && (setup_.precision == "fp32" || setup_.precision == "bf16") && own.is_host();
}

LayerCost MeasuredMachine::loss(int worker, const ModelGraph& graph, std::int64_t samples) const { return estimate_loss(worker, graph, samples).cost; }

bool MeasuredMachine::of_network(const Json& entry) const {
  return !setup_.network.empty() && parse_spec(entry.at("network").get<std::string>()).name == parse_spec(setup_.network).name;
}

bool MeasuredMachine::of_steps(const Json& entry, const std::string& strategy) const {
  return says(entry, "what", "steps") && says(entry, "precision", setup_.precision) && says(entry, "kernels", setup_.kernels) && entry.value("strategy", "") == strategy;
}

std::string MeasuredMachine::trained_so(const MeasuredWorker& worker) const {
  const auto& known = entries(profile_, "contention");
  const auto beside = computing_on(worker.host, worker.kind());
  const bool own = !setup_.strategy.empty() && std::any_of(known.begin(), known.end(), [&](const Json& entry) {
    return is_of(entry, worker) && of_steps(entry, setup_.strategy) && of_network(entry) && entry.at("workers").get<std::int64_t>() >= beside;
  });
  return own ? setup_.strategy : "";
}

double MeasuredMachine::waited(int worker) const { return compute(worker).waited; }

bool MeasuredMachine::knows_graphs(int worker) const {
  const auto& own = this->worker(worker);
  return !setup_.graphs || own.is_host() || !own.computes || compute(worker).as_asked;
}

MeasuredMachine::Beyond MeasuredMachine::beyond(int worker, const ModelGraph& graph, std::int64_t samples) const {
  double seconds = 0;
  Beyond out;
  const auto add = [&](const LayerEstimate& each) {
    const double time = each.cost.forward + each.cost.backward();
    seconds += time;
    if (each.extrapolated) out.samples += time;
    if (each.fitted) out.sorts += time;
    out.between += time * each.between;
  };
  for (std::size_t number = 0; number < graph.layers.size(); ++number) add(estimate(worker, graph, number, samples));
  add(estimate_loss(worker, graph, samples));
  if (seconds > 0) out = {out.samples / seconds, out.sorts / seconds, out.between / seconds};
  return out;
}

double MeasuredMachine::uncertainty(int worker, const ModelGraph& graph, std::int64_t samples) const {
  double seconds = 0, off = 0;
  const auto add = [&](const LayerEstimate& each) {
    const double time = each.cost.forward + each.cost.backward();
    seconds += time;
    off += time * each.uncertainty;
  };
  for (std::size_t number = 0; number < graph.layers.size(); ++number) add(estimate(worker, graph, number, samples));
  add(estimate_loss(worker, graph, samples));
  // What workers take from each other is not the same each time either.
  Drift together;
  const auto& own = setup_.workers.at(at(worker));
  const auto beside = computing_on(own.host, own.kind());
  const auto add_together = [&](const std::string& strategy) {
    for (const auto& entry : entries(profile_, "contention"))
      if (is_of(entry, own) && of_steps(entry, strategy) && of_network(entry)) together.add(entry, "slowdown");
  };
  if (beside > 1) add_together(trained_so(own));
  // Measured once it tells nothing of how it changes; others' may.
  if (beside > 1 && !together.known()) add_together({});
  const auto& known = compute(worker);
  double launching = 0;
  if (!known.launches.empty()) {
    const auto within = std::clamp(samples, known.launches.begin()->first, known.launches.rbegin()->first);
    launching = kLaunching * along(medians(known.launches), static_cast<double>(within)).value;
  }
  return std::hypot(std::hypot(seconds > 0 ? off / seconds : 0, launching), known.drift, together.ahead());
}

double MeasuredMachine::drift(int worker) const { return compute(worker).drift; }

double MeasuredMachine::loader_uncertainty(int worker) const {
  // What probe loader found has no history: it was measured once.
  if (loader_rate() != nullptr) return kLoadedOnce;
  if (loader_curve(worker).empty()) return 0;
  Drift apart;
  for (const auto& [batch, seconds] : compute(worker).loaders) apart.add(seconds);
  return apart.known() ? apart.ahead() : kLoadedOnce;
}

std::optional<double> MeasuredMachine::own_update(int worker, std::int64_t bytes) const {
  // A network of its name with several times as many is another: caches hold them, or do not.
  constexpr double kMuchTheSame = 2;
  const auto& known = compute(worker).updates;
  if (known.empty()) return std::nullopt;
  const auto far = [&](double measured) { return std::abs(std::log(measured / static_cast<double>(bytes))); };
  const auto nearest = std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) { return far(a.first) < far(b.first); });
  // One of several workers may update a part of them.
  const bool part = static_cast<double>(bytes) < nearest->first;
  if (!part && far(nearest->first) > std::log(kMuchTheSame)) return std::nullopt;
  return median(nearest->second) * static_cast<double>(bytes) / nearest->first;
}

std::vector<CurvePoint> MeasuredMachine::update_curve(int worker) const {
  std::map<std::int64_t, double> points;
  for (const auto& entry : entries(profile_, "optimizer"))
    if (is_of(entry, this->worker(worker)) && says(entry, "optimizer", setup_.optimizer)) points[entry.at("bytes").get<std::int64_t>()] = entry.at("update_us").get<double>() * 1e-6;
  return ascending(std::move(points));
}

double MeasuredMachine::update(int worker, std::int64_t bytes) const {
  if (bytes == 0) return 0;
  if (const auto own = own_update(worker, bytes)) return *own + judged(worker, bytes);
  const auto curve = update_curve(worker);
  const auto& own = this->worker(worker);
  if (curve.empty())
    throw Error(Code::not_found, fmt::format("[measured] what {} takes {} was not measured; run ddlbench probe compute --optimizer {}{}", setup_.optimizer,
                                             own.is_host() ? fmt::format("with {} threads", own.threads) : "on " + own.kind(), setup_.optimizer, probe_flags(own)));
  return along(curve, static_cast<double>(bytes)).value + judged(worker, bytes);
}

MeasuredMachine::Carried MeasuredMachine::carried(int worker, std::int64_t update_bytes, std::int64_t samples, std::int64_t copied_bytes) const {
  const auto above = [](const std::vector<CurvePoint>& curve, std::int64_t asked) { return curve.empty() ? 0 : std::max(0.0, std::log2(static_cast<double>(asked) / std::max(curve.back().size, 1e-9))); };
  const auto outside = [&](const std::vector<CurvePoint>& curve, std::int64_t asked) {
    if (const double more = above(curve, asked); more > 0 || curve.empty()) return more;
    return std::min(0.0, std::log2(static_cast<double>(asked) / std::max(curve.front().size, 1e-9)));
  };
  Carried out;
  if (update_bytes > 0 && !own_update(worker, update_bytes)) out.update = outside(update_curve(worker), update_bytes);
  if (samples > 0) out.loader = outside(loader_curve(worker), samples);
  for (const auto* what : {"copy", "download", "upload"})
    if (copied_bytes > 0) out.copy = std::max(out.copy, above(memory_curve(this->worker(worker), what), copied_bytes));
  return out;
}

std::vector<CurvePoint> MeasuredMachine::memory_curve(const MeasuredWorker& worker, const char* what) const {
  std::map<std::int64_t, double> points;
  for (const auto& entry : entries(profile_, "memory"))
    if (says(entry, "what", what) && entry.value("device", "cpu") == worker.kind()) points[entry.at("bytes").get<std::int64_t>()] = entry.at("bytes").get<double>() / entry.at("bytes_per_s").get<double>();
  return ascending(std::move(points));
}

double MeasuredMachine::copy(int worker, std::int64_t bytes) const {
  if (bytes == 0) return 0;
  const auto& own = this->worker(worker);
  const auto curve = memory_curve(own, "copy");
  if (curve.empty()) throw Error(Code::not_found, fmt::format("[measured] what copies in memory{} take was not measured; run ddlbench probe compute{}", own.is_host() ? "" : " of " + own.kind(), own.is_host() ? "" : probe_flags(own)));
  return along(curve, static_cast<double>(bytes)).value;
}

double MeasuredMachine::staged(std::int64_t bytes, const std::vector<int>& workers) const {
  const auto away = std::find_if(workers.begin(), workers.end(), [&](int each) { return !worker(each).is_host(); });
  if (away == workers.end() || bytes == 0) return 0;
  double sum = 0;
  for (const auto* way : {"download", "upload"}) {
    const auto curve = memory_curve(worker(*away), way);
    if (curve.empty()) throw Error(Code::not_found, fmt::format("[measured] what copies between {} and the host take was not measured; run ddlbench probe compute{}", worker(*away).kind(), probe_flags(worker(*away))));
    sum += along(curve, static_cast<double>(bytes)).value;
  }
  return sum;
}

double MeasuredMachine::copy_together(int worker, std::int64_t bytes, int workers) const {
  const double alone = copy(worker, bytes);
  // Each byte is read and written. Where nobody knows what caches hold it is taken to stay there.
  if (const auto cache = term_or(profile_, "device.cache_bytes", 0); cache <= 0 || 2 * static_cast<double>(bytes) * workers <= cache) return alone;
  std::map<std::int64_t, double> rates;  // by threads
  for (const auto& entry : entries(profile_, "memory"))
    if (says(entry, "what", "triad") && entry.value("device", "cpu") == "cpu") rates[entry.at("threads").get<std::int64_t>()] = entry.at("bytes_per_s").get<double>();
  if (!rates.contains(1)) return alone;
  // So many as were not measured have as much as each of fewer had, up to what more had together.
  const auto above = rates.lower_bound(workers);
  const auto& fewer = above != rates.end() && above->first == workers ? *above : *std::prev(above);
  const double each = workers * fewer.second / static_cast<double>(fewer.first);
  const double together = above == rates.end() ? fewer.second : std::min(each, std::max(above->second, fewer.second));
  return alone * std::clamp(workers * rates.at(1) / together, 1.0, static_cast<double>(std::max(1, workers)));
}

TaskCost MeasuredMachine::compressing(int worker, const std::string& compression, std::int64_t bytes, int ranks, StepCosts& resources) const {
  if (bytes == 0) return {};
  std::map<double, std::map<std::int64_t, double>> found;  // by how far off the number of ranks is
  for (const auto& entry : entries(profile_, "compression"))
    if (says(entry, "compression", compression))
      found[std::abs(std::log2(entry.at("ranks").get<double>() / ranks))][entry.at("bytes").get<std::int64_t>()] = entry.at("own_us").get<double>() * 1e-6;
  if (found.empty())
    throw Error(Code::not_found, fmt::format("[measured] what compressing gradients by {} takes was not measured; run ddlbench probe compute --compression {}", compression, compression));
  // One thread does it, beside those that compute. It is the host's memory that it works on.
  const int cores = cores_of(setup_.workers.at(at(worker)).host, resources);
  return {along(ascending(std::move(found.begin()->second)), static_cast<double>(bytes)).value + staged(bytes, {worker}), {{cores, std::min(1.0, 1.0 / cores_)}}};
}

double MeasuredMachine::load(int worker, std::int64_t samples) const {
  if (samples == 0) return 0;
  const auto& known = compute(worker);
  if (known.copies.empty()) return median(known.loads);
  // Who waits for a loader that does not keep up is the simulator's: the least is what taking a batch costs that is ready.
  return known.takes + along(medians(known.copies), static_cast<double>(samples)).value;
}

TaskCost MeasuredMachine::harness(int worker, double computes, StepCosts& resources) const {
  const auto& own = setup_.workers.at(at(worker));
  const auto known = [&](const char* term) -> std::optional<double> {
    for (const auto& entry : entries(profile_, "launch"))
      if (entry.value("device", "cpu") == own.kind() && entry.value(term, Json()).is_number()) return entry[term].get<double>();
    return std::nullopt;
  };
  const auto awake = known("harness_us"), slept = own.computes ? std::nullopt : known("emulated_us");
  if (!awake && !slept)
    throw Error(Code::not_found, fmt::format("[measured] what ddlbench itself adds to a step was not measured; run ddlbench probe compute{}", own.is_host() ? "" : probe_flags(own)));
  double micros = slept.value_or(awake.value_or(0));
  if (slept && awake) {
    // Who sleeps finds the core colder the longer it was away, up to as long as was measured; where workers outnumber cores others had it meanwhile, however short that was.
    constexpr double kMeasured = 14;  // ms, of a profile that does not say
    const auto together = std::count_if(setup_.workers.begin(), setup_.workers.end(), [&](const MeasuredWorker& each) { return each.host == own.host; });
    const double away = together > cores_ ? 1 : std::clamp(computes * 1e3 / known("emulated_step_ms").value_or(kMeasured), 0.0, 1.0);
    micros = *awake + away * (*slept - *awake);
  }
  return {micros * 1e-6, {{cores_of(own.host, resources), std::min(1.0, 1.0 / cores_)}}};
}

TaskCost MeasuredMachine::loader(int worker, std::int64_t samples, StepCosts& resources) const {
  if (samples == 0) return {};
  const int cores = cores_of(setup_.workers.at(at(worker)).host, resources);
  // What was measured of such samples before what was measured beside a network, of made-up ones.
  if (const auto* rate = loader_rate()) return {rate->at("sample_us").get<double>() * 1e-6 * static_cast<double>(samples), {{cores, std::min(1.0, 1.0 / cores_)}}};
  const auto curve = loader_curve(worker);
  if (curve.empty())
    throw Error(Code::not_found, fmt::format("[measured] what making a batch of {} takes was not measured; run ddlbench probe loader --dataset {}, or probe compute --model {}", setup_.dataset, setup_.dataset, network_words("NETWORK")));
  return {along(curve, static_cast<double>(samples)).value, {{cores, std::min(1.0, 1.0 / cores_)}}};
}

const Json* MeasuredMachine::loader_rate() const {
  for (const auto& entry : entries(profile_, "loader"))
    if (says(entry, "dataset", setup_.dataset) && says(entry, "synthetic", setup_.made_up)) return &entry;
  return nullptr;
}

std::vector<CurvePoint> MeasuredMachine::loader_curve(int worker) const {
  return loader_rate() != nullptr ? std::vector<CurvePoint>{} : medians(compute(worker).loaders);
}

Jitter MeasuredMachine::jitter(int workers) const {
  // Of workers of several sorts those whose steps vary most, whoever is named first: the others wait for them.
  Jitter most;
  std::set<std::pair<std::string, int>> sorts;
  for (const auto& each : setup_.workers)
    if (each.computes && sorts.emplace(each.kind(), each.threads).second)
      if (const auto own = jitter_of(each, workers); own.sigma > most.sigma) most = own;
  return most;
}

Jitter MeasuredMachine::jitter_of(const MeasuredWorker& own, int workers) const {
  if (workers < 2) return {};
  // Of the own network before others, at the number of workers that is nearest; the median over what was measured so.
  std::map<std::pair<bool, double>, std::vector<Jitter>> found;  // by how far off
  for (const auto& entry : entries(profile_, "jitter")) {
    const int together = entry.value("workers", 1);
    if (together < 2 || !is_of(entry, own) || !says(entry, "precision", setup_.precision) || !says(entry, "kernels", setup_.kernels)) continue;
    const bool other = !of_network(entry);
    // Of the body of the distribution: a few steps that something else held up move no median, and would make its deviation what it is not.
    const double middle = entry.at("median_ms"), high = entry.at("p95_ms");
    const double body = middle > 0 && high > middle ? std::log(high / middle) / kNormal95 : 0;
    const auto number = [&](const char* key) {
      const auto& value = entry.value(key, Json());
      return value.is_number() ? value.get<double>() : 0;
    };
    // Null of too few steps to tell; profiles of before have no such word, and there all of it lasts a step.
    const auto brief = entry.find("brief");
    found[{other, std::abs(std::log2(static_cast<double>(together) / workers))}].push_back({std::min(entry.at("sigma_log").get<double>(), body), number("correlation"), brief != entry.end() && brief->is_null() ? kUsuallyBrief : number("brief"), middle * 1e-3});
  }
  if (found.empty()) return {};
  std::vector<double> sigmas, correlations, briefs, steps;
  for (const auto& each : found.begin()->second) {
    sigmas.push_back(each.sigma);
    correlations.push_back(std::clamp(each.correlation, 0.0, 1.0));
    briefs.push_back(std::clamp(each.brief, 0.0, 1.0));
    steps.push_back(each.of_seconds);
  }
  return {median(sigmas), median(correlations), median(briefs), median(steps)};
}

std::int64_t MeasuredMachine::computing_on(int host, const std::string& kind) const {
  return std::count_if(setup_.workers.begin(), setup_.workers.end(), [&](const MeasuredWorker& each) { return each.computes && each.host == host && each.kind() == kind; });
}

std::int64_t MeasuredMachine::computing_beside(int worker) const { return computing_on(this->worker(worker).host, this->worker(worker).kind()); }

std::optional<double> MeasuredMachine::memory_share(int worker, const std::function<bool(const Json&)>& counts) const {
  const auto& own = setup_.workers.at(at(worker));
  const auto beside = computing_on(own.host, own.kind());
  if (beside < 2) return std::nullopt;
  std::map<std::int64_t, std::vector<double>> known;  // by workers
  for (const auto& entry : entries(profile_, "contention"))
    if (is_of(entry, own) && counts(entry)) known[entry.at("workers").get<std::int64_t>()].push_back(usual(entry, "slowdown"));
  if (known.empty()) return std::nullopt;
  // Nobody slows a worker that is alone. Between numbers that were measured along the line; more than any lose as much more for each.
  known[1] = {1};
  const auto curve = medians(known);
  // Who waits for a core meanwhile slows nobody.
  const double at_once = own.is_host() ? std::max(1.0, static_cast<double>(cores_) / own.threads) : static_cast<double>(beside);
  const double n = std::min(static_cast<double>(beside), at_once), most = curve.back().size;
  const double slowdown = n <= most ? along(curve, n).value : 1 + (curve.back().value - 1) * (n - 1) / (most - 1);
  return std::clamp(slowdown / n, 1e-6, 1.0);
}

int MeasuredMachine::memory_of(int worker, StepCosts& resources) const {
  const auto& own = this->worker(worker);
  return resources.resource(fmt::format("{} of host {}", own.is_host() ? "memory" : "what GPUs share", own.host));
}

std::vector<Demand> MeasuredMachine::computing(int worker, StepCosts& resources) const {
  const auto& own = setup_.workers.at(at(worker));
  // Who queues work for a GPU has its core when it wants one: it mostly waits.
  std::vector<Demand> demands{own.is_host() ? Demand{cores_of(own.host, resources), std::min(1.0, static_cast<double>(own.threads) / cores_)} : Demand{gpu_of(worker, resources), 1}};
  const auto strategy = trained_so(own);
  // Of all networks, unless the own one was measured.
  auto share = memory_share(worker, [&](const Json& entry) { return of_steps(entry, strategy) && of_network(entry); });
  if (!share) share = memory_share(worker, [&](const Json& entry) { return of_steps(entry, {}); });
  if (share) demands.push_back({memory_of(worker, resources), *share / own.slow});
  // What computing and collectives were found to lose to each other though cores were idle: all who compute fill it, at the pace that they have alone.
  if (own.is_host() && own.computes && beside_collective(own.threads).lost > 0) demands.push_back({room_of(own.host, resources), 1.0 / static_cast<double>(std::max<std::int64_t>(1, computing_beside(worker)))});
  return demands;
}

std::vector<Demand> MeasuredMachine::updating(int worker, std::int64_t held, StepCosts& resources) const {
  auto demands = computing(worker, resources);
  // Parameters, gradients and what an optimizer keeps of them: where the caches do not hold them, an update is a pass over memory.
  constexpr double kPasses = 3;
  const auto cache = term_or(profile_, "device.cache_bytes", 0);
  const auto beside = computing_beside(worker);
  if (!this->worker(worker).is_host() || cache <= 0 || kPasses * static_cast<double>(held) * static_cast<double>(beside) <= cache) return demands;
  const auto share = memory_share(worker, [](const Json& entry) { return says(entry, "what", "workers") && says(entry, "load", "memory"); });
  if (!share) return demands;
  const int memory = memory_of(worker, resources);
  const auto place = std::find_if(demands.begin(), demands.end(), [&](const Demand& demand) { return demand.resource == memory; });
  const double taken = *share / setup_.workers.at(at(worker)).slow;
  if (place == demands.end()) demands.push_back({memory, taken});
  else place->share = std::max(place->share, taken);
  return demands;
}

}  // namespace ddl
