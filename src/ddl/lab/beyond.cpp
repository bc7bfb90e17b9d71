#include "ddl/lab/beyond.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "ddl/core/spec.h"
#include "ddl/core/units.h"
#include "ddl/lab/beyond_datasheet.h"
#include "ddl/lab/beyond_exchanges.h"
#include "ddl/lab/real_worker.h"
#include "ddl/measure/memory.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/measured/measured_machine.h"
#include "ddl/predict/measured/wire_seconds.h"
#include "ddl/train/emulation/machine_costs.h"
#include "ddl/train/precision.h"

namespace ddl {
namespace {

/// Shares of less are told by nobody.
constexpr double kWorthTelling = 0.01;

/// Doublings from the nearest batch that was measured beyond which that is told.
constexpr double kFarBetween = 0.5;

/// What those that compute on a host take from each other was measured of a few; or of none, and then is taken to be nothing.
void beyond_company(const Job& job, const JobCosts& costs, const Json& machine, const RealWorker& real, Beyond& out) {
  const auto beside = static_cast<int>(costs.measured->computing_beside(real.number));
  if (beside < 2) return;
  const auto& own = costs.measured->worker(real.number);
  const auto of_these = [&](const Json& entry) { return MeasuredMachine::is_of(entry, own) && entry.value("precision", "") == job.precision && entry.value("kernels", "") == job.kernels; };
  int most = 0;
  for (const auto& entry : entries(machine, "contention"))
    if (entry.value("what", "") == "steps" && !entry.contains("strategy") && of_these(entry)) most = std::max(most, entry.at("workers").get<int>());
  const bool varied = costs.measured->jitter_of(own, beside).sigma > 0;
  if (most > 0 && varied) {
    const double doublings = doublings_over(beside, most);
    out.workers = std::max(out.workers, doublings);
    if (doublings > 0)
      out.words.push_back(fmt::format("{} workers that compute on one host were not measured: what they take from each other, and how their steps vary, is carried on from {}, and the interval is wider for it", beside, most));
    return;
  }
  // The first doubling is the one that says whether they share anything.
  out.workers = std::max(out.workers, std::log2(beside) + (most == 0 ? 1 : 0));
  const auto cores = machine.value("cpu", Json::object()).value("usable_cores", Json());
  const bool can_be = !own.is_host() || !cores.is_number() || 2 * own.threads <= cores.get<int>();
  const auto whose = own.is_host() ? fmt::format("with {} {}", own.threads, own.threads == 1 ? "thread" : "threads") : "on " + own.kind();
  out.words.push_back(fmt::format("{} was not measured of workers {} in {}: taken as nothing, and the interval is wider for it ({})", most > 0 ? "how their steps vary" : varied ? "what those that compute on one host take from each other" : "what those that compute on one host take from each other, and how their steps vary,", whose,
                                  job.precision, can_be ? fmt::format("ddlbench probe compute{} --precision {}{}", MeasuredMachine::probe_flags(own), job.precision, job.kernels == "fast" ? "" : " --kernels " + job.kernels) : "two of them have no cores of their own here"));
}

/// The same of those that compute and a collective that goes on meanwhile.
void beyond_collectives(const Job& job, const Plan& plan, const JobCosts& costs, const Json& machine, const RealWorker& real, Beyond& out) {
  const auto& own = costs.measured->worker(real.number);
  // While backward goes on.
  const auto beside = [](const Role& role) { return std::any_of(role.tasks.begin(), role.tasks.end(), [](const Task& task) { return task.kind == TaskKind::collective && task.waits_for != kNone; }); };
  if (plan.workers() < 2 || std::none_of(plan.roles.begin(), plan.roles.end(), beside)) return;
  int most = 0;
  for (const auto& entry : entries(machine, "contention"))
    if (entry.value("what", "") == "collective" && MeasuredMachine::is_of(entry, own) && contends_alike(entry.value("transport", ""), job.transport)) most = std::max(most, entry.value("workers", 2));
  if (most > 0) {
    const auto at_once = static_cast<int>(costs.measured->computing_beside(real.number));
    const double doublings = doublings_over(at_once, most);
    out.workers = std::max(out.workers, doublings);
    if (doublings > 0)
      out.words.push_back(fmt::format("what computing and a collective over {} take from each other was measured of {} workers on one host, not of {}: taken from there, and the interval is wider for it", job.transport, most, at_once));
    return;
  }
  out.contention = true;
  const bool probed = contends_alike("shm", job.transport) || contends_alike("tcp", job.transport);
  out.words.push_back(fmt::format("what computing and a collective over {} take from each other was not measured: {}, and the interval is wider for it ({})", job.transport,
                                  own.is_host() ? "each rank of one is taken to keep a core busy" : "taken as nothing on the GPU",
                                  probed ? fmt::format("ddlbench probe compute{} --precision {}", MeasuredMachine::probe_flags(own), job.precision) : "probes measure it over shm and tcp"));
}

/// Of what a step takes besides layers and exchanges.
void beyond_curves(const Job& job, const Plan& plan, const ModelGraph& part, const JobCosts& costs, const RealWorker& real, Beyond& out) {
  const auto& role = plan.role_of(real.number);
  const auto updated = role.keeps_parts() ? 0 : part.parameters() * element_bytes(job.precision);
  const auto samples = real.samples * plan.micro_batches;
  const auto& own = costs.measured->worker(real.number);
  // Gradients go to buckets one by one, but for those of products that are made there; of a device with memory of its own buckets go to the host's.
  std::int64_t copied = 0;
  if (plan.workers() > 1 && !own.is_host())
    for (const auto& bucket : role.buckets) copied = std::max(copied, bucket.bytes);
  else if (plan.workers() > 1 && !costs.measured->writes_in_place(real.number))
    for (const auto& spec : part.parameter_specs()) copied = std::max(copied, spec.elements() * element_bytes(job.precision));
  const auto carried = costs.measured->carried(real.number, updated, samples, copied);
  const auto told = [&](double doublings, const std::string& what) {
    const double far = std::abs(doublings);
    if (far <= kAboutAsLarge) return;
    out.carried = std::max(out.carried, far);
    const auto* const word = doublings > 0 ? "less" : "more";
    out.words.push_back(fmt::format("{} was measured of {} alone, {:.2g} times {} at {}: carried on from there, and the interval is wider for it (ddlbench probe compute --model {}{})", what, word, std::exp2(far), word, doublings > 0 ? "most" : "least", to_string(job.model),
                                    MeasuredMachine::probe_flags(own)));
  };
  told(carried.update, fmt::format("an update of {}", to_string(Bytes{updated})));
  const auto optimizer = to_string(job.optimizer);
  const auto other = [&](const std::string& what, const std::string& as, const std::string& probe) {
    out.carried = std::max(out.carried, 1.0);
    out.words.push_back(fmt::format("an update {} was not measured: taken for one {}, and the interval is wider for it{}", what, as, probe));
  };
  if (updated > 0 && !costs.measured->knows_optimizer(optimizer))
    other("by " + optimizer, "by " + job.optimizer.name, fmt::format(" (ddlbench probe compute --model {}{} --optimizer '{}')", to_string(job.model), MeasuredMachine::probe_flags(own), optimizer));
  else if (updated > 0 && job.momentum == 0 && (job.optimizer.name == "sgd" || job.optimizer.name == "lars"))
    other("without momentum", "with it", "");
  told(carried.loader, fmt::format("making a batch of {} samples", samples));
  told(carried.copy, fmt::format("copying {} of gradients", to_string(Bytes{copied})));
}

/// Of layers that a profile has no time of for just so many samples.
void beyond_layers(const Job& job, const Plan& plan, const ModelGraph& part, const MeasuredMachine& measured, const RealWorker& real, const std::string& so, const char* where, Beyond& out) {
  const auto share = measured.beyond(real.number, part, real.samples);
  const auto flags = MeasuredMachine::probe_flags(measured.worker(real.number));
  if (share.samples > kWorthTelling)
    out.words.push_back(fmt::format("{:.0f} % of computing is of layers that were measured with other numbers of samples alone, fewer or more than {}: carried on from there, {}", 100 * share.samples, real.samples, so));
  if (share.between > kFarBetween)
    out.words.push_back(fmt::format("passes of {} samples were not measured: taken from between smaller and larger batches that were, the nearest of which has {:.2g} times as many or as few, {} ({}ddlbench probe compute --model {}{} --precision {} --batch {})", real.samples,
                                    std::exp2(share.between), so, where, to_string(job.model), flags, job.precision, real.samples));
  if (share.sorts > kWorthTelling)
    out.words.push_back(fmt::format("{:.0f} % of computing is of layers whose like was not measured: taken from others of their family, {} ({}ddlbench probe compute --model {}{}{})", 100 * share.sorts, so, where, to_string(job.model),
                                    flags, plan.split.empty() ? "" : fmt::format(" --parts {}:{}", to_string(job.strategy), job.workers.size())));
}

/// Where graphs of passes are asked for, and steps were measured without.
void beyond_graphs(const JobCosts& costs, const RealWorker& real, Beyond& out) {
  if (costs.measured->knows_graphs(real.number)) return;
  out.words.emplace_back("passes as CUDA graphs (graphs on) are predicted as without, each operation started by itself, as what steps take by graphs was not measured (ddlbench probe compute --device cuda measures it): where the host starts operations slower than the device does them, steps took down to a third of that");
}

/// Wires are all that a prediction of emulated workers needs; the rest counts as nothing.
void beyond_host(const Json& machine, Beyond& out) {
  if (is_measured(machine)) return;
  out.host = true;
  out.words.emplace_back("of this host its wires alone were measured: what making batches, the end of a step and other work there take counts as nothing, and the interval is wider for it (ddlbench probe compute)");
}

/// Of a profile that was measured and does not say how much memory there is: what fits is judged by this host's.
void beyond_memory_there(const Json& machine, Beyond& out) {
  if (!is_measured(machine) || term_or(machine, "device.memory_bytes", 0) > 0) return;
  out.words.push_back(fmt::format("the profile does not say how much memory there is: what fits is judged by the {} of this host (any ddlbench probe there writes it)", to_string(Bytes{total_memory()})));
}

/// Of what a worker computes.
void beyond_computing(const Job& job, const Plan& plan, const ModelGraph& part, const JobCosts& costs, const Json& machine, const RealWorker& real, Beyond& out) {
  beyond_layers(job, plan, part, *costs.measured, real, "and the interval is wider for it", "", out);
  beyond_company(job, costs, machine, real, out);
  beyond_collectives(job, plan, costs, machine, real, out);
  beyond_curves(job, plan, part, costs, real, out);
  beyond_graphs(costs, real, out);
}

/// Emulated workers wait for what their profile says, and so they are predicted: how far that is from the device nobody here can tell.
void beyond_emulated(const Job& job, const Plan& plan, const ModelGraph& part, const JobCosts& costs, Beyond& out) {
  std::set<std::pair<const MeasuredMachine*, std::int64_t>> told;
  for (int worker = 0; worker < static_cast<int>(costs.stands_for.size()); ++worker) {
    const auto* const measured = costs.stands_for[static_cast<std::size_t>(worker)];
    const auto samples = samples_of(job, plan, worker);
    if (measured == nullptr || !told.emplace(measured, samples).second) continue;
    const auto& device = job.workers[static_cast<std::size_t>(worker)].device;
    beyond_layers(job, plan, part, *measured, {worker, samples}, fmt::format("by runs as by predictions; how far from the device of {} is not known", device), "there: ", out);
  }
  // Waits do not vary (EmulatedCosts::jitter()).
  if (!job.emulates() || costs.measured == nullptr) return;
  for (const auto& real : real_workers(job, plan, *costs.measured))
    if (costs.measured->jitter_of(costs.measured->worker(real.number), std::max(2, plan.workers())).sigma > 0) {
      out.words.emplace_back("steps of those that compute vary as they were measured to, which beside emulated workers, whose waits do not, is left out");
      return;
    }
}

/// Emulated workers sleep until their time is over, and then want a core: wires were measured between ranks that had one each.
void beyond_cores(const Job& job, const Json& machine, Beyond& out) {
  const auto cores = machine.value("cpu", Json::object()).value("usable_cores", Json());
  if (!job.emulates() || job.workers.size() < 2 || !cores.is_number()) return;
  out.crowded = doublings_over(static_cast<double>(job.workers.size()), std::max(1.0, cores.get<double>()));
  if (out.crowded > 0)
    out.words.push_back(fmt::format("{} workers share {} cores: what they wait for one before they exchange was not measured, and the interval is wider for it", job.workers.size(), cores.get<int>()));
}

/// Below this what workers do between their waits, and how late they wake, is no small part of a step, and one waits for the other's.
constexpr double kBriefStep = 1e-3;

void beyond_brief(const Job& job, const StepPrediction& step, Beyond& out) {
  if (!job.emulates() || job.workers.size() < 2 || step.seconds >= kBriefStep) return;
  out.brief = true;
  out.words.push_back(fmt::format("a step of {:.2g} ms of several emulated workers: such steps took 1.25 to 1.6 times as long as was predicted, and the interval is wider for it", step.seconds * 1e3));
}

/// One thread of a loader was measured, and one reader of a storage.
void beyond_loading(const Job& job, const StoredSamples& stored, Beyond& out) {
  const auto told = [&](double readers, const std::string& what, const char* which) {
    if (readers <= 1) return;
    out.readers = std::max(out.readers, std::log2(readers));
    out.words.push_back(fmt::format("{}, and intervals of steps that wait for batches{} are wider for it", what, which));
  };
  told(job.loader_threads, fmt::format("a loader of {} threads was not measured: taken to make as many batches as so many times one", job.loader_threads), ", or nearly,");
  const auto readers = std::max(job.loader_threads, 1) * static_cast<int>(job.workers.size());
  out.storage = stored.asked && stored.bytes_per_s <= 0;
  if (out.storage) told(readers, fmt::format("{} readers of one storage were not measured: taken to have together what one had", readers), "");
}

/// The closed form knows no resource that several want.
void beyond_alone(const StepPrediction& step, Beyond& out) {
  out.alone = step.alone;
  if (step.alone) out.words.push_back("by its closed form what goes on at once has cores, memory, wires and servers each for itself, which the simulator shares: the interval is wider for it (--engine simulated)");
}

}  // namespace

Beyond beyond_known(const Job& job, const Plan& plan, const ModelGraph& part, const JobCosts& costs, const Json& machine, const StoredSamples& stored, const StepPrediction& step) {
  if (costs.measured == nullptr) {
    auto out = is_datasheet(machine) ? beyond_datasheet(job, plan, part, machine, costs.per_node, step) : Beyond{};
    // Loaders of datasheets' devices cost nothing that nobody tells.
    if (stored.asked || stored.making) beyond_loading(job, stored, out);
    beyond_emulated(job, plan, part, costs, out);
    beyond_alone(step, out);
    return out;
  }
  Beyond out;
  const auto workers = real_workers(job, plan, *costs.measured);
  std::vector<std::pair<std::string, std::vector<int>>> said;  // by whom
  for (const auto& real : workers) {
    beyond_computing(job, plan, part, costs, machine, real, out);
    for (auto& words : out.words) {
      const auto before = std::find_if(said.begin(), said.end(), [&](const auto& each) { return each.first == words; });
      if (before != said.end()) before->second.push_back(real.number);
      else said.emplace_back(std::move(words), std::vector{real.number});
    }
    out.words.clear();
  }
  for (auto& [words, by] : said) {
    const auto& spec = job.workers[static_cast<std::size_t>(by.front())];
    out.words.push_back(by.size() == workers.size() ? std::move(words) : fmt::format("workers like {} ({}, {} {}): {}", by.front(), spec.device, spec.threads, spec.threads == 1 ? "thread" : "threads", words));
  }
  beyond_host(machine, out);
  beyond_loading(job, stored, out);
  beyond_emulated(job, plan, part, costs, out);
  beyond_cores(job, machine, out);
  beyond_brief(job, step, out);
  beyond_exchanges(job, plan, part, costs, machine, out);
  beyond_alone(step, out);
  beyond_memory_there(machine, out);
  return out;
}

}  // namespace ddl
