"""Arms of the benchmarks of strategies: runs of ours and of peers, interleaved, every step of every run kept.

A case is a dictionary {model, options{}, dataset, shape{}, batch, steps, …}; an arm is a function that runs one and returns
{step_ms: [...], peak_memory_bytes: [...], …}, or a word that says why it cannot run here.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from common import BINARY, interval_words, record
from networks import median_interval

PEERS = pathlib.Path(__file__).resolve().parent / "peers"
WARM_UP = 2  # steps of a run, before those that count


def model_of(case):
    options = ",".join(f"{key}={value}" for key, value in case["options"].items())
    return case["model"] + (f"[{options}]" if options else "")


def strategies_here():
    listed = subprocess.run([BINARY, "list", "strategies", "--json"], capture_output=True, text=True, check=True)
    return [item["name"] for item in json.loads(listed.stdout)["items"]]


def ours(case, strategy, workers=2, steps=None, extra=()):
    """Without a trace unless `extra` says otherwise. `record` has what else there is to know of the run."""
    done = record("--model", model_of(case), "--dataset", case["dataset"], "--synthetic", "--train-samples", max(16, case.get("train_samples", 4 * case["batch"])),
                  "--test-samples", 16, "--no-evaluate", "--steps", (steps or case["steps"]) + WARM_UP, "--workers", workers, "--batch", case["batch"],
                  "--strategy", strategy, "--learning-rate", 0.001, *(extra or ("--trace", "off")))
    ranks = done["ranks"]
    return {"step_ms": [max(times) for times in zip(*(rank["step_ms"]["samples"][WARM_UP:] for rank in ranks))],
            "peak_memory_bytes": [rank["memory_bytes"]["kernel_peak"] for rank in ranks],
            "memory_bytes": [rank["memory_bytes"] for rank in ranks],
            "ledger_ms": [rank["ledger_ms"] for rank in ranks], "wall_ms": [rank["wall_ms"] for rank in ranks],
            "loss": done["loss"], "record": done if extra else None}


def ours_where_known(case, strategy, **how):
    """An arm of ours; a word where this build does not know the strategy."""
    name, here = strategy.split("[")[0], strategies_here()
    if name not in here:
        return f"this build knows no strategy '{name}'; it has {', '.join(here)}"
    return lambda: ours(case, strategy, **how)


def peer(script, job, environment=None):
    """What a script of peers/ prints of a job. Fails loudly: a benchmark with a failed arm says nothing."""
    done = subprocess.run([sys.executable, PEERS / script, json.dumps(job)], capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        sys.exit(f"{script} with {json.dumps(job)} ended with {done.returncode}: {done.stderr[-3000:]}")
    return json.loads(done.stdout)


def faster_format(case, run):
    """Whether a peer is faster with images channels last. `run(channels_last)` is a short run of it."""
    formats = [False, True] if case["shape"]["channels"] else [False]
    if len(formats) == 1:
        return False
    return min(formats, key=lambda each: statistics.median(run(each)["step_ms"]))


def interleave(name, arms, rounds):
    """A B … then … B A, so that drift of the machine hits all alike; {arm: [run…]}, and {arm: word} of those that cannot run.
    Says after the first round how long all will take."""
    missing = {arm: run for arm, run in arms.items() if isinstance(run, str)}
    for arm, word in missing.items():
        print(f"  {name}, {arm}: not measured: {word}", file=sys.stderr, flush=True)
    runs = {arm: [] for arm in arms if arm not in missing}
    begun = time.monotonic()
    for number in range(rounds):
        for arm in list(runs) if number % 2 == 0 else reversed(list(runs)):
            result = {**arms[arm](), "load": os.getloadavg()[0], "at": time.time()}
            runs[arm].append(result)
            print(f"  {name}, round {number + 1}/{rounds}, {arm}: {statistics.median(result['step_ms']):.4g} ms, load {result['load']:.1f}", file=sys.stderr, flush=True)
        if number == 0 and rounds > 1:
            print(f"  {name}: a round takes {time.monotonic() - begun:.0f} s, all {rounds} about {rounds * (time.monotonic() - begun) / 60:.1f} min", file=sys.stderr, flush=True)
    return runs, missing


def step_cells(runs, batch):
    """Milliseconds a step with their interval, and samples/s; medians of all steps of all runs."""
    middle, low, high = median_interval([ms for run in runs for ms in run["step_ms"]])
    return f"{middle:,.4g} [{low:,.4g} to {high:,.4g}] | {1e3 * batch / middle:,.3g}"


def rounds_of(result):
    """As many as its fullest arm has runs: one may have lost some."""
    return max(len(runs) for runs in result["runs"].values())


def brackets(result):
    """What a table's figures and brackets are: written above it."""
    return f"medians of all steps with 95 % intervals, ratios with {interval_words(rounds_of(result))}"


def medians(runs):
    return [statistics.median(run["step_ms"]) for run in runs]


def loads(results):
    """For the line under a table: how busy the machine was."""
    all_loads = [run["load"] for result in results for runs in result["runs"].values() for run in runs]
    return f"load average {min(all_loads):.1f} to {max(all_loads):.1f}" if all_loads else "nothing was run"


def megabytes(values):
    return " + ".join(f"{value / 1e6:,.0f}" for value in values)
