"""Strategies beside the packages that have them, in one interleaved run: step time, samples/s and memory, two workers of one thread each.

Pipelines: ours, torch.distributed.pipelining (ScheduleGPipe, Schedule1F1B over Gloo) and torchgpipe 0.0.7 (two CPU devices of one process),
ResNet-101 at 64x64 and a 12-layer GPT. All see the same batch in as many micro-batches, samples in memory, fp32, SGD with momentum, no dropout;
each cuts the network where its own measurement says. PyTorch runs in whichever memory format is faster.

usage: strategies.py [--cases A,B…] [--rounds 3]
prints tables in Markdown; build/bench/strategies.json has every step of every run
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

from common import ROOT, ratio, record, save
from networks import TEXT, images, median_interval

PEER = pathlib.Path(__file__).resolve().parent / "peers" / "torch_pipelines.py"
TORCHGPIPE = ROOT / "build" / "bench" / "torchgpipe-0.0.7"
WARM_UP = 2

RESNET = {"model": "resnet101", "options": {}, "dataset": "imagenet[size=64]", "shape": images(3, 64, 1000), "batch": 32, "micro": 8, "steps": 4}
GPT = {"model": "gpt", "options": {"hidden": "256", "layers": "12", "heads": "4", "dropout": "0"}, "dataset": "language[vocabulary=8000,length=129]",
       "shape": {**TEXT, "target": 129}, "batch": 16, "micro": 8, "steps": 4}
CASES = {"resnet101": RESNET, "gpt12": GPT}


def ours(case, strategy):
    options = ",".join(f"{key}={value}" for key, value in case["options"].items())
    done = record("--model", case["model"] + (f"[{options}]" if options else ""), "--dataset", case["dataset"], "--synthetic", "--train-samples", 4 * case["batch"],
                  "--test-samples", 16, "--no-evaluate", "--steps", case["steps"] + WARM_UP, "--workers", 2, "--batch", case["batch"], "--strategy", strategy,
                  "--learning-rate", 0.001, "--trace", "off")
    ranks = done["ranks"]
    return {"step_ms": [max(times) for times in zip(*(rank["step_ms"]["samples"][WARM_UP:] for rank in ranks))],
            "peak_memory_bytes": [rank["peak_memory_bytes"] for rank in ranks],
            "ledger_ms": [rank["ledger_ms"] for rank in ranks]}


def peer(case, package, channels_last):
    job = {**{key: case[key] for key in ("model", "options", "shape", "batch", "micro", "steps")}, "package": package, "channels_last": channels_last}
    import os
    done = subprocess.run([sys.executable, PEER, json.dumps(job)], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(TORCHGPIPE)})
    if done.returncode != 0:
        sys.exit(f"{package} with {case['model']} ended with {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def fetch_torchgpipe():
    if not (TORCHGPIPE / "torchgpipe").exists():
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", TORCHGPIPE, "torchgpipe==0.0.7"], check=True)


def compare(name, case, rounds):
    formats = [False, True] if case["shape"]["channels"] else [False]
    channels_last = min(formats, key=lambda each: statistics.median(peer({**case, "steps": 2}, "1f1b", each)["step_ms"]))
    arms = {"ddlbench gpipe": lambda: ours(case, f"pipeline[schedule=gpipe,micro={case['micro']}]"),
            "ddlbench 1f1b": lambda: ours(case, f"pipeline[schedule=1f1b,micro={case['micro']}]"),
            "ddlbench zb-h1": lambda: ours(case, f"pipeline[schedule=zb-h1,micro={case['micro']}]"),
            "pipelining gpipe": lambda: peer(case, "gpipe", channels_last),
            "pipelining 1f1b": lambda: peer(case, "1f1b", channels_last),
            "torchgpipe": lambda: peer(case, "torchgpipe", channels_last)}
    runs = {arm: [] for arm in arms}
    for number in range(rounds):
        for arm in list(arms) if number % 2 == 0 else reversed(list(arms)):
            runs[arm].append(arms[arm]())
            print(f"  {name}, round {number + 1}/{rounds}, {arm}: {statistics.median(runs[arm][-1]['step_ms']):.4g} ms", file=sys.stderr)
    return {"case": name, **case, "pytorch_format": "channels last" if channels_last else "as it comes", "runs": runs}


def show(result):
    print(f"\n{result['case']}, batch {result['batch']} in {result['micro']} micro-batches, two workers of one thread, fp32; medians of all steps with 95 % "
          f"intervals; PyTorch {result['pytorch_format']}; memory: each worker's peak, MiB\n\n"
          "| | ms a step | samples/s | MiB | 1f1b of ours is faster by |\n|---|---|---|---|---|")
    each = {arm: [statistics.median(run["step_ms"]) for run in runs] for arm, runs in result["runs"].items()}
    for arm, runs in result["runs"].items():
        middle, low, high = median_interval([ms for run in runs for ms in run["step_ms"]])
        memory = " + ".join(f"{statistics.median(values) / 2**20:,.0f}" for values in zip(*(run["peak_memory_bytes"] for run in runs)))
        faster = ratio(each[arm], each["ddlbench 1f1b"])
        print(f"| {arm} | {middle:,.0f} [{low:,.0f} to {high:,.0f}] | {1e3 * result['batch'] / middle:.3g} | {memory} | {faster[0]:.2f} [{faster[1]:.2f} to {faster[2]:.2f}] |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    fetch_torchgpipe()
    results = []
    for name in chosen.cases.split(","):
        results.append(compare(name, CASES[name], chosen.rounds))
        save("strategies", results)
        show(results[-1])


if __name__ == "__main__":
    main()
