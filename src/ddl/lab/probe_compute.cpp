#include "ddl/lab/probe_compute.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <thread>

#include "ddl/collective/compression.h"
#include "ddl/core/error.h"
#include "ddl/core/statistics.h"
#include "ddl/core/text.h"
#include "ddl/data/dataset.h"
#include "ddl/lab/build_info.h"
#include "ddl/lab/company_figures.h"
#include "ddl/lab/config.h"
#include "ddl/lab/probe_apart.h"
#include "ddl/lab/record.h"
#include "ddl/measure/clock.h"
#include "ddl/measure/environment.h"
#include "ddl/measure/gpus.h"
#include "ddl/nn/model.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/measured/history.h"
#include "ddl/probe/compression.h"
#include "ddl/strategy/partition/crossing.h"
#include "ddl/strategy/partition/layer_sort.h"
#include "ddl/train/device.h"
#include "ddl/train/measure_layers.h"
#include "ddl/train/measure_machine.h"
#include "ddl/train/measure_passes.h"
#include "ddl/transport/builtin.h"

namespace ddl {
namespace {

constexpr Seconds kPatience{600};
constexpr std::int64_t kSamples = 4096;  ///< of the made-up data sets

/// Six digits say more than was measured.
double rounded(double value) { return std::isfinite(value) && value != 0 ? std::stod(fmt::format("{:.6g}", value)) : 0; }
Json micros(double seconds) { return rounded(seconds * 1e6); }
Json millis(double seconds) { return rounded(seconds * 1e3); }

/// One worker's training of a network.
struct Case {
  ProbedNetwork network;
  std::string precision;
  std::int64_t batch;
  Experiment experiment;
};

Case make_case(const ComputeProbe& probe, const ProbedNetwork& network, const std::string& precision, std::int64_t batch) {
  Settings settings;
  const auto put = [&](const char* key, const std::string& value) { set(settings, key, value, fmt::format("probe of {}", network.model)); };
  put("model", network.model);
  put("dataset", network.dataset);
  put("synthetic", "true");
  put("train_samples", std::to_string(std::max(kSamples, 4 * batch)));
  put("test_samples", "64");
  put("evaluate", "false");
  put("strategy", "single");
  put("workers", fmt::format("{}[threads={}]", probe.device, probe.threads));
  put("batch", std::to_string(batch));
  put("precision", precision);
  put("kernels", probe.kernels);
  put("optimizer", probe.optimizers.front());
  // Of what is made up, only times are looked at: it need not converge, but must not diverge.
  put("learning_rate", "1e-6");
  put("store", "none");
  Case made{network, precision, batch, resolve(settings)};
  check_experiment(made.experiment, 0);
  return made;
}

/// What is the same of entries that take each other's place.
Json where(const ComputeProbe& probe, const Case& each) {
  return {{"device", probe.device}, {"threads", probe.threads}, {"precision", each.precision}, {"kernels", probe.kernels}, {"network", each.network.model},
          {"dataset", each.network.dataset}, {"batch", each.batch}};
}

struct SortTimes {
  std::vector<double> forward, backward;
  double input_share = 0;
  std::string family;
  LayerWork work;
};

Json sort_json(const std::string& sort, const SortTimes& times) {
  const double forward = mean(times.forward), backward = mean(times.backward);
  double squares = 0;
  for (std::size_t i = 0; i < times.forward.size(); ++i) squares += std::pow(times.forward[i] + times.backward[i] - forward - backward, 2);
  const double deviation = std::sqrt(squares / static_cast<double>(times.forward.size()));
  const auto& work = times.work;
  return {{"sort", sort}, {"family", times.family}, {"count", times.forward.size()}, {"forward_us", micros(forward)},
          {"backward_input_us", work.learning_input ? micros(backward * times.input_share) : Json()},
          {"backward_weight_us", work.trains ? micros(backward * (1 - times.input_share)) : Json()},
          {"spread", rounded(forward + backward > 0 ? deviation / (forward + backward) : 0)},
          {"flops", work.flops}, {"elements", work.elements}, {"parameters", work.parameters}};
}

/// Times by sort of layer, in the order in which the network has them.
class Sorts {
 public:
  void add(const std::string& sort, double forward, double backward, double share, const std::string& family, const LayerWork& work) {
    auto [place, fresh] = sorts_.try_emplace(sort, SortTimes{{}, {}, share, family, work});
    if (fresh) order_.push_back(sort);
    place->second.forward.push_back(forward);
    place->second.backward.push_back(backward);
  }
  void add(const ModelGraph& graph, const std::vector<double>& forward, const std::vector<double>& backward, const std::vector<double>& shares) {
    const auto learns = learning_layers(graph);
    for (std::size_t layer = 0; layer < graph.layers.size(); ++layer)
      if (graph.layers[layer].kind != LayerKind::input && graph.layers[layer].kind != LayerKind::exchange)
        add(layer_sort(graph, layer, learns), forward[layer], backward[layer], shares[layer], layer_family(graph, layer), layer_work(graph, layer, learns));
  }
  /// But for those that the other has.
  Json json(const Sorts& without = {}) const {
    Json layers = Json::array();
    for (const auto& sort : order_)
      if (!without.sorts_.contains(sort)) layers.push_back(sort_json(sort, sorts_.at(sort)));
    return layers;
  }

 private:
  std::vector<std::string> order_;
  std::map<std::string, SortTimes> sorts_;
};

double total(const std::vector<double>& values) {
  double sum = 0;
  for (const double each : values) sum += each;
  return sum;
}

Json parts_json(const Case& each, const std::vector<ProbedPart>& parts, const SampleShape& shape, const PassTimes& times, const Sorts& whole, Seconds budget) {
  Json all = Json::array();
  for (const auto& [strategy, workers] : parts) {
    Json entry{{"strategy", to_string(strategy)}, {"workers", workers}};
    try {
      auto job = each.experiment.job;
      job.strategy = strategy;
      job.workers.assign(static_cast<std::size_t>(workers), job.workers.front());
      const auto found = measure_part(job, shape, times.forward, times.backward, budget);
      Sorts sorts;
      sorts.add(found.graph, found.forward, found.backward, found.input_shares);
      entry["pass_ms"] = millis(total(found.forward) + total(found.backward) + times.loss_forward + times.loss_backward);
      entry["layers"] = sorts.json(whole);
    } catch (const Error& error) {
      entry["failed"] = error.what();
    }
    all.push_back(std::move(entry));
  }
  return all;
}

template <typename Times>
double median_of(const std::vector<Times>& all, double Times::*part) {
  std::vector<double> values;
  for (const auto& each : all) values.push_back(each.*part);
  return median(values);
}

Json steps_json(const std::vector<StepTimes>& steps) {
  Json told{{"steps", steps.size()}, {"wall_ms", millis(median_of(steps, &StepTimes::wall))}, {"whole_ms", millis(median_of(steps, &StepTimes::whole))}};
  for (const auto& [name, part] : {std::pair{"load_ms", &StepTimes::load}, {"copy_ms", &StepTimes::copy}, {"forward_ms", &StepTimes::forward}, {"backward_ms", &StepTimes::backward},
                                   {"update_ms", &StepTimes::update}})
    told[name] = millis(median_of(steps, part));
  return told;
}

/// What steps take whose passes are graphs of the device, and how many times as long their passes are as layers that are started one by one; nothing on processors.
Json graphs_json(TrainingPasses& passes, const PassTimes& one_by_one, Seconds budget) {
  if (passes.device().is_host()) return nullptr;
  const auto steps = run_by_graphs(passes, budget);
  if (steps.empty()) return {{"why_not", passes.why_no_graphs()}};
  auto told = steps_json(steps);
  const double layers = total(one_by_one.forward) + one_by_one.loss_forward + total(one_by_one.backward) + one_by_one.loss_backward;
  told["correction"] = rounded((median_of(steps, &StepTimes::forward) + median_of(steps, &StepTimes::backward)) / layers);
  return told;
}

/// In a process of its own.
Json measure_case(const Case& each, const std::vector<ProbedPart>& parts, Seconds budget) {
  const auto data = open_data(each.experiment);
  const auto shares = shares_of_job(each.experiment.job, data.train->shape(), {budget.value / 2});
  TrainingPasses passes(each.experiment.job, *data.train);
  const auto all = run_by_turns(passes, budget);
  const auto times = typical(all.passes);
  Sorts layers;
  layers.add(passes.graph(), times.forward, times.backward, shares);
  layers.add(loss_sort(passes.graph()), times.loss_forward, times.loss_backward, 1, "loss", loss_work(passes.graph()));
  double waited = 0, wall = 0;
  for (const auto& pass : all.passes) {
    waited += pass.waited;
    wall += pass.wall;
  }
  auto graphs = graphs_json(passes, times, budget);
  return {{"clock", passes.clock()}, {"waited", rounded(waited / wall)}, {"passes", all.passes.size()}, {"pass_ms", millis(times.whole)},
          {"forward_ms", millis(total(times.forward) + times.loss_forward)}, {"backward_ms", millis(total(times.backward) + times.loss_backward)}, {"copy_us", micros(times.copy)},
          {"update_us", micros(times.update)}, {"parameter_bytes", passes.parameter_bytes()}, {"loader_us", micros(passes.loader_seconds())}, {"step", steps_json(all.steps)},
          {"correction", rounded(median(all.ratios))}, {"graphs", std::move(graphs)}, {"layers", layers.json()},
          {"parts", parts_json(each, parts, data.train->shape(), times, layers, budget)}};
}

Json distribution_json(const std::vector<double>& times) {
  return {{"steps", times.size()}, {"median_ms", millis(median(times))}, {"sigma_log", rounded(sigma_of_log(times))}, {"p95_ms", millis(quantile(times, 0.95))}, {"p99_ms", millis(quantile(times, 0.99))}};
}

std::vector<CompanyTimes> company_of(const std::vector<Json>& answers, const char* part = nullptr) {
  std::vector<CompanyTimes> workers;
  for (const auto& answer : answers) workers.push_back(company_times(part != nullptr ? answer.at(part) : answer));
  return workers;
}

class Probing {
 public:
  Probing(const ComputeProbe& probe, const RunEvents& events) : probe_(probe), events_(events) {
    for (const auto& network : probe.networks)
      for (const auto& precision : probe.precisions)
        for (const auto batch : probe.batches) cases_.push_back(make_case(probe, network, precision, batch));
    document_ = {{"schema", "ddlbench.probe/1"}, {"kind", "compute"}, {"state", "ok"}, {"started", utc_now()}, {"environment", capture_environment()}};
    for (const char* part : {"compute", "optimizer", "memory", "compression", "contention", "jitter", "launch", "failed"}) document_[part] = Json::array();
    cores_ = document_["environment"].at("cpu").at("usable_cores").is_number() ? document_["environment"]["cpu"]["usable_cores"].get<int>()
                                                                                : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    const int most = is_host() ? cores_ / probe.threads : static_cast<int>(known_gpus().all.size());
    for (int workers = 2; workers <= most; workers *= 2) companies_.push_back(workers);
    total_ = static_cast<std::int64_t>(cases_.size()) + 6 + static_cast<std::int64_t>(companies_.size() * (1 + probe.networks.size() * probe.precisions.size() * (is_host() ? 5 + 2 * probe.parts.size() : 1)));
  }

  Json run() {
    for (const auto& each : cases_) whole_case(each);
    launch();
    optimizers();
    memory();
    compression();
    contention();
    finish("compute");
    return std::move(document_);
  }

  Json run_memory() {
    document_["kind"] = "memory";
    total_ = 1 + static_cast<std::int64_t>(companies_.size());
    memory();
    for (const int workers : companies_) loads(workers);
    finish("memory");
    return std::move(document_);
  }

 private:
  bool over() const { return document_["state"] == "interrupted"; }
  bool is_host() const { return probe_.device == "cpu"; }
  /// Of one of several workers at once: each has a GPU of its own.
  std::string device_name(int rank) const { return is_host() ? probe_.device : fmt::format("{}:{}", probe_.device, rank); }
  std::unique_ptr<Device> device_of(int rank) const { return make_device(device_name(rank)); }

  void tell(const std::string& what) {
    Progress progress;
    progress.name = what;
    progress.step = ++told_;
    progress.steps = std::max(total_, told_);
    progress.loss = std::numeric_limits<double>::quiet_NaN();
    if (events_.progress) events_.progress(progress);
  }

  /// Answers of all, or none: then the document says why.
  std::vector<Json> apart(const std::string& what, int ranks, const std::function<Json(Control&, int)>& body) {
    if (over()) return {};
    tell(what);
    auto found = find_apart(ranks, body, kPatience);
    if (found.interrupted) document_["state"] = "interrupted";
    if (found.interrupted) return {};
    if (!found.failed.empty()) {
      failed(what, found.failed);
      return {};
    }
    return std::move(found.answers);
  }

  void failed(const std::string& what, const std::string& reason) {
    document_["failed"].push_back({{"what", what}, {"reason", reason}});
    document_["state"] = "partial";
  }

  /// Of a run that is over for another reason than that everything is.
  void failed_run(const std::string& what, const Json& record) {
    if (!over()) failed(what, record.at("reason").is_string() ? record.at("reason").get<std::string>() : "no reason");
  }

  static std::string words(const Case& each) { return fmt::format("{} on {}, batch {}, {}", each.network.model, each.network.dataset, each.batch, each.precision); }

  void whole_case(const Case& each) {
    const auto answers = apart(words(each), 1, [&](Control&, int) { return measure_case(each, probe_.parts, probe_.budget); });
    if (answers.empty()) return;
    auto entry = where(probe_, each);
    entry["measured"] = utc_now();
    entry["optimizer"] = probe_.optimizers.front();
    entry.update(answers.front());
    for (auto& part : entry["parts"])
      if (part.contains("failed")) failed(fmt::format("{}, parts of {} with {} workers", words(each), part["strategy"].get<std::string>(), part["workers"].get<int>()), part["failed"].get<std::string>());
    auto& parts = entry["parts"].get_ref<Json::array_t&>();
    std::erase_if(parts, [](const Json& part) { return part.contains("failed"); });
    document_["compute"].push_back(std::move(entry));
  }

  Json trained(const Experiment& experiment) {
    auto record = run_experiment(experiment, {});
    if (record.at("state") == "interrupted") document_["state"] = "interrupted";
    return record;
  }

  /// Two causes of a rank's ledger, ms, as its usual step has them: what something held up moves means.
  static double usually(const Json& record, const Json& rank, const char* one, const char* other) {
    const auto& ledger = rank.at("ledger_ms");
    const double wall = rank.at("wall_ms"), scale = wall > 0 ? record.at("step_ms").at("median").get<double>() / wall : 1;
    return (ledger.at(one).get<double>() + ledger.at(other).get<double>()) * scale;
  }

  struct Bookkeeping {
    Json us, step_ms;  ///< null where it was not measured
  };
  /// What no task of a step accounts for: of a run of its own, of a network that computes next to nothing. `device`: cpu, or an emulated one, `slow` times as slow as its profile: such a worker sleeps through most of a step, and
  /// what it does then goes slower for it.
  Bookkeeping harness(const std::string& device, double slow, int steps) {
    if (over()) return {};
    tell("harness");
    auto experiment = make_case(probe_, {"mlp[hidden=1,layers=1]", "fashion-mnist"}, "fp32", 1).experiment;
    experiment.job.workers.front().threads = 1;
    experiment.job.workers.front().device = device;
    experiment.job.workers.front().slow = slow;
    experiment.job.steps = steps;
    const auto record = trained(experiment);
    if (record.at("state") != "ok") {
      failed_run("harness", record);
      return {};
    }
    const auto& rank = record.at("ranks").at(0);
    return {micros(usually(record, rank, "harness", "residual") * 1e-3), rounded(record.at("step_ms").at("median").get<double>())};
  }

  void launch() {
    const auto answers = apart("launch", 1, [&](Control&, int rank) -> Json {
      const auto device = device_of(rank);
      const auto found = measure_launch(*device, probe_.budget);
      Json entry{{"forward_us", micros(found.forward)}, {"backward_us", micros(found.backward)}, {"queue_us", micros(found.queue)}};
      if (!device->is_host()) {
        const auto words = device->describe();
        for (const auto* key : {"product", "memory_bytes"})
          if (words.contains(key)) entry[key] = words[key];
      }
      return entry;
    });
    if (answers.empty()) return;
    Json entry{{"device", probe_.device}, {"measured", utc_now()}};
    entry.update(answers.front());
    entry["harness_us"] = harness(device_name(0), 1, 300).us;
    if (is_host()) {
      // Of steps so long that a core has forgotten all that a worker left there.
      const auto slept = harness("emulated:v100", 100, 100);
      entry["emulated_us"] = slept.us;
      entry["emulated_step_ms"] = slept.step_ms;
    }
    document_["launch"].push_back(std::move(entry));
  }

  void optimizers() {
    constexpr std::int64_t kSizes[] = {std::int64_t{64} << 10, std::int64_t{1} << 20, std::int64_t{16} << 20, std::int64_t{64} << 20};
    const auto answers = apart("optimizers", 1, [&](Control&, int rank) {
      const auto device = device_of(rank);
      Json all = Json::array();
      for (const auto& text : probe_.optimizers)
        for (const auto bytes : kSizes)
          all.push_back({{"device", probe_.device}, {"threads", probe_.threads}, {"optimizer", text}, {"bytes", bytes}, {"measured", utc_now()},
                         {"update_us", micros(measure_update(parse_spec(text), bytes, *device, probe_.threads, {probe_.budget.value / 8}))}});
      return all;
    });
    if (!answers.empty()) document_["optimizer"] = answers.front();
  }

  void memory() {
    const auto answers = apart("memory", 1, [&](Control&, int rank) {
      const auto device = device_of(rank);
      Json all = Json::array();
      const Seconds budget{probe_.budget.value / 8};
      const auto add = [&](const char* what, int threads, std::int64_t bytes, double rate) {
        all.push_back({{"device", probe_.device}, {"what", what}, {"threads", threads}, {"bytes", bytes}, {"measured", utc_now()}, {"bytes_per_s", rounded(rate)}});
      };
      constexpr std::int64_t kTriad = std::int64_t{64} << 20;
      for (const int threads : is_host() && cores_ > 1 ? std::vector{1, cores_} : std::vector{1}) add("triad", threads, kTriad, measure_triad(kTriad, *device, threads, budget));
      for (const std::int64_t bytes : {std::int64_t{64} << 10, std::int64_t{1} << 20, std::int64_t{25} << 20}) {
        const auto size = static_cast<double>(bytes);
        if (is_host()) {
          add("copy", 1, bytes, size / measure_copy(bytes, budget));
          continue;
        }
        const auto found = measure_transfers(bytes, *device, budget);
        add("copy", 1, bytes, size / found.within);
        add("download", 1, bytes, size / found.download);
        add("upload", 1, bytes, size / found.upload);
      }
      return all;
    });
    if (!answers.empty()) document_["memory"] = answers.front();
  }

  /// Between two workers where each has a core, else by one alone: what is timed is what they do beside their collectives.
  void compression() {
    constexpr std::int64_t kSizes[] = {std::int64_t{64} << 10, std::int64_t{1} << 20, std::int64_t{8} << 20};
    const int ranks = cores_ > 1 ? 2 : 1;
    auto names = probe_.compressions;
    if (names.empty())
      for (const auto& name : builtin_compressions().names())
        if (name != "none") names.push_back(name);
    const auto secret = new_secret();
    const auto answers = apart("compression", ranks, [&](Control& control, int rank) {
      ControlRendezvous rendezvous(control, rank, ranks);
      TransportOptions options;
      options.secret = secret;
      const auto chosen = choose_transport("shm", options);
      Communicator group(chosen.make(rendezvous, chosen.options), CommunicatorOptions{});
      Json all = Json::array();
      for (const auto& name : names)
        for (const auto bytes : kSizes) {
          const auto found = time_compression(group, name, static_cast<std::size_t>(bytes), {probe_.budget.value / 8});
          all.push_back({{"device", "cpu"}, {"compression", name}, {"ranks", ranks}, {"bytes", bytes}, {"measured", utc_now()}, {"call_us", micros(found.call)}, {"own_us", micros(found.own())}});
        }
      return all;
    });
    if (!answers.empty()) document_["compression"] = answers.front();
  }

  void contention() {
    for (const int workers : companies_) {
      loads(workers);
      for (const auto& each : cases_)
        // One batch of each tells: the middle one.
        if (each.batch == probe_.batches[probe_.batches.size() / 2]) steps(workers, each);
    }
    if (companies_.empty()) {
      // How its steps vary needs no company.
      for (const auto& each : cases_)
        if (each.batch == probe_.batches[probe_.batches.size() / 2]) steps(1, each);
      return;
    }
    for (const char* transport : {"shm", "tcp"}) beside(transport);
  }

  void loads(int workers) {
    Board board(workers);
    const auto answers = apart(fmt::format("{} at once", workers), workers, [&](Control&, int rank) -> Json {
      const auto device = device_of(rank);
      const auto found = loads_in_company(*device, probe_.threads, board, rank, probe_.budget);
      return {{"compute", to_json(found.compute)}, {"memory", to_json(found.memory)}};
    });
    if (answers.empty()) return;
    for (const char* load : {"compute", "memory"})
      document_["contention"].push_back({{"what", "workers"}, {"device", probe_.device}, {"threads", probe_.threads}, {"workers", workers}, {"load", load}, {"measured", utc_now()},
                                         {"slowdown", rounded(slowdown_together(company_of(answers, load)))}});
  }

  /// What passes take in the training by each of these strategies, over what they take in one worker's: runs by turns, there and back. More than in company alone, since what is exchanged lies where others read it, and
  /// others' comes through the same caches. `alone`: s, of one pass. None of a strategy whose run fails.
  std::vector<std::optional<double>> in_training(int workers, const Case& each, double alone, const std::vector<Spec>& strategies) {
    constexpr double kFewest = 12, kMost = 200;
    const auto passes = [&](const Spec& strategy) -> double {
      if (over()) return 0;
      const bool several = strategy.name != "single", shares_batch = strategy.name == "data";
      const int count = several ? workers : 1;
      const auto what = fmt::format("{}, {} in training{}", words(each), count, several && !shares_batch ? " by " + to_string(strategy) : "");
      tell(what);
      auto experiment = each.experiment;
      auto& job = experiment.job;
      job.workers.assign(static_cast<std::size_t>(count), job.workers.front());
      job.strategy = strategy;
      job.batch = each.batch * (shares_batch ? count : 1);
      job.train_samples = std::max(job.train_samples, 2 * job.batch);
      job.steps = static_cast<std::int64_t>(std::clamp(std::ceil(probe_.budget.value / std::max(alone, 1e-6)), kFewest, kMost));
      const auto record = trained(experiment);
      if (record.at("state") != "ok") {
        failed_run(what, record);
        return 0;
      }
      double sum = 0;
      for (const auto& rank : record.at("ranks")) sum += usually(record, rank, "forward", "backward");
      return sum / count;
    };
    auto turns = strategies;
    turns.insert(turns.begin(), parse_spec("single"));
    std::vector<double> there, back;
    for (const auto& strategy : turns) there.push_back(passes(strategy));
    for (auto strategy = turns.rbegin(); strategy != turns.rend(); ++strategy) back.insert(back.begin(), passes(*strategy));
    std::vector<std::optional<double>> longer;
    for (std::size_t s = 1; s < turns.size(); ++s) {
      if (std::min({there[0], back[0], there[s], back[s]}) > 0) longer.emplace_back(std::sqrt(there[s] * back[s] / (there[0] * back[0])));
      else longer.emplace_back();
    }
    return longer;
  }

  /// Of each part of layers that was measured of so many workers: its strategy, and its pass over the whole network's.
  std::vector<std::pair<Spec, double>> parts_of(int workers, const Case& each) const {
    const auto entry = earlier_entry(document_, "compute", entry_keys("compute"), where(probe_, each));
    if (entry.is_null()) return {};
    const double whole = entry.at("forward_ms").get<double>() + entry.at("backward_ms").get<double>();
    std::vector<std::pair<Spec, double>> found;
    for (const auto& part : entry.at("parts"))
      if (part.at("workers") == workers && whole > 0) found.emplace_back(parse_spec(part.at("strategy").get<std::string>()), part.at("pass_ms").get<double>() / whole);
    return found;
  }

  void steps(int workers, const Case& each) {
    Board board(workers);
    const auto answers = apart(fmt::format("{}, {} at once", words(each), workers), workers, [&](Control&, int rank) {
      const auto data = open_data(each.experiment);
      auto job = each.experiment.job;
      job.workers.front().device = device_name(rank);
      return to_json(steps_in_company(job, *data.train, board, rank, probe_.budget));
    });
    if (answers.empty()) return;
    const auto company = company_of(answers);
    if (workers > 1) {
      const double together = slowdown_together(company);
      const auto parts = parts_of(workers, each);
      std::vector<Spec> strategies{parse_spec("data[overlap=off]")};
      for (const auto& part : parts) strategies.push_back(part.first);
      // Devices with memory of their own lose nothing by what others read.
      const auto longer = is_host() ? in_training(workers, each, median(company.front().alone), strategies) : std::vector<std::optional<double>>(strategies.size());
      auto lost = where(probe_, each);
      lost["what"] = "steps";
      lost["workers"] = workers;
      lost["measured"] = utc_now();
      lost["slowdown"] = rounded(longer.front().value_or(together));
      for (std::size_t p = 0; p < parts.size(); ++p) {
        if (!longer[p + 1]) continue;
        auto of_parts = lost;
        of_parts["strategy"] = to_string(parts[p].first);
        of_parts["slowdown"] = rounded(*longer[p + 1] / parts[p].second);
        document_["contention"].push_back(std::move(of_parts));
      }
      lost["without_exchange"] = rounded(together);
      document_["contention"].push_back(std::move(lost));
    }
    const auto jitter = [&](int count, const Json& correlation, const Json& brief, const std::vector<double>& times) {
      auto entry = where(probe_, each);
      entry["workers"] = count;
      entry["measured"] = utc_now();
      entry.update(distribution_json(times));
      entry["correlation"] = correlation;
      entry["brief"] = brief;
      document_["jitter"].push_back(std::move(entry));
    };
    std::vector<double> all;
    for (const auto& worker : company) all.insert(all.end(), worker.together.begin(), worker.together.end());
    const auto brief = brief_share(company);
    jitter(1, nullptr, nullptr, company.front().alone);
    if (workers > 1) jitter(workers, rounded(correlation_of_workers(company)), brief ? Json(rounded(*brief)) : Json(), all);
  }

  /// Two workers, and what carries bytes between them: on their own cores.
  void beside(const char* transport) {
    constexpr int kWorkers = 2;
    constexpr std::int64_t kBytes = std::int64_t{4} << 20;
    Board board(kWorkers);
    const auto secret = new_secret();
    const auto answers = apart(fmt::format("beside {}", transport), kWorkers, [&](Control& control, int rank) -> Json {
      ControlRendezvous rendezvous(control, rank, kWorkers);
      TransportOptions options;
      options.secret = secret;
      const auto chosen = choose_transport(transport, options);
      Communicator group(chosen.make(rendezvous, chosen.options), CommunicatorOptions{});
      const auto device = device_of(rank);
      const auto found = beside_collective(group, kBytes, *device, probe_.threads, board, rank, {2 * probe_.budget.value});
      return {{"compute", found.compute_beside / found.compute_alone}, {"memory", found.memory_beside / found.memory_alone},
              {"collective_compute", found.collective_beside_compute / found.collective_alone}, {"collective_memory", found.collective_beside_memory / found.collective_alone}};
    });
    if (answers.empty()) return;
    const auto both = [&](const std::string& what) { return rounded((answers[0].at(what).get<double>() + answers[1].at(what).get<double>()) / 2); };
    for (const std::string load : {"compute", "memory"})
      document_["contention"].push_back({{"what", "collective"}, {"device", probe_.device}, {"threads", probe_.threads}, {"workers", kWorkers}, {"transport", transport}, {"load", load},
                                         {"bytes", kBytes}, {"measured", utc_now()}, {"slowdown", both(load)}, {"collective_slowdown", both("collective_" + load)}});
  }

  /// `needed`: the part without which there is nothing.
  void finish(const char* needed) {
    if (document_[needed].empty() && document_["state"] == "partial") document_["state"] = "failed";
    document_["finished"] = utc_now();
  }

  const ComputeProbe& probe_;
  const RunEvents& events_;
  std::vector<Case> cases_;
  std::vector<int> companies_;
  int cores_ = 1;
  std::int64_t told_ = 0, total_ = 0;
  Json document_;
};

}  // namespace

std::vector<ProbedNetwork> usual_probed_networks() {
  return {{"mlp", "fashion-mnist"}, {"lenet", "fashion-mnist"}, {"resnet18", "cifar10"}, {"mobilenetv2", "cifar10"}, {"smallcnn", "cifar10"}, {"gpt[heads=4,hidden=128,layers=2]", "language"}};
}

ProbedNetwork probed_network(const std::string& model, const std::vector<std::string>& datasets) {
  const auto spec = parse_spec(model);
  const auto takes = [&](const std::string& dataset) {
    try {
      make_model(spec, dataset_shape(dataset, true));
      return true;
    } catch (const Error& error) {
      if (error.code() == Code::not_found) throw;
      return false;
    }
  };
  for (const auto& dataset : datasets)
    if (takes(dataset)) return {to_string(spec), dataset};
  if (!datasets.empty()) throw Error(Code::invalid_argument, fmt::format("none of the data sets is for {}; got {}", model, join(datasets, ", ")));
  const auto natural = natural_shape(spec.name);
  for (const bool exactly : {true, false})
    for (const char* name : {"fashion-mnist", "cifar10", "imagenet", "language", "translation", "captions"}) {
      const auto shape = dataset_shape(name, true);
      if ((exactly ? shape == natural : shape.objective == natural.objective) && takes(name)) return {to_string(spec), name};
    }
  // Says what is wrong with it.
  make_model(spec, natural);
  throw Error(Code::invalid_argument, fmt::format("no data set is for {}; name one", model));
}

Json probe_compute(const ComputeProbe& probe, const RunEvents& events) {
  for (const auto& text : probe.optimizers) make_case({probe.networks, {}, {1}, {"fp32"}, {text}}, probe.networks.front(), "fp32", 1);
  return Probing(probe, events).run();
}

Json probe_memory(ComputeProbe probe, const RunEvents& events) {
  probe.networks.clear();
  return Probing(probe, events).run_memory();
}

void add_compute_to_machine(Json& machine, const Json& document) {
  for (const auto* part : {"compute", "optimizer", "memory", "compression", "contention", "jitter", "launch"}) {
    const auto& keys = entry_keys(part);
    for (auto entry : document.at(part)) {
      if (const auto* key = part == std::string_view("compute") ? "pass_ms" : part == std::string_view("contention") ? "slowdown" : nullptr)
        remember(entry, earlier_entry(machine, part, keys, entry), key, build_identity());
      if (part == std::string_view("compute")) keep_parts(entry, earlier_entry(machine, part, keys, entry));
      add_entry(machine, part, keys, entry);
    }
  }
}

}  // namespace ddl
