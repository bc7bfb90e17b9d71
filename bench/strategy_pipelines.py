"""Pipelines beside torch.distributed.pipelining (ScheduleGPipe, Schedule1F1B over Gloo) and torchgpipe 0.0.7 (two CPU devices of one process).

ResNet-101 at 64x64 and a 12-layer GPT. All see the same batch in as many micro-batches, samples in memory, fp32, SGD with momentum, no dropout; each
cuts the network where its own measurement says. PyTorch runs in whichever memory format is faster.
"""
import functools
import statistics
import subprocess
import sys

from common import ROOT, ratio
from networks import TEXT, images
from strategy_arms import brackets, faster_format, interleave, medians, megabytes, ours, peer, step_cells

TORCHGPIPE = ROOT / "build" / "bench" / "torchgpipe-0.0.7"
RESNET = {"model": "resnet101", "options": {}, "dataset": "imagenet[size=64]", "shape": images(3, 64, 1000), "batch": 32, "micro": 8, "steps": 4}
GPT = {"model": "gpt", "options": {"hidden": "256", "layers": "12", "heads": "4", "dropout": "0"}, "dataset": "language[vocabulary=8000,length=129]",
       "shape": {**TEXT, "target": 129}, "batch": 16, "micro": 8, "steps": 4}
CASES = {"resnet101": RESNET, "gpt12": GPT}


def theirs(case, package, channels_last):
    job = {**{key: case[key] for key in ("model", "options", "shape", "batch", "micro", "steps")}, "package": package, "channels_last": channels_last}
    return peer("torch_pipelines.py", job, {"PYTHONPATH": str(TORCHGPIPE)})


def fetch_torchgpipe():
    if not (TORCHGPIPE / "torchgpipe").exists():
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", TORCHGPIPE, "torchgpipe==0.0.7"], check=True)


def run(name, rounds, steps=None):
    fetch_torchgpipe()
    case = {**CASES[name], "steps": steps or CASES[name]["steps"]}
    channels_last = faster_format(case, lambda each: theirs({**case, "steps": 2}, "1f1b", each))
    arms = {f"ddlbench {schedule}": functools.partial(ours, case, f"pipeline[schedule={schedule},micro={case['micro']}]") for schedule in ("gpipe", "1f1b", "zb-h1")}
    arms |= {"pipelining gpipe": lambda: theirs(case, "gpipe", channels_last), "pipelining 1f1b": lambda: theirs(case, "1f1b", channels_last),
             "torchgpipe": lambda: theirs(case, "torchgpipe", channels_last)}
    runs, missing = interleave(name, arms, rounds)
    return {"case": name, **case, "pytorch_format": "channels last" if channels_last else "as it comes", "runs": runs, "missing": missing}


def show(result):
    print(f"\n{result['case']}, batch {result['batch']} in {result['micro']} micro-batches, two workers of one thread, fp32; {brackets(result)}; "
          f"PyTorch {result['pytorch_format']}; memory: each process's peak, MB\n\n"
          "| | ms a step | samples/s | MB | 1f1b of ours is faster by |\n|---|---|---|---|---|")
    reference = medians(result["runs"]["ddlbench 1f1b"])
    for arm, runs in result["runs"].items():
        memory = megabytes(statistics.median(values) for values in zip(*(run["peak_memory_bytes"] for run in runs)))
        middle, low, high = ratio(medians(runs), reference)
        print(f"| {arm} | {step_cells(runs, result['batch'])} | {memory} | {middle:.2f} [{low:.2f} to {high:.2f}] |")
    print()
    for own, other in [("ddlbench gpipe", "pipelining gpipe"), ("ddlbench zb-h1", "pipelining 1f1b")]:
        middle, low, high = ratio(medians(result["runs"][other]), medians(result["runs"][own]))
        print(f"- {own} against {other}: {middle:.2f} [{low:.2f} to {high:.2f}] times the samples/s, pair by pair")
