#include "ddl/lab/import_chakra.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/core/statistics.h"
#include "ddl/core/text.h"
#include "ddl/data/dataset.h"
#include "ddl/lab/chakra_names.h"
#include "ddl/lab/config_values.h"
#include "ddl/lab/record.h"
#include "ddl/measure/clock.h"
#include "ddl/nn/model.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/datasheet/machine_source.h"
#include "ddl/strategy/batch_shares.h"
#include "ddl/strategy/partition/crossing.h"
#include "ddl/strategy/partition/layer_sort.h"
#include "ddl/train/device_list.h"
#include "ddl/train/plan_job.h"
#include "ddl/train/precision.h"

namespace ddl {
namespace {

/// One step says little of how much steps vary.
constexpr double kLeastSpread = 0.05;
/// Whose datasheet divides a stage's seconds among its layers.
constexpr const char* kDivider = "cpu-avx2";

double rounded(double value) { return std::stod(fmt::format("{:.6g}", value)); }

/// Seconds that were found of one thing, in each trace and micro-batch.
using Found = std::vector<double>;

double spread_of(const Found& all) {
  if (all.size() < 3) return kLeastSpread;
  const double middle = mean(all);
  double squares = 0;
  for (const double each : all) squares += (each - middle) * (each - middle);
  return middle > 0 ? std::max(std::sqrt(squares / static_cast<double>(all.size())) / middle, kLeastSpread / std::sqrt(static_cast<double>(all.size()))) : 0;
}

/// Ranks of one run, each once. Traces of others say neither.
void require_one_run(const std::vector<ChakraTrace>& traces) {
  const ChakraTrace* first = nullptr;
  std::set<double> ranks;
  for (const auto& trace : traces) {
    const auto run = trace.about.words.find("run"), config = trace.about.words.find("config");
    if (run == trace.about.words.end()) continue;
    if (first == nullptr) first = &trace;
    const auto& known = first->about.words;
    if (run->second != known.at("run")) throw Error(Code::invalid_argument, fmt::format("[import] traces of several runs; got {} and {}, expected one run's, each rank's once", known.at("run"), run->second));
    if (const auto its = known.find("config"); (its == known.end()) != (config == trace.about.words.end()) || (its != known.end() && its->second != config->second))
      throw Error(Code::invalid_argument, fmt::format("[import] traces of {} are of several experiments; expected one run's, each rank's once", run->second));
    if (const auto rank = trace.about.numbers.find("rank"); rank != trace.about.numbers.end() && !ranks.insert(rank->second).second)
      throw Error(Code::invalid_argument, fmt::format("[import] two traces of rank {:.0f} of {}; expected each rank's once", rank->second, run->second));
  }
}

/// What was run.
Experiment experiment_of(const std::vector<ChakraTrace>& traces, const Settings& told) {
  require_one_run(traces);
  for (const auto& trace : traces) {
    const auto config = trace.about.words.find("config");
    if (config == trace.about.words.end()) continue;
    if (!told.empty())
      throw Error(Code::invalid_argument, fmt::format("{}: the trace says itself what was run; got {}, expected nothing of that with traces of ddlbench", told.begin()->second.origin, told.begin()->second.value));
    return experiment_from(parse_json(config->second, "the trace's config"), Json::object());
  }
  if (!told.contains("model") || !told.contains("batch"))
    throw Error(Code::invalid_argument, "[import] the trace does not say what was run; got none of ours, expected --model, --dataset, --batch (one worker's samples) and --precision with it");
  auto settings = told;
  settings["strategy"] = {"single", "import"};
  settings["synthetic"] = {"true", "import"};
  return resolve(settings);
}

struct Layers {
  int first = 0, last = 0;
};

/// Which layers each stage has: as the traces say, or as the plan.
std::vector<Layers> stages_of(const std::vector<ChakraTrace>& traces, const ModelGraph& graph, const Plan& plan) {
  std::vector<Layers> stages;
  for (const auto& trace : traces) {
    const auto cuts = trace.about.words.find("stages");
    if (cuts == trace.about.words.end()) continue;
    int next = 0;
    for (const auto& word : split(cuts->second, '/')) {
      Layers own{next, next};
      for (auto left = parse_integer(word, 1, 1'000'000); left > 0 && own.last < static_cast<int>(graph.layers.size()); ++own.last) left -= graph.layers[at(own.last)].kind != LayerKind::input;
      next = own.last;
      stages.push_back(own);
    }
    if (next != static_cast<int>(graph.layers.size())) throw Error(Code::invalid_argument, fmt::format("[import] stages of the trace are not of {}; got {}, expected all of its layers", graph.name, cuts->second));
    return stages;
  }
  for (const auto& stage : plan.stages) stages.push_back({stage.first, stage.last});
  return stages;
}

class Importing {
 public:
  Importing(const std::vector<ChakraTrace>& traces, const Settings& told)
      : traces_(traces), experiment_(experiment_of(traces, told)), job_(experiment_.job), graph_(make_model(job_.model, dataset_shape(job_.dataset, true))), plan_(plan_job(job_, graph_)),
        stages_(stages_of(traces, graph_, plan_)), learns_(learning_layers(graph_)) {
    if (!plan_.split.empty()) throw Error(Code::invalid_argument, fmt::format("[import] layers are split among workers; got a trace of {}, expected one of whole layers", to_string(job_.strategy)));
    if (job_.recompute || job_.strategy.options.contains("recompute"))
      throw Error(Code::invalid_argument, "[import] backward holds forwards that were run again; got a trace with recompute, expected one without");
    if (!batch_shares(job_.strategy).empty()) throw Error(Code::invalid_argument, fmt::format("[import] ranks have unequal parts of a batch; got a trace of {}, expected one of equal parts", to_string(job_.strategy)));
    const auto shares = plan_.shares();
    samples_ = (job_.batch + shares - 1) / shares;
    samples_ = (samples_ + plan_.micro_batches - 1) / plan_.micro_batches;
  }

  Json run() {
    for (const auto& trace : traces_) read(trace);
    weigh();
    if (by_stage_.empty() && forward_.empty()) take_operators();
    by_stage_.empty() ? take_layers() : take_stages();
    Json out{{"schema", "ddlbench.probe/1"}, {"kind", "import"}, {"state", "ok"}, {"started", utc_now()}, {"environment", environment()}, {"compute", Json::array({entry()})}, {"optimizer", optimizer()},
             {"launch", launch()}, {"collectives", collectives()}, {"nodes", nodes_}, {"left_out", left_out_}, {"untold", untold_}};
    return out;
  }

 private:
  /// Sums the pieces that a span was cut into.
  void read(const ChakraTrace& trace) {
    std::map<std::tuple<std::string, int, int>, double> pieces;
    double updates = 0, loads = 0;
    for (const auto& node : trace.nodes) {
      ++nodes_;
      if (node.type >= kChakraSend && node.type <= kChakraCollective) take_communication(node);
      if (node.type != kChakraCompute && node.type != kChakraLoad) continue;
      const auto told = node.attributes.words.find("kind");
      const auto number = [&](const char* name) {
        const auto found = node.attributes.numbers.find(name);
        return found == node.attributes.numbers.end() ? 0 : static_cast<int>(found->second);
      };
      if (told != node.attributes.words.end()) {
        if (told->second == "update") updates += node.duration;
        else if (told->second == "load") loads += node.duration;
        else pieces[{told->second, number("stage"), number("micro_batch")}] += node.duration;
      } else if (!take_by_name(node)) {
        ++left_out_;
        operators_[node.name].push_back(node.duration);
      }
    }
    // The nodes are of one step; where the trace says what the mean step took, that is what counts.
    const auto scale_of = [&](const char* direction) {
      double sum = 0;
      for (const auto& [key, seconds] : pieces)
        if (std::get<0>(key).starts_with(direction)) sum += seconds;
      const auto mean_step = trace.about.numbers.find(fmt::format("{}_ns", direction));
      return mean_step == trace.about.numbers.end() || sum <= 0 || mean_step->second <= 0 ? 1 : mean_step->second * 1e-9 / sum;
    };
    const double of_forward = scale_of("forward"), of_backward = scale_of("backward");
    for (const auto& [key, seconds] : pieces) {
      const auto& [kind, stage, micro] = key;
      if (kind != "forward" && !kind.starts_with("backward")) {
        ++left_out_;
        continue;
      }
      by_stage_[{stage, kind}].push_back(seconds * (kind == "forward" ? of_forward : of_backward));
    }
    if (updates > 0) updates_.push_back(updates);
    loads_.push_back(loads);
    if (const auto harness = trace.about.numbers.find("harness_ns"); harness != trace.about.numbers.end()) harness_.push_back(harness->second * 1e-9);
  }

  /// By the network's own names of layers.
  bool take_by_name(const ChakraNode& node) {
    const auto named = layer_named(node.name);
    if (!named) return false;
    int number = named->layer == "loss" ? static_cast<int>(graph_.layers.size()) : -1;
    for (std::size_t l = 0; l < graph_.layers.size(); ++l)
      if (graph_.layers[l].name == named->layer) number = static_cast<int>(l);
    if (number < 0) return false;
    passes(named->pass)[number].push_back(node.duration);
    return true;
  }

  std::map<int, Found>& passes(LayerPass pass) {
    switch (pass) {
      case LayerPass::forward: return forward_;
      case LayerPass::backward: return backward_;
      case LayerPass::backward_input: return backward_input_;
      case LayerPass::backward_weight: return backward_weight_;
    }
    return forward_;
  }

  /// Nodes named by operators: the n-th of a sort is the n-th layer that is run by it, again and again with each step and micro-batch; backward from the last on.
  void take_operators() {
    std::map<LayerKind, std::vector<int>> kinds;
    for (std::size_t l = 0; l < graph_.layers.size(); ++l)
      if (graph_.layers[l].kind != LayerKind::input) kinds[graph_.layers[l].kind].push_back(static_cast<int>(l));
    bool any = false;
    for (const auto& [kind, layers] : kinds)
      for (const auto& name : operators_of(kind).forward) any = any || operators_.contains(name);
    if (!any) return;
    for (const auto& [kind, layers] : kinds) {
      const auto names = operators_of(kind);
      const bool may_lack = may_be_untold(kind);
      take(names.forward, layers, layers, forward_, may_lack);
      std::vector<int> learning;
      for (auto l = layers.rbegin(); l != layers.rend(); ++l)
        if (learns_[at(*l)]) learning.push_back(*l);
      if (!learning.empty()) take(names.backward, learning, layers, backward_, may_lack);
      for (const int l : layers) forward_[l];
    }
    const std::vector<int> loss{static_cast<int>(graph_.layers.size())};
    take(operators_of_loss().forward, loss, loss, forward_, true);
    take(operators_of_loss().backward, loss, loss, backward_, true);
  }

  /// `order`: of the layers, in which their operators come.
  void take(const std::vector<std::string>& names, const std::vector<int>& order, const std::vector<int>& layers, std::map<int, Found>& into, bool may_lack) {
    std::vector<std::string> there;
    for (const auto& name : names) {
      const auto found = operators_.find(name);
      if (found == operators_.end()) continue;
      there.push_back(fmt::format("{} {}", found->second.size(), name));
      if (found->second.size() % order.size() != 0) continue;
      for (std::size_t i = 0; i < found->second.size(); ++i) into[order[i % order.size()]].push_back(found->second[i]);
      left_out_ -= static_cast<int>(found->second.size());
      return;
    }
    if (may_lack) return;
    const auto family = layer_family(graph_, at(layers.front()));
    throw Error(Code::invalid_argument, fmt::format("[import] operators do not match the {} {} layer{} of {}; got {}, expected {} of {}, or as many in each of several steps", layers.size(),
                                                    family.substr(0, family.find(' ')), layers.size() == 1 ? "" : "s", graph_.name, there.empty() ? "none" : join(there, ", "), order.size(), join(names, " or ")));
  }

  void take_communication(const ChakraNode& node) {
    const auto number = [&](const char* name) {
      const auto found = node.attributes.numbers.find(name);
      return found == node.attributes.numbers.end() ? -1.0 : found->second;
    };
    const auto called = node.type == kChakraSend ? "send" : node.type == kChakraReceive ? "receive" : collective_of_chakra(static_cast<int>(number("comm_type")));
    if (called.empty() || number("comm_size") < 0) ++left_out_;
    else moved_[{called, static_cast<std::int64_t>(number("comm_size"))}].push_back(node.duration);
  }

  /// What was moved, and what that took: of wires that no profile can name, since a trace does not say what carried it.
  Json collectives() const {
    Json all = Json::array();
    for (const auto& [what, seconds] : moved_) all.push_back({{"collective", what.first}, {"bytes", what.second}, {"count", seconds.size()}, {"mean_us", rounded(mean(seconds) * 1e6)}});
    return all;
  }

  /// The loss stands last.
  void weigh() {
    const auto source = datasheet_source(find_machine(kDivider), "fp32", 1);
    for (std::size_t l = 0; l <= graph_.layers.size(); ++l) {
      const bool loss = l == graph_.layers.size();
      auto cost = loss ? source->loss(0, graph_, samples_) : graph_.layers[l].kind == LayerKind::input ? LayerCost{} : source->layer(0, graph_, l, samples_);
      const auto work = loss ? loss_work(graph_) : layer_work(graph_, l, learns_);
      if (!work.learning_input) cost.backward_input = 0;
      if (!work.trains) cost.backward_weight = 0;
      weights_.push_back(cost);
    }
    spreads_.assign(weights_.size(), kLeastSpread);
    times_.resize(weights_.size());
  }

  const Found& found(int stage, const std::string& kind) const {
    static const Found kNothing;
    const auto place = by_stage_.find({stage, kind});
    return place == by_stage_.end() ? kNothing : place->second;
  }

  void take_stages() {
    for (int s = 0; s < static_cast<int>(stages_.size()); ++s) {
      const auto& forward = found(s, "forward");
      const auto& backward = found(s, "backward");
      const auto& input = found(s, name_of(TaskKind::backward_input));
      const auto& weight = found(s, name_of(TaskKind::backward_weight));
      if (forward.empty() || (backward.empty() && (input.empty() || weight.empty())))
        throw Error(Code::invalid_argument, fmt::format("[import] what stage {} takes is in none of the traces; got {} file{}, expected those of all ranks", s, traces_.size(), traces_.size() == 1 ? "" : "s"));
      auto layers = stages_[at(s)];
      if (at(s) + 1 == stages_.size()) ++layers.last;  // the loss
      LayerCost sum;
      for (int l = layers.first; l < layers.last; ++l) sum += weights_[at(l)];
      const double both = backward.empty() ? 0 : mean(backward) / std::max(sum.backward(), 1e-30);
      const double of_input = backward.empty() ? mean(input) / std::max(sum.backward_input, 1e-30) : both, of_weight = backward.empty() ? mean(weight) / std::max(sum.backward_weight, 1e-30) : both;
      const double of_forward = mean(forward) / std::max(sum.forward, 1e-30), spread = std::max(spread_of(forward), spread_of(backward.empty() ? input : backward));
      for (int l = layers.first; l < layers.last; ++l) {
        times_[at(l)] = {weights_[at(l)].forward * of_forward, weights_[at(l)].backward_input * of_input, weights_[at(l)].backward_weight * of_weight};
        spreads_[at(l)] = spread;
      }
    }
  }

  void take_layers() {
    for (std::size_t l = 0; l < graph_.layers.size(); ++l) {
      const auto number = static_cast<int>(l);
      if (graph_.layers[l].kind == LayerKind::input) continue;
      if (forward_.contains(number)) continue;
      // Workloads for simulators name layers with weights, whose times hold what comes between them.
      if (graph_.layers[l].parameters.empty() && graph_.layers[l].borrowed.empty()) untold_.push_back(graph_.layers[l].name);
      else
        throw Error(Code::invalid_argument, fmt::format("[import] what layer {} of {} takes is in none of the traces; got {} nodes of computation that name no layer of it, expected '{} forward' and '{} backward'",
                                                        graph_.layers[l].name, graph_.name, left_out_, graph_.layers[l].name, graph_.layers[l].name));
    }
    for (std::size_t l = 0; l < times_.size(); ++l) {
      const auto number = static_cast<int>(l);
      if (!forward_.contains(number) || forward_.at(number).empty()) continue;
      if (backward_input_.contains(number) || backward_weight_.contains(number)) {
        const auto part = [&](const std::map<int, Found>& found) { return found.contains(number) ? mean(found.at(number)) : 0; };
        times_[l] = {mean(forward_.at(number)), part(backward_input_), part(backward_weight_)};
        spreads_[l] = spread_of(forward_.at(number));
        continue;
      }
      const double both = backward_.contains(number) ? mean(backward_.at(number)) : 0, share = weights_[l].backward() > 0 ? weights_[l].backward_input / weights_[l].backward() : 1;
      times_[l] = {mean(forward_.at(number)), both * share, both * (1 - share)};
      spreads_[l] = spread_of(forward_.at(number));
    }
  }

  static std::string name_of(TaskKind kind) { return std::string(name(kind)); }

  /// Its kind.
  std::string device() const { return parse_device(job_.workers.front().device).kind; }

  /// What is the same of entries that take each other's place.
  Json where() const {
    return {{"device", device()}, {"threads", job_.workers.front().threads}, {"precision", job_.precision}, {"kernels", job_.kernels}, {"network", to_string(job_.model)}, {"dataset", job_.dataset}, {"batch", samples_}};
  }

  Json entry() const {
    struct Sort {
      std::string family;
      LayerWork work;
      LayerCost sum;
      double squares = 0;
      int count = 0;
    };
    std::vector<std::string> order;
    std::map<std::string, Sort> sorts;
    double forward = 0, backward = 0;
    for (std::size_t l = 0; l < times_.size(); ++l) {
      const bool loss = l == graph_.layers.size();
      if (!loss && graph_.layers[l].kind == LayerKind::input) continue;
      const auto sort = loss ? loss_sort(graph_) : layer_sort(graph_, l, learns_);
      auto [place, fresh] = sorts.try_emplace(sort, Sort{loss ? "loss" : layer_family(graph_, l), loss ? loss_work(graph_) : layer_work(graph_, l, learns_)});
      if (fresh) order.push_back(sort);
      auto& own = place->second;
      own.sum += times_[l];
      own.squares += spreads_[l] * spreads_[l];
      ++own.count;
      forward += times_[l].forward;
      backward += times_[l].backward();
    }
    Json layers = Json::array();
    for (const auto& sort : order) {
      const auto& own = sorts.at(sort);
      const auto micros = [&](double seconds) { return Json(rounded(seconds / own.count * 1e6)); };
      layers.push_back({{"sort", sort}, {"family", own.family}, {"count", own.count}, {"forward_us", micros(own.sum.forward)},
                        {"backward_input_us", own.work.learning_input ? micros(own.sum.backward_input) : Json()}, {"backward_weight_us", own.work.trains ? micros(own.sum.backward_weight) : Json()},
                        {"spread", rounded(std::sqrt(own.squares / own.count))}, {"flops", own.work.flops}, {"elements", own.work.elements}, {"parameters", own.work.parameters}});
      if (own.sum.forward + own.sum.backward() <= 0) layers.back()["within_others"] = true;
    }
    auto out = where();
    const auto millis = [](double seconds) { return rounded(seconds * 1e3); };
    out.update({{"measured", utc_now()}, {"source", "chakra"}, {"optimizer", to_string(job_.optimizer)}, {"clock", "wall"}, {"passes", traces_.size()}, {"forward_ms", millis(forward)}, {"backward_ms", millis(backward)},
                {"loader_us", 0}, {"step", {{"load_ms", loads_.empty() ? 0 : millis(mean(loads_))}, {"copy_ms", 0}}}, {"correction", 1}, {"layers", std::move(layers)}});
    return out;
  }

  /// Where every worker updates all parameters.
  Json optimizer() const {
    static const std::set<std::string> kWhole{"single", "data", "local"};
    if (updates_.empty() || !kWhole.contains(job_.strategy.name)) return Json::array();
    std::int64_t bytes = 0;
    for (const auto& parameter : graph_.parameter_specs()) bytes += parameter.elements() * element_bytes(job_.precision);
    return Json::array({Json{{"device", device()}, {"threads", job_.workers.front().threads}, {"optimizer", to_string(job_.optimizer)}, {"bytes", bytes}, {"measured", utc_now()}, {"source", "chakra"},
                             {"update_us", rounded(mean(updates_) * 1e6)}}});
  }

  Json launch() const {
    if (harness_.empty()) return Json::array();
    return Json::array({Json{{"device", device()}, {"measured", utc_now()}, {"source", "chakra"}, {"harness_us", rounded(mean(harness_) * 1e6)}}});
  }

  Json environment() const {
    for (const auto& trace : traces_) {
      const auto cpu = trace.about.words.find("cpu");
      const auto cores = trace.about.numbers.find("usable_cores");
      if (cpu == trace.about.words.end() || cores == trace.about.numbers.end()) continue;
      const auto host = trace.about.words.find("host");
      return {{"host", host == trace.about.words.end() ? Json() : Json(host->second)}, {"cpu", {{"model", cpu->second}, {"usable_cores", static_cast<int>(cores->second)}}}};
    }
    return nullptr;
  }

  const std::vector<ChakraTrace>& traces_;
  Experiment experiment_;
  const Job& job_;
  ModelGraph graph_;
  Plan plan_;
  std::vector<Layers> stages_;
  std::vector<bool> learns_;
  std::int64_t samples_ = 1;
  std::map<std::pair<int, std::string>, Found> by_stage_;   ///< and kind
  std::map<int, Found> forward_, backward_, backward_input_, backward_weight_;  ///< by layer, of traces that name them
  std::map<std::string, Found> operators_;                  ///< by name, in the order in which they are in the traces
  std::map<std::pair<std::string, std::int64_t>, Found> moved_;  ///< by collective and bytes
  Found updates_, loads_, harness_;
  std::vector<LayerCost> weights_, times_;                  ///< by layer, then the loss
  std::vector<double> spreads_;
  int nodes_ = 0, left_out_ = 0;
  Json untold_ = Json::array();  ///< names of layers without weights that no node has
};

}  // namespace

Json import_chakra(const std::vector<ChakraTrace>& traces, const Settings& told) {
  if (traces.empty()) throw Error(Code::invalid_argument, "[import] no trace; expected a file of an execution trace, or several, one a rank");
  return Importing(traces, told).run();
}

}  // namespace ddl
