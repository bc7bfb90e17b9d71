"""Bubbles of our pipelines beside their schedules' ideals, on stages that are exactly equal.

The network is `null[layers=8,ms=10,backward=1,weights=1]`: each of its layers waits 10 ms forward, 10 for the gradient of its input and 10 for that of its weights,
and computes next to nothing, so that neither the kernels nor others on the machine make stages uneven. `balance` cannot measure such a network better than by
count, so stages are given. Measured is what the ledger has, of each worker's wall time and the mean of all workers: `bubble` (until a message was on its way)
and `wait` (for workers that come to a collective later).
Goal: within 5 % of the ideal; of an ideal that is only a bound from below (zbv's is none at all), the difference is shown.
"""
import functools

from networks import images, median_interval
from strategy_arms import interleave, ours

LAYERS = 8
NULL = {"model": "null", "options": {"layers": str(LAYERS), "ms": "10", "backward": "1", "weights": "1"}, "dataset": "cifar10", "shape": images(3, 32, 10), "steps": 8}
SCHEDULES = {"gpipe": 1, "1f1b": 1, "looped-bfs": 2, "interleaved-1f1b": 2, "zb-h1": 1, "zbv": 2, "dualpipev": 2}  # and stages a worker
CASES = {"2x4": (2, 4), "2x8": (2, 8), "4x8": (4, 8)}  # workers, micro-batches


def stages(workers, chunks):
    """The first has the pool and the flattening, too."""
    each = 2 * LAYERS // (workers * chunks)
    return "/".join(str(each + (2 if stage == 0 else 0)) for stage in range(workers * chunks))


def run(name, rounds, steps=None):
    workers, micro = CASES[name]
    case = {**NULL, "batch": 2 * micro, "steps": steps or NULL["steps"]}
    arms = {}
    for schedule, chunks in SCHEDULES.items():
        chunked = f",chunks={chunks}" if chunks > 1 else ""
        strategy = f"pipeline[schedule={schedule},micro={micro}{chunked},stages={stages(workers, chunks)}]"
        arms[schedule] = functools.partial(measured, case, strategy, workers)
    arms["model"] = functools.partial(measured, case, f"model[stages={stages(workers, 1)}]", workers)
    runs, missing = interleave(name, arms, rounds)
    return {"case": name, **case, "workers": workers, "micro": micro, "runs": runs, "missing": missing}


def measured(case, strategy, workers):
    result = ours(case, strategy, workers, extra=("--trace", "all"))
    done = result.pop("record")
    bubble = done["plan"]["bubble"]
    ledgers = list(zip(result["ledger_ms"], result["wall_ms"]))
    share = {cause: sum(ledger[cause] / wall for ledger, wall in ledgers) / workers for cause in ledgers[0][0]}
    return {**result, "ideal": bubble["ideal"], "exact": bubble["exact"], "share": share, "measured": share["bubble"] + share["wait"]}


def show(result):
    print(f"\n{result['workers']} workers, {result['micro']} micro-batches, {LAYERS} layers that wait {result['options']['ms']} ms forward, as long for the gradient of the input and "
          "as long for that of the weights; shares of wall time, the mean of all workers; medians of all runs with 95 % intervals\n\n"
          "| schedule | ideal | bubble + wait | off the ideal by | of it bubble | exposed communication | ms a step |\n|---|---|---|---|---|---|---|")
    for arm, runs in result["runs"].items():
        ideal = runs[0]["ideal"]
        middle, low, high = median_interval([run["measured"] for run in runs])
        step = median_interval([ms for run in runs for ms in run["step_ms"]])
        bubble, communication = (median_interval([run["share"][cause] for run in runs])[0] for cause in ("bubble", "communication"))
        off = f"{100 * (middle / ideal - 1):+.1f} %" if runs[0]["exact"] else f"{100 * (middle - ideal):.2f} % of wall time"
        print(f"| {arm} | {'' if runs[0]['exact'] else 'at least '}{100 * ideal:.2f} % | {100 * middle:.2f} % [{100 * low:.2f} to {100 * high:.2f}] | {off} | {100 * bubble:.2f} % | "
              f"{100 * communication:.2f} % | {step[0]:.1f} [{step[1]:.1f} to {step[2]:.1f}] |")
