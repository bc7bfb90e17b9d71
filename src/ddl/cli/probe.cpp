#include <algorithm>
#include <charconv>
#include <filesystem>

#include "ddl/cli/command.h"
#include "ddl/cli/of_flag.h"
#include "ddl/cli/probe_import.h"
#include "ddl/cli/probe_merge.h"
#include "ddl/cli/progress.h"
#include "ddl/collective/algorithms.h"
#include "ddl/collective/compression.h"
#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/core/units.h"
#include "ddl/lab/probe_comm.h"
#include "ddl/lab/probe_compute.h"
#include "ddl/lab/probe_data.h"
#include "ddl/lab/signals.h"
#include "ddl/measure/environment.h"
#include "ddl/predict/machine.h"
#include "ddl/report/report.h"
#include "ddl/train/device_list.h"
#include "ddl/transport/builtin.h"
#include "ddl/transport/fabric_description.h"

namespace ddl {
namespace {

struct ProbeOptions {
  Output output;
  std::string what = "all";
  std::string transports, collectives, algorithms, ranks = "2", sizes = "1KiB,8KiB,64KiB,512KiB,4MiB,32MiB", memory = "own", machine, report, fabric;
  std::string budget, timeout = "60s";
  std::string data, file = "256MiB";
  std::string models, parts, datasets, batches = "1,8,32", precisions = "fp32", optimizers = "sgd,adam", compressions, kernels = "fast", device = "cpu";
  std::vector<std::string> files;
  int threads = 1;
  bool unchecked = false, synthetic = false, keep = true;
};

std::vector<std::string> words(const std::string& text) { return text.empty() ? std::vector<std::string>{} : split_outside_brackets(text); }

std::vector<int> rank_counts(const std::string& text) {
  std::vector<int> counts;
  for (const auto& word : words(text)) {
    int count = 0;
    const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), count);
    if (failed != std::errc{} || end != word.data() + word.size() || count < 2 || count > 64)
      throw Error(Code::invalid_argument, fmt::format("not a number of ranks; got '{}', expected 2 to 64", word));
    counts.push_back(count);
  }
  return counts;
}

CommunicationProbe asked(const ProbeOptions& options) {
  CommunicationProbe probe;
  probe.transports = of_flag("--transport", [&] {
    const auto chosen = words(options.transports);
    for (const auto& text : chosen) choose_transport(text, {});
    return chosen.empty() ? self_standing_transports() : chosen;
  });
  of_flag("--collective", [&] {
    for (const auto& word : words(options.collectives)) probe.goals.push_back(goal_from_name(word));
  });
  probe.algorithms = words(options.algorithms);
  of_flag("--algorithm", [&] {
    std::vector<std::string> names{"native"};
    for (const auto& name : builtin_collectives().names()) {
      names.push_back(name);
      if (const auto slash = name.find('/'); slash != std::string::npos) names.push_back(name.substr(slash + 1));
    }
    for (const auto& word : probe.algorithms)
      if (const auto name = parse_spec(word).name; std::find(names.begin(), names.end(), name) == names.end())
        throw Error(Code::not_found, fmt::format("unknown algorithm '{}'{}", name, did_you_mean(name, names)));
  });
  probe.ranks = of_flag("--ranks", [&] { return rank_counts(options.ranks); });
  of_flag("--sizes", [&] {
    for (const auto& word : words(options.sizes)) {
      probe.sizes.push_back(static_cast<std::size_t>(parse_bytes(word).value));
      if (probe.sizes.back() < 4) throw Error(Code::invalid_argument, fmt::format("too small; got '{}', expected at least 4B, one element", word));
    }
    if (probe.sizes.empty()) throw Error(Code::invalid_argument, "no size");
  });
  if (options.memory != "own" && options.memory != "outside" && options.memory != "evicted")
    throw Error(Code::invalid_argument, fmt::format("--memory: got '{}', expected own (the transport's), outside (the caller's) or evicted (the transport's, in no cache any more)", options.memory));
  if (!options.fabric.empty()) of_flag("--fabric", [&] { return parse_fabric(options.fabric); });
  probe.fabric = options.fabric;
  probe.memory = options.memory;
  probe.check = !options.unchecked;
  probe.budget = of_flag("--budget", [&] { return parse_seconds(options.budget.empty() ? "100ms" : options.budget); });
  probe.timeout = of_flag("--timeout", [&] { return parse_seconds(options.timeout); });
  return probe;
}

ComputeProbe asked_to_compute(const ProbeOptions& options) {
  ComputeProbe probe;
  probe.networks = of_flag("--model", [&] {
    std::vector<ProbedNetwork> networks;
    const auto datasets = words(options.datasets);
    for (const auto& model : words(options.models)) networks.push_back(probed_network(model, datasets));
    return networks.empty() ? usual_probed_networks() : networks;
  });
  if (options.models.empty() && !options.datasets.empty()) throw Error(Code::invalid_argument, "--dataset: data sets are of networks; got no --model");
  probe.parts = of_flag("--parts", [&] {
    std::vector<ProbedPart> parts;
    for (const auto& word : words(options.parts)) {
      const auto colon = word.rfind(':');
      if (colon == std::string::npos || colon < word.rfind(']') + 1) throw Error(Code::invalid_argument, fmt::format("got '{}', expected a strategy that splits layers and a number of workers, as in tensor:2", word));
      parts.push_back({parse_spec(word.substr(0, colon)), static_cast<int>(parse_integer(word.substr(colon + 1), 2, 1024))});
    }
    return parts;
  });
  probe.batches = of_flag("--batch", [&] {
    std::vector<std::int64_t> batches;
    for (const auto& word : words(options.batches)) batches.push_back(parse_integer(word, 1, 1'000'000));
    std::sort(batches.begin(), batches.end());
    if (batches.empty()) throw Error(Code::invalid_argument, "no batch");
    return batches;
  });
  probe.precisions = of_flag("--precision", [&] {
    auto precisions = words(options.precisions);
    for (const auto& word : precisions) parse_choice(word, {"fp32", "bf16", "fp16", "tf32", "fp64"});
    if (precisions.empty()) throw Error(Code::invalid_argument, "no precision");
    return precisions;
  });
  probe.optimizers = of_flag("--optimizer", [&] {
    std::vector<std::string> optimizers;
    for (const auto& word : words(options.optimizers)) optimizers.push_back(to_string(parse_spec(word)));
    if (optimizers.empty()) throw Error(Code::invalid_argument, "no optimizer");
    return optimizers;
  });
  probe.compressions = of_flag("--compression", [&] {
    std::vector<std::string> compressions;
    for (const auto& word : words(options.compressions)) {
      compressions.push_back(to_string(choose_compression(word).spec));
      if (compressions.back() == "none") throw Error(Code::invalid_argument, "nothing to time; got none, expected a compression (ddlbench list compressions)");
    }
    return compressions;
  });
  probe.kernels = of_flag("--kernels", [&] { return parse_choice(options.kernels, {"fast", "torch"}); });
  probe.device = of_flag("--device", [&] {
    parse_choice(options.device, {"cpu", "cuda"});
    require_device(options.device);
    return options.device;
  });
  probe.threads = of_flag("--threads", [&] {
    if (options.threads < 1) throw Error(Code::invalid_argument, fmt::format("got {}, expected 1 or more", options.threads));
    return options.threads;
  });
  probe.budget = of_flag("--budget", [&] { return parse_seconds(options.budget.empty() ? "1s" : options.budget); });
  return probe;
}

StorageProbe asked_of_storage(const ProbeOptions& options) {
  StorageProbe probe;
  probe.folders = words(options.data);
  if (probe.folders.empty()) throw Error(Code::invalid_argument, "--data: folders whose storage is read; got none");
  probe.bytes = of_flag("--file", [&] { return parse_bytes(options.file).value; });
  if (!options.budget.empty()) probe.budget = of_flag("--budget", [&] { return parse_seconds(options.budget); });
  return probe;
}

LoaderProbe asked_of_loaders(const ProbeOptions& options) {
  LoaderProbe probe;
  probe.datasets = words(options.datasets);
  if (probe.datasets.empty()) throw Error(Code::invalid_argument, "--dataset: data sets whose samples are made; got none");
  probe.folder = options.data;
  probe.synthetic = options.synthetic;
  of_flag("--batch", [&] {
    for (const auto& word : words(options.batches)) probe.batch = parse_integer(word, 1, 1'000'000);
  });
  if (!options.budget.empty()) probe.budget = of_flag("--budget", [&] { return parse_seconds(options.budget); });
  return probe;
}

void print_data(const Json& document, const Output& output) {
  for (const auto& entry : document.value("storage", Json::array()))
    output.data(fmt::format("{}: {}/s, {:.0f} us for a read of 4 KiB anywhere\n", entry["folder"].get<std::string>(), to_string(Bytes{static_cast<std::int64_t>(entry["bytes_per_s"].get<double>())}),
                            entry["read_us"].get<double>()));
  for (const auto& entry : document.value("loader", Json::array()))
    output.data(fmt::format("{}{}: {:.3g} us for a sample, one thread\n", entry["dataset"].get<std::string>(), entry["synthetic"].get<bool>() ? ", made up" : "", entry["sample_us"].get<double>()));
}

std::string rate(const Json& bits) { return bits.is_null() ? "-" : fmt::format("{:.{}f}", bits.get<double>() / 8, bits.get<double>() < 80 ? 2 : 1); }
std::string micros(const Json& value) { return value.is_null() ? "-" : fmt::format("{:.{}f}", value.get<double>(), value.get<double>() < 100 ? 2 : 0); }

void print_table(const Json& document, const Output& output) {
  std::vector<std::vector<std::string>> rows{{"transport", "ranks", "collective", "algorithm", "size", "time us", "95 % interval", "alg GB/s", "bus GB/s", "fit us", "limit us"}};
  for (const auto& row : document["results"]) {
    const auto& time = row["time_us"];
    rows.push_back({row["transport"], fmt::format("{}", row["ranks"].get<int>()), row["collective"], row["algorithm"], to_string(Bytes{row["bytes"].get<std::int64_t>()}),
                    micros(time["median"]), fmt::format("{} to {}", micros(time["low"]), micros(time["high"])), rate(row["algorithm_gbps"]), rate(row["bus_gbps"]),
                    micros(row["fit_us"]), micros(row["limit_us"])});
  }
  output.data(columns(rows));
}

void print_choices(const Json& document, const Output& output) {
  for (const auto& piece : document["fit"])
    if (piece["from_bytes"].get<std::size_t>() == 0)
      output.say(fmt::format("{}, {} ranks, {}: the fit misses by {:.1f} % on the mean, {}", piece["transport"].get<std::string>(), piece["ranks"].get<int>(),
                             piece["path"].get<std::string>(), piece["mean_error_pct"].get<double>(),
                             piece["held_out_error_pct"].is_null() ? "with nothing left to judge it by"
                                                                   : fmt::format("by {:.1f} % what was held out of it", piece["held_out_error_pct"].get<double>())));
  for (const auto& choice : document["best"]) {
    if (choice["collective"] != "all-reduce") continue;
    const auto from = choice["from_bytes"].get<std::size_t>(), to = choice["to_bytes"].get<std::size_t>();
    output.say(fmt::format("{}, {} ranks: all-reduce from {}{} is fastest by {}", choice["transport"].get<std::string>(), choice["ranks"].get<int>(),
                           to_string(Bytes{static_cast<std::int64_t>(from)}),
                           to == ~std::size_t{0} ? " up" : " to " + to_string(Bytes{static_cast<std::int64_t>(to)}), choice["algorithm"].get<std::string>()));
  }
}

void say_contention(const Json& document, const Output& output) {
  for (const auto& entry : document["contention"])
    output.say(fmt::format("{} of {} workers{}{}: {:.2f} times as long{}", entry.value("load", entry.value("network", std::string())), entry["workers"].get<int>(),
                           entry.contains("strategy") ? " by " + entry["strategy"].get<std::string>() : "", entry.contains("transport") ? fmt::format(" beside an all-reduce over {}", entry["transport"].get<std::string>()) : "", entry["slowdown"].get<double>(),
                           entry.contains("collective_slowdown") ? fmt::format(", the all-reduce {:.2f}", entry["collective_slowdown"].get<double>()) : ""));
}

void print_memory(const Json& document, const Output& output) {
  std::vector<std::vector<std::string>> rows{{"what", "threads", "bytes", "GB/s"}};
  for (const auto& entry : document["memory"])
    rows.push_back({entry["what"], fmt::format("{}", entry["threads"].get<int>()), to_string(Bytes{entry["bytes"].get<std::int64_t>()}), fmt::format("{:.2f}", entry["bytes_per_s"].get<double>() * 1e-9)});
  output.data(columns(rows));
  say_contention(document, output);
}

void print_compute(const Json& document, const Output& output) {
  const auto number = [](const Json& value) { return fmt::format("{:.3f}", value.get<double>()); };
  std::vector<std::vector<std::string>> rows{{"network", "data set", "batch", "precision", "step ms", "forward", "backward", "update", "layers forward", "layers backward", "correction"}};
  const auto has_graphs = [](const Json& entry) { return entry["graphs"].is_object() && entry["graphs"].contains("wall_ms"); };
  const bool any_graphs = std::any_of(document["compute"].begin(), document["compute"].end(), has_graphs);
  if (any_graphs) rows[0].emplace_back("step by graphs");
  for (const auto& entry : document["compute"]) {
    const auto& step = entry["step"];
    rows.push_back({entry["network"], entry["dataset"], fmt::format("{}", entry["batch"].get<std::int64_t>()), entry["precision"], number(step["wall_ms"]), number(step["forward_ms"]),
                    number(step["backward_ms"]), number(step["update_ms"]), number(entry["forward_ms"]), number(entry["backward_ms"]), number(entry["correction"])});
    if (any_graphs) rows.back().push_back(has_graphs(entry) ? number(entry["graphs"]["wall_ms"]) : "-");
  }
  output.data(columns(rows));
  for (const auto& entry : document["compute"])
    if (entry["graphs"].is_object() && entry["graphs"].contains("why_not"))
      output.say(fmt::format("{} at batch {}, {}: no steps whose passes are graphs: {}", entry["network"].get<std::string>(), entry["batch"].get<std::int64_t>(), entry["precision"].get<std::string>(), entry["graphs"]["why_not"].get<std::string>()));
  double waited = 0;
  for (const auto& entry : document["compute"]) waited = std::max(waited, entry["waited"].get<double>());
  if (waited > 0.02) output.say(fmt::format("others had the processor up to {:.0f} % of the time: measure again when nothing else runs", 100 * waited));
  say_contention(document, output);
}

/// What is known of this machine. A profile of another machine, or one that cannot be read, is not written over.
Json known_of(const std::string& path, const Json& environment) {
  if (!std::filesystem::exists(path)) return new_machine(environment);
  auto machine = read_machine_to_measure(path);
  if (!same_machine(machine, environment))
    throw Error(Code::invalid_argument, fmt::format("--machine: {} is of another machine; got {}, here is {}; give another file", path, machine["cpu"].dump(), new_machine(environment)["cpu"].dump()));
  return machine;
}

/// Adds to it.
void keep(const std::string& path, const Json& document) {
  auto machine = known_of(path, document["environment"]);
  require_same_devices(machine, document);
  add_memory(machine, document["environment"]);
  if (document["kind"] == "storage" || document["kind"] == "loader") add_data_to_machine(machine, document);
  else document["kind"] == "compute" || document["kind"] == "memory" ? add_compute_to_machine(machine, document) : add_to_machine(machine, document);
  write_machine(path, machine);
}

/// What was run, of traces that do not say it.
Settings told_of_trace(const ProbeOptions& options, const CLI::App& app) {
  Settings told;
  for (const auto& [flag, key, value] : {std::tuple{"--model", "model", options.models}, {"--dataset", "dataset", options.datasets}, {"--batch", "batch", options.batches}, {"--precision", "precision", options.precisions},
                                         {"--optimizer", "optimizer", options.optimizers}, {"--kernels", "kernels", options.kernels}})
    if (app.count(flag) > 0) set(told, key, value, flag);
  for (const auto* flag : {"--threads", "--device"})
    if (app.count(flag) > 0) set(told, "workers", fmt::format("{}[threads={}]", of_flag("--device", [&] { return parse_choice(options.device, {"cpu", "cuda"}); }), options.threads), flag);
  return told;
}

/// A path where a profile is written; empty or "none": none is.
std::string profile_path(const ProbeOptions& options) { return options.machine.empty() ? default_machine_path() : options.machine; }

/// What `options.what` says, measured, and put into the profile.
Json measure(const ProbeOptions& options, AgentHub* launched) {
  const bool of_memory = options.what == "memory", computes = options.what == "compute" || of_memory, of_data = options.what == "storage" || options.what == "loader";
  const auto to_compute = computes ? asked_to_compute(options) : ComputeProbe{};
  const auto probe = computes || of_data ? CommunicationProbe{} : asked(options);
  const auto to_read = options.what == "storage" ? asked_of_storage(options) : StorageProbe{};
  const auto to_load = options.what == "loader" ? asked_of_loaders(options) : LoaderProbe{};
  const auto path = profile_path(options);
  // A test network is no property of this machine, unless a file of its own was asked for.
  const bool keeps = options.keep && !path.empty() && path != "none" && (options.fabric.empty() || computes || !options.machine.empty());
  if (keeps) known_of(path, capture_environment());  // before minutes are spent
  Json document;
  {
    ProgressLine progress(options.output);
    progress.begin("", 1, 1);
    document = options.what == "storage"  ? probe_storage(to_read)
               : options.what == "loader" ? probe_loader(to_load)
               : of_memory                ? probe_memory(to_compute, progress.events())
               : computes                 ? probe_compute(to_compute, progress.events())
                                          : probe_communication(probe, progress.events(), launched);
  }
  // What only the profile needs.
  const bool whole = document["state"] == "ok" || document["state"] == "partial";
  if (keeps && whole) try {
    keep(path, document);
    document["machine"] = path;
  } catch (const Error& error) {
    // What was measured is told all the same.
    document["failed"].push_back({{"what", "the machine profile"}, {"reason", error.what()}});
    document["state"] = "partial";
  }
  document.erase("machine_parts");
  return document;
}

void print(const ProbeOptions& options, const Json& document) {
  const auto& output = options.output;
  const auto kind = document["kind"].get<std::string>();
  const bool of_comm = kind != "storage" && kind != "loader" && kind != "memory" && kind != "compute";
  if (!output.json) {
    kind == "storage" || kind == "loader" ? print_data(document, output) : kind == "memory" ? print_memory(document, output) : kind == "compute" ? print_compute(document, output) : print_table(document, output);
    if (of_comm) print_choices(document, output);
  }
  if (document.contains("machine")) output.say(fmt::format("written: {}{}", document["machine"].get<std::string>(), of_comm ? " (runs here with --collective auto follow it)" : ""));
  if (of_comm && !options.report.empty()) output.say("written: " + options.report);
  for (const auto& failed : document["failed"]) print_error(failed.contains("what") ? fmt::format("{}: {}", failed["what"].get<std::string>(), failed["reason"].get<std::string>()) : failed["reason"].get<std::string>());
}

Exit exit_of(const std::string& state) { return state == "interrupted" ? Exit::interrupted : state == "ok" ? Exit::ok : state == "partial" ? Exit::partial : Exit::failure; }

/// From which size on a buffer can have left the caches before it is exchanged.
constexpr std::int64_t kMayBeEvicted = std::int64_t{1} << 20;

/// One of the measurements that a bare `probe` makes.
struct Turn {
  std::string what, memory = "own", sizes;
};

/// Computing, with memory; then communication of each kind of memory that predictions tell apart: the transport's own, that of what layers make, and what has left the caches, which only large buffers do.
std::vector<Turn> all_turns(const ProbeOptions& options) {
  std::vector<Turn> turns{{"compute"}, {"comm", options.memory, options.sizes}};
  if (options.memory != "own") return turns;
  turns.push_back({"comm", "outside", options.sizes});
  std::vector<std::string> large;
  for (const auto& size : words(options.sizes))
    if (parse_bytes(size).value >= kMayBeEvicted) large.push_back(size);
  // From the smallest of them on, which is as large as a first bucket.
  const auto smallest = [&](const std::string& size) { return parse_bytes(size).value == kMayBeEvicted; };
  if (!large.empty() && std::none_of(large.begin(), large.end(), smallest)) large.insert(large.begin(), fmt::format("{}B", kMayBeEvicted));
  if (!large.empty()) turns.push_back({"comm", "evicted", join(large, ",")});
  return turns;
}

/// What predictions need of a machine. Each is in the profile as soon as it is measured.
Exit act_on_all(ProbeOptions options) {
  // A flag of the second that cannot be read must not wait for the first.
  asked_to_compute(options);
  asked(options);
  Json parts = Json::array();
  std::string state = "ok";
  for (const auto& turn : all_turns(options)) {
    options.what = turn.what;
    options.memory = turn.memory;
    options.sizes = turn.sizes;
    parts.push_back(measure(options, nullptr));
    const auto own = parts.back()["state"].get<std::string>();
    if (own == "interrupted" || (own != "ok" && state != "failed")) state = own;
    if (own == "interrupted") break;
  }
  // Of the first of comm.
  if (!options.report.empty() && parts.size() > 1) write_file(options.report, render_probe(parts[1]));
  if (options.output.json) options.output.document({{"schema", "ddlbench.probe/1"}, {"kind", "all"}, {"state", state}, {"parts", parts}});
  for (const auto& part : parts) print(options, part);
  options.output.say("not measured: storage and loaders, which are of folders and data sets (ddlbench probe storage --data FOLDER, probe loader --dataset NAME)");
  return exit_of(state);
}

Exit act(ProbeOptions options, AgentHub* launched, const CLI::App& app) {
  // Ranks of a launcher can measure no more.
  if (options.what == "all" && launched != nullptr) options.what = "comm";
  if (options.what != "all" && options.what != "comm" && options.what != "compute" && options.what != "memory" && options.what != "storage" && options.what != "loader" && options.what != "import" && options.what != "merge")
    throw Error(Code::unsupported, fmt::format("probe: unsupported: '{}' is not in this version; expected all, comm, compute, memory, storage, loader, import or merge", options.what));
  if (options.what == "import") return import_traces(options.files, told_of_trace(options, app), options.machine, options.output);
  if (options.what == "merge") return merge_profiles(options.files, options.machine, options.output);
  if (!options.files.empty()) throw Error(Code::invalid_argument, fmt::format("probe {}: it reads no file; got '{}', expected probe import or merge", options.what, options.files.front()));
  const bool of_memory = options.what == "memory", computes = options.what == "compute" || of_memory, of_data = options.what == "storage" || options.what == "loader";
  if (computes && launched != nullptr) throw Error(Code::unsupported, fmt::format("probe: unsupported: {} is measured by processes of its own; got ranks of a launcher, expected ddlbench started plainly", options.what));
  if (computes && !options.report.empty()) throw Error(Code::unsupported, fmt::format("--report: unsupported: a page is of comm; got {}", options.what));
  for (const auto* flag : {"--model", "--parts", "--dataset", "--batch", "--precision", "--optimizer", "--compression", "--kernels"})
    if (of_memory && app.count(flag) > 0) throw Error(Code::invalid_argument, fmt::format("{}: is of networks; got memory, expected probe compute", flag));
  if (of_data && launched != nullptr) throw Error(Code::unsupported, fmt::format("probe: unsupported: {} is measured by one process; got ranks of a launcher, expected ddlbench started plainly", options.what));
  if (of_data && !options.report.empty()) throw Error(Code::unsupported, fmt::format("--report: unsupported: a page is of comm; got {}", options.what));
  const SignalsHeld held;
  if (options.what == "all") return act_on_all(options);
  const auto document = measure(options, launched);
  if (!options.report.empty()) write_file(options.report, render_probe(document));
  if (options.output.json) options.output.document(document);
  print(options, document);
  return exit_of(document["state"].get<std::string>());
}

}  // namespace

Command add_probe(CLI::App& root, AgentHub* launched) {
  auto options = std::make_shared<ProbeOptions>();
  auto* app = add_command(root, "probe", "Measure this machine: what collectives cost, networks, layer by layer, memory, storage and loaders.", options->output,
                          {"ddlbench probe --model lenet --batch 8,32 --budget 20ms --transport shm", "ddlbench probe comm --collective all-reduce", "ddlbench probe comm --transport tcp --collective all-reduce --sizes 64KiB,4MiB --machine none --json",
                           "ddlbench probe comm --transport mpi[implementation=openmpi] --algorithm native,ring --machine none",
                           "ddlbench probe comm --ranks 2,4 --collective broadcast,reduce --report comm.html",
                           "ddlbench probe compute --model lenet --batch 8,32 --budget 200ms",
                           "ddlbench probe memory --budget 200ms",
                           "ddlbench probe storage --data . --file 64MiB --budget 200ms",
                           "ddlbench probe loader --dataset fashion-mnist --synthetic --batch 64 --budget 200ms",
                           "ddlbench probe compute --model mlp,lenet --batch 16 --precision fp32,bf16 --optimizer adam --budget 100ms --machine none --json"});
  app->add_option("what", options->what, "What to measure: comm, compute (memory too), memory, storage or loader; all: compute and comm, which predictions need; import: to read compute from execution traces; merge: to put other profiles of a machine into one.")->type_name("all|comm|compute|memory|storage|loader|import|merge")->capture_default_str();
  app->add_option("files", options->files, "import: execution traces in MLCommons' Chakra format, one a rank; merge: machine profiles.")->type_name("FILE");
  app->add_option("--transport", options->transports, "Transports, by commas, mpi too; all that need no library unless given.")->type_name("LIST");
  app->add_option("--collective", options->collectives, "Collectives, by commas; all unless given.")->type_name("LIST");
  app->add_option("--algorithm", options->algorithms, "Algorithms, by commas, with options in brackets; all unless given.")->type_name("LIST");
  app->add_option("--ranks", options->ranks, "Numbers of ranks, by commas.")->type_name("LIST")->capture_default_str();
  app->add_option("--sizes", options->sizes, "Bytes of each rank's buffer, by commas.")->type_name("LIST")->capture_default_str();
  app->add_option("--memory", options->memory, "Buffers: own (the transport's), outside (the heap's), or evicted (the transport's, in no cache any more).")->type_name("own|outside|evicted")->capture_default_str();
  app->add_option("--budget", options->budget, "Time for each measurement: 100ms of comm, 1s of compute, memory and loader, 2s of storage unless given.")->type_name("TIME");
  app->add_option("--timeout", options->timeout, "Time after which a collective is given up.")->type_name("TIME")->capture_default_str();
  app->add_option("--machine", options->machine, "Machine profile to add to; none: write none. By default this machine's own.")->type_name("FILE");
  app->add_option("--fabric", options->fabric, "Test network of several hosts on this machine, for tcp and Open MPI; takes root. As in hosts=4,bandwidth=1Gbps,latency=100us.")->type_name("FABRIC");
  app->add_option("--report", options->report, "Also write a page with plots of fit over measurement.")->type_name("FILE");
  app->add_option("--model", options->models, "compute: networks, by commas; a few small ones unless given.")->type_name("LIST");
  app->add_option("--dataset", options->datasets, "compute: data sets whose samples, made up, the networks are given, by commas. Each network takes the first that is for it. loader: data sets whose samples are made.")->type_name("LIST");
  app->add_option("--parts", options->parts, "compute: also what strategies that split layers leave of each network to one of so many workers, by commas, as in tensor:2,tensor[split=height]:4.")->type_name("LIST");
  app->add_option("--batch", options->batches, "compute: samples of a step, by commas. loader: of a batch, the last of them.")->type_name("LIST")->capture_default_str();
  app->add_option("--precision", options->precisions, "compute: number formats, by commas.")->type_name("LIST")->capture_default_str();
  app->add_option("--optimizer", options->optimizers, "compute: optimizers, by commas; networks are trained with the first.")->type_name("LIST")->capture_default_str();
  app->add_option("--compression", options->compressions, "compute: compressions of gradients, by commas, as in top-k[ratio=0.1]. All, as they are usually, unless given.")->type_name("LIST");
  app->add_option("--kernels", options->kernels, "compute: fast, or torch.")->type_name("fast|torch")->capture_default_str();
  app->add_option("--device", options->device, "compute, memory: where workers compute. cuda: networks on the first GPU, workers at once on one each. import: where the trace's did.")->type_name("cpu|cuda")->capture_default_str();
  app->add_option("--threads", options->threads, "compute, memory, import: threads of a worker.")->type_name("N")->capture_default_str();
  app->add_option("--data", options->data, "storage: folders, by commas, in each of which a file is written, read and removed. loader: the folder of the data set.")->type_name("FOLDER");
  app->add_option("--file", options->file, "storage: bytes of that file.")->type_name("SIZE")->capture_default_str();
  app->add_flag("--synthetic", options->synthetic, "loader: samples that are made up.");
  app->add_flag("--no-check", options->unchecked, "Do not compare results with what they must be.");
  return {app, [options, launched, app] { return act(*options, launched, *app); }};
}

}  // namespace ddl
