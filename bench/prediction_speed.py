"""How long predictions take, the whole command from its start to its end, by the wall and of processor time.

Goals: a GPT on 1,024 workers in three dimensions, simulated, and 100,000 workers, priced, less than 1 s each; a study of 345 experiments less than 5 s. What the command takes that predicts nothing (its start: LibTorch is loaded) is a row of its own, and is in all others.

usage: prediction_speed.py [ROUNDS]
prints Markdown; build/bench/prediction_speed.json has every run. Rows are run by turns, there and back
"""
import csv
import datetime
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

from common import BINARY, interleaved, machine, save
from published import table

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 9
NETWORKS = ("resnet50", "resnet101", "vgg16", "mobilenetv2", "alexnet")
# No two are alike: 5 networks, 3 numbers of workers, 23 batches.
STUDY = (f"study: speed\nbase: {{dataset: imagenet, synthetic: true}}\nmatrix:\n  - [{', '.join(f'{{model: {name}}}' for name in NETWORKS)}]\n"
         f"  - [{', '.join(f'{{workers: {count}}}' for count in (1, 8, 32))}]\n  - [{', '.join(f'{{batch: {64 * number}}}' for number in range(1, 24))}]\n")
TABLES = ("vtrain-single", "megatron-sc21", "megatron-2020", "azure-horovod", "tensorflow-cnn", "torchgpipe", "nvidia-resnet50")
PUBLISHED = [row for name in TABLES for row in table(name) or []]
#: words of the command, points that it must predict, goal in seconds
ROWS = {
    "start alone (`--version`)": (["--version"], None, None),
    "GPT of 32 layers, 16 x 8 x 8 = 1,024 A100, simulated": (["predict", "--model", "gpt[hidden=4096,layers=32,heads=32,seq=1024,vocab=51200]", "--dataset", "language[length=1025,vocabulary=51200]", "--synthetic", "--strategy",
                                                              "hybrid[data=16,pipeline=8,tensor=8,micro=16]", "--workers", "1024", "--batch", "512", "--machine", "a100-80gb", "--precision", "bf16", "--engine", "simulated", "--json"], 1, 1),
    "ResNet-50, 100,000 A100, priced": (["predict", "--model", "resnet50", "--dataset", "imagenet", "--synthetic", "--strategy", "data", "--workers", "100000", "--batch", "200000", "--machine", "a100-80gb", "--precision", "tf32", "--engine", "closed",
                                         "--json"], 1, 1),
    "a study of 345 experiments, 1 to 32 V100": (["sweep", "study.yaml", "--predict-only", "--machine", "v100-16gb", "--json"], 345, 5),
    f"`validate`, {len(PUBLISHED):,} published rows in one file": (["validate", "rows.csv", "--json"], len(PUBLISHED), None),
}


def run(words, points):
    """Seconds by the wall and of processors; of children that have ended, the latter is the kernel's word."""
    with tempfile.TemporaryDirectory(prefix="ddlbench-speed-") as folder, open(os.path.join(folder, "out"), "w+") as out:
        with open(os.path.join(folder, "study.yaml"), "w") as study:
            study.write(STUDY)
        with open(os.path.join(folder, "rows.csv"), "w", newline="") as file:
            writer = csv.DictWriter(file, [column for column in PUBLISHED[0] if column != "table"], extrasaction="ignore")
            writer.writeheader()
            writer.writerows(PUBLISHED)
        begun = time.monotonic()
        child = subprocess.Popen([BINARY, *words], cwd=folder, stdout=out, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        wall = time.monotonic() - begun
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        printed = out.read()
    if child.returncode != 0:
        sys.exit(f"{' '.join(words)} ended with {child.returncode}")
    if points is not None:
        document = json.loads(printed)
        done = document["rows"] if "rows" in document else [point for point in document["points"] if "step_ms" in point]
        if len(done) != points:
            sys.exit(f"{' '.join(words)} predicted {len(done)}, expected {points}")
    return {"wall_s": wall, "cpu_s": used.ru_utime + used.ru_stime, "peak_memory_bytes": 1024 * used.ru_maxrss}


def interval(values, seed=1):
    draw = random.Random(seed)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(1000))
    return f"{statistics.median(values):.2f} [{medians[25]:.2f} to {medians[974]:.2f}]"


here = machine()
runs = {name: [] for name in ROWS}


def measure(name):
    words, points, _ = ROWS[name]
    runs[name].append(run(words, points))
    return runs[name][-1]["wall_s"]


interleaved({name: name for name in ROWS}, ROUNDS, measure)
print(f"{datetime.date.today()}, {here['environment']['cpu']['model']}, {here['environment']['cpu']['usable_cores']} cores; seconds, medians of {ROUNDS} with 95 % intervals\n\n| | by the wall | of processor time | peak memory, MB | goal | met |\n|---|---|---|---|---|---|")
for name, found in runs.items():
    goal = ROWS[name][2]
    wall = [each["wall_s"] for each in found]
    met = "" if goal is None else "yes" if statistics.median(wall) < goal else "**no**"
    print(f"| {name} | {interval(wall)} | {interval([each['cpu_s'] for each in found])} | {statistics.median(each['peak_memory_bytes'] for each in found) / 1e6:.0f} | {'' if goal is None else f'{goal} s'} | {met} |")
save("prediction_speed", {"machine": here, "date": str(datetime.date.today()), "runs": runs})
