"""Tables of what bench/training.py measured: each arm's figures, then ours beside each peer and whether the goal is met. Goals stand in training_cases.py."""
import statistics

from common import ratio
from networks import median_interval
from predictions import STOLEN
from pulse import CALM, apart
from training_cases import (AGAINST_DDP, AGAINST_DDP_COMMUNICATING, AGAINST_STRATEGIES, AGAINST_TENSORFLOW, CASES, COMPUTING, EFFICIENCY, EXPOSED, MEMORY, communicates, goal_against_pytorch)

STRATEGIES = ("MirroredStrategy", "MultiWorkerMirrored")
NOT_MEASURED = "not measured"


def short(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def all_steps(runs, key):
    return [ms for run in runs for ms in run[key]]


def medians(runs, key="step_ms"):
    return [statistics.median(run[key]) for run in runs]


def peak(runs):
    """Of the largest process, bytes."""
    return statistics.median(max(run["peak_memory_bytes"]) for run in runs)


class Rows:
    """Results by network, precision and workers. Of several of one row the newest that has an arm counts for it, and gives what it is compared with."""

    def __init__(self, results):
        self.results = results

    def with_arms(self, network, precision, workers, *arms):
        """The newest result with all these arms measured; None where there is none."""
        for each in reversed(self.results):
            if (each["network"], each["precision"], each["workers"]) == (network, precision, workers) and all(each["runs"].get(arm) for arm in arms):
                return each
        return None

    def why_not(self, network, precision, workers, arm):
        for each in reversed(self.results):
            if (each["network"], each["precision"], each["workers"]) == (network, precision, workers):
                if arm in each["failed"]:
                    return f"failed: {each['failed'][arm]}"
                if arm in each["missing"]:
                    return each["missing"][arm]
        return "not asked for"

    def threads(self):
        """Of a worker, in words; of all results the same."""
        count = self.results[0]["case"].get("threads", 1)
        return "one thread" if count == 1 else f"{count} threads"

    def networks(self, precision, workers):
        there = {each["network"] for each in self.results if (each["precision"], each["workers"]) == (precision, workers)}
        return [name for name in CASES if name in there]

    def arms(self, network, precision, workers):
        """In the order in which they were told of: those that were measured, failed or are missing."""
        rows = [each for each in self.results if (each["network"], each["precision"], each["workers"]) == (network, precision, workers)]
        return list(dict.fromkeys(arm for each in rows for arm in (*each["runs"], *each["failed"], *each["missing"])))


def form_of(result, arm):
    """How a peer was run, where there are several ways."""
    form = result["forms"].get(arm.split(",")[0], {"taken": "as it comes"})["taken"]
    return f" ({form})" if form != "as it comes" else ""


def pairs(result, mine, other, key):
    """Both arms' medians of each round that has both."""
    rounds = {run["round"]: run for run in result["runs"][mine]}
    both = [(rounds[run["round"]], run) for run in result["runs"][other] if run["round"] in rounds]
    return medians([a for a, _ in both], key), medians([b for _, b in both], key)


def faster_by(result, other, key="step_ms", mine="ddlbench"):
    """Theirs over ours, pair by pair: median and interval (ratio())."""
    own, theirs = pairs(result, mine, other, key)
    return ratio(theirs, own)


def verdict(value, goal, at_most=False, share=False):
    met = value <= goal if at_most else value >= goal
    return f"goal {'≤' if at_most else '≥'} {f'{goal:.0%}' if share else f'{goal:g}'}: **{'met' if met else 'missed'}**"


def sureness(rounds, low, high, goal):
    """Of a verdict: what one round says, the next may not; and a goal within the least and most of several is neither met nor missed."""
    if rounds < 2:
        return ", one round"
    return ", not told apart from it" if low < goal <= high else ""


def against(rows, network, precision, workers, arm, goal):
    result = rows.with_arms(network, precision, workers, "ddlbench", arm)
    if result is None:
        return f"{NOT_MEASURED}: {rows.why_not(network, precision, workers, arm)}"
    middle, low, high = faster_by(result, arm)
    both = len(pairs(result, "ddlbench", arm, "step_ms")[0])
    return f"{middle:.2f} [{low:.2f} to {high:.2f}], CPU {faster_by(result, arm, 'cpu_ms')[0]:.2f}; {verdict(middle, goal)}{sureness(both, low, high, goal)}"


def memory(rows, network, precision, workers, arm):
    result = rows.with_arms(network, precision, workers, "ddlbench", arm)
    if result is None:
        return NOT_MEASURED
    share = peak(result["runs"]["ddlbench"]) / peak(result["runs"][arm])
    return f"{share:.2f}; {verdict(share, MEMORY, at_most=True)}"


def communication_share(rows, network, precision):
    """Of DDP's step, what one worker of PyTorch does not take, in the same rounds where those have one; None where either was not measured."""
    if both := rows.with_arms(network, precision, 2, "DDP", "PyTorch, one worker"):
        alone, together = pairs(both, "PyTorch, one worker", "DDP", "step_ms")
        return 1 - statistics.median(alone) / statistics.median(together)
    one, two = rows.with_arms(network, precision, 1, "PyTorch"), rows.with_arms(network, precision, 2, "DDP")
    if one is None or two is None:
        return None
    return 1 - statistics.median(all_steps(one["runs"]["PyTorch"], "step_ms")) / statistics.median(all_steps(two["runs"]["DDP"], "step_ms"))


def better_strategy(rows, network, precision):
    """TensorFlow's faster one."""
    both = {arm: rows.with_arms(network, precision, 2, "ddlbench", arm) for arm in STRATEGIES}
    times = {arm: statistics.median(all_steps(result["runs"][arm], "step_ms")) for arm, result in both.items() if result}
    return min(times, key=times.get) if times else None


def against_strategies(rows, network, precision):
    better = better_strategy(rows, network, precision)
    if better is None:
        return f"{NOT_MEASURED}: {rows.why_not(network, precision, 2, STRATEGIES[0])}"
    without = [arm for arm in STRATEGIES if not rows.with_arms(network, precision, 2, arm)]
    return f"{better}: {against(rows, network, precision, 2, better, AGAINST_STRATEGIES)}" + "".join(f" ({arm} {NOT_MEASURED}: {rows.why_not(network, precision, 2, arm)})" for arm in without)


def efficiency(rows, network, precision):
    result = rows.with_arms(network, precision, 2, "ddlbench", "ddlbench, one worker")
    if result is None:
        return NOT_MEASURED
    two, one = pairs(result, "ddlbench", "ddlbench, one worker", "step_ms")
    middle, low, high = ratio(one, two)
    return f"{middle:.3f} [{low:.3f} to {high:.3f}]; " + (verdict(middle, EFFICIENCY) + sureness(len(two), low, high, EFFICIENCY) if network in COMPUTING else "no goal")


def exposed(rows, network, precision):
    result = rows.with_arms(network, precision, 2, "ddlbench")
    if result is None:
        return NOT_MEASURED
    shares = [run["exposed"] for run in result["runs"]["ddlbench"]]
    share, waited = statistics.median(shares), statistics.median(run["waited"] for run in result["runs"]["ddlbench"])
    goal = EXPOSED.get(network)
    return f"{share:.1%}, waiting for the other {waited:.1%}" + (f"; {verdict(share, goal, at_most=True, share=True)}{sureness(len(shares), min(shares), max(shares), goal)}" if goal else "")


def disturbed(rows, network, precision, workers):
    """Fixed work on all cores before and after each run: by how much the slowest of it was slower than the median, or changed within a run; what a hypervisor took; and how many processes wanted the cores."""
    runs = [run for each in rows.results if (each["network"], each["precision"], each["workers"]) == (network, precision, workers) for arm in each["runs"].values() for run in arm]
    if not runs:
        return "-"
    usual = statistics.median(run["pace_s"] for run in runs)
    most = max(max(run["slowed"], apart(run["pace_s"], usual)) for run in runs)
    taken = max(run["stolen"] for run in runs)
    told = f"{most:.0%}, stolen {taken:.1%}, load {max(run['load'] for run in runs):.1f}"
    return told if most <= CALM and taken <= STOLEN else f"**{told}**"


def figures(rows, precision, workers):
    print("| network, samples a worker | | ms a step | CPU ms | samples/s | MiB |\n|---|---|---|---|---|---|")
    for network in rows.networks(precision, workers):
        for arm in rows.arms(network, precision, workers):
            name = f"| {network}, {CASES[network]['batch']} | {arm}"
            result = rows.with_arms(network, precision, workers, arm)
            if result is None:
                print(f"{name} | {NOT_MEASURED}: {rows.why_not(network, precision, workers, arm)} | | | |")
                continue
            runs, samples = result["runs"][arm], CASES[network]["batch"] * (1 if arm.endswith(", one worker") else workers)
            middle, low, high = median_interval(all_steps(runs, "step_ms"))
            print(f"{name}{form_of(result, arm)} | {short(middle)} [{short(low)} to {short(high)}] | {short(statistics.median(all_steps(runs, 'cpu_ms')))} | {short(1e3 * samples / middle)} | {peak(runs) / 2**20:,.0f} |")


def goals_of_one(rows, precision):
    print("\n| network | faster than PyTorch by | than TensorFlow by | memory, of PyTorch's | disturbed by |\n|---|---|---|---|---|")
    for network in rows.networks(precision, 1):
        print(f"| {network} | {against(rows, network, precision, 1, 'PyTorch', goal_against_pytorch(CASES[network]))} | {against(rows, network, precision, 1, 'TensorFlow', AGAINST_TENSORFLOW)} | "
              f"{memory(rows, network, precision, 1, 'PyTorch')} | {disturbed(rows, network, precision, 1)} |")


def goals_of_two(rows, precision):
    print("\n| network | faster than DDP by | communication, of DDP's step | than TensorFlow's better strategy by | efficiency | exposed communication | memory, of DDP's | disturbed by |\n|---|---|---|---|---|---|---|---|")
    for network in rows.networks(precision, 2):
        share = communication_share(rows, network, precision)
        print(f"| {network} | {against(rows, network, precision, 2, 'DDP', AGAINST_DDP_COMMUNICATING if communicates(network, share) else AGAINST_DDP)} | {NOT_MEASURED if share is None else f'{share:.0%}'} | "
              f"{against_strategies(rows, network, precision)} | {efficiency(rows, network, precision)} | {exposed(rows, network, precision)} | {memory(rows, network, precision, 2, 'DDP')} | "
              f"{disturbed(rows, network, precision, 2)} |")


def processor(machine):
    """"AMD EPYC, 2,596 MHz, avx512_bf16": its model, and the widest of what tells what it multiplies by."""
    cpu = (machine.get("environment") or {}).get("cpu") or {}
    widest = next((each for each in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if each in cpu.get("isa", ())), None)
    return ", ".join(filter(None, (cpu.get("model") or "a processor that does not say", f"{cpu['mhz']:,.0f} MHz" if cpu.get("mhz") else None, widest)))


def about(results):
    """When, on which processor, what."""
    dates = sorted({each["date"] for each in results})
    versions = {}
    for each in results:
        for arm, runs in each["runs"].items():
            package = "ddlbench" if arm.startswith("ddlbench") else "PyTorch" if arm.startswith(("PyTorch", "DDP")) else "TensorFlow"
            versions.setdefault(package, set()).update(run["version"] for run in runs)
    processors = {processor(each["machine"]) for each in results}
    return f"{' to '.join(dict.fromkeys((dates[0], dates[-1])))}; {', '.join(sorted(processors))}; " + "; ".join(f"{package} {', '.join(sorted(each))}" for package, each in versions.items())


def show(results):
    rows = Rows(results)
    print(about(results))
    for precision in ("fp32", "bf16"):
        for workers in (1, 2):
            if not rows.networks(precision, workers):
                continue
            print(f"\n{workers} worker{'s' if workers > 1 else ''} of {rows.threads()}, {precision}; medians of all steps with 95 % intervals; CPU: user and system time of a step, all workers; MiB: the largest process's peak"
                  f"{', both workers of MirroredStrategy being one' if workers > 1 else ''}\n")
            figures(rows, precision, workers)
            (goals_of_one if workers == 1 else goals_of_two)(rows, precision)
    print("\nRatios are of rounds, theirs over ours, with 95 % intervals (of fewer than six rounds the least and the most); goals are judged by wall time. Disturbed: by how much fixed work on all cores went slower around some run than around most; then what a hypervisor "
          f"took; bold where that is over {CALM:.0%} or {STOLEN:.0%}. Then the load at its highest, the arms' own included.")
