"""Every network beside eager PyTorch, in one interleaved run: step time, samples/s and memory; one worker, and two against DDP.

Ours as it comes; PyTorch in whichever memory format is faster, found by a short run of each at one worker. One thread a worker, fp32,
SGD with momentum, samples in memory, no dropout (PyTorch's draws differ). Samples a worker are few where a step would take seconds.
Each run trains for about SECONDS; a network that has used LIMIT begins no further round.

usage: networks.py [--networks A,B…] [--workers 1,2] [--rounds 3]
prints a table in Markdown; build/bench/networks.json has every step of every run, and is written after each network
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import time

from common import interval_words, ratio, record, save

PEER = pathlib.Path(__file__).resolve().parent / "peers" / "torch_networks.py"
SECONDS, LIMIT = 1.5, 40
FEWEST, MOST, WARM_UP = 3, 200, 2  # steps of a run, and those before them that do not count


def images(channels, side, classes):
    return {"objective": "classification", "channels": channels, "height": side, "width": side, "classes": classes, "source": 0, "target": 0}


SENTENCES = {"objective": "translation", "channels": 0, "height": 0, "width": 0, "classes": 8000, "source": 64, "target": 64}
TEXT = {"objective": "language", "channels": 0, "height": 0, "width": 0, "classes": 8000, "source": 0, "target": 257}
CIFAR, IMAGENET = images(3, 32, 10), images(3, 224, 1000)
SCENES = {"objective": "captioning", "channels": 3, "height": 224, "width": 224, "classes": 33, "source": 0, "target": 25}
PLAIN = {"dropout": "0"}
# Network, its options, our data set, its shape, samples a worker.
CASES = [
    ("lenet", {}, "mnist", images(1, 28, 10), 64), ("mlp", {}, "mnist", images(1, 28, 10), 64), ("smallcnn", {}, "cifar10", CIFAR, 32),
    ("resnet18", {}, "cifar10", CIFAR, 32), ("resnet34", {}, "cifar10", CIFAR, 16), ("vgg11", PLAIN, "cifar10", CIFAR, 32),
    ("resnet50", {}, "imagenet", IMAGENET, 4), ("resnet50v2", {}, "imagenet", IMAGENET, 4), ("resnet101", {}, "imagenet", IMAGENET, 2),
    ("resnet101v2", {}, "imagenet", IMAGENET, 2), ("resnet152", {}, "imagenet", IMAGENET, 2), ("mobilenetv2", PLAIN, "imagenet", IMAGENET, 8),
    ("alexnet", PLAIN, "imagenet", IMAGENET, 16), ("vgg16", PLAIN, "imagenet", IMAGENET, 1), ("inceptionv3", PLAIN, "imagenet", images(3, 299, 1000), 2),
    ("transformer", PLAIN, "translation", SENTENCES, 4), ("transformer-big", PLAIN, "translation", SENTENCES, 1),
    ("gpt", {"hidden": "256", "layers": "4", "heads": "4", "dropout": "0"}, "language", TEXT, 4), ("captioner", PLAIN, "captions", SCENES, 4),
]
NAMES = [case[0] for case in CASES]


def ours(case, steps, workers):
    """Milliseconds of each step, of the slowest worker, and bytes of the largest."""
    name, options, dataset, shape, batch = case
    model = name + (f"[{','.join(f'{key}={value}' for key, value in options.items())}]" if options else "")
    wanted = {"imagenet": f"[size={shape['height']}]", "captions": f"[size={shape['height']}]",
              "translation": f"[vocabulary={shape['classes']},length={shape['target']}]",
              "language": f"[vocabulary={shape['classes']},length={shape['target']}]"}
    done = record("--model", model, "--dataset", dataset + wanted.get(dataset, ""), "--synthetic", "--train-samples", max(64, 2 * batch * workers),
                  "--test-samples", 16, "--no-evaluate", "--steps", steps + WARM_UP, "--workers", workers, "--batch", batch * workers,
                  "--learning-rate", 0.001, "--trace", "off")
    ranks = done["ranks"]
    return [max(times) for times in zip(*(rank["step_ms"]["samples"][WARM_UP:] for rank in ranks))], max(rank["peak_memory_bytes"] for rank in ranks)


def torch(case, steps, workers, channels_last):
    name, options, _, shape, batch = case
    job = {"model": name, "options": options, "shape": shape, "batch": batch * workers, "steps": steps, "workers": workers, "channels_last": channels_last}
    done = subprocess.run([sys.executable, PEER, json.dumps(job)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{name} in PyTorch ended with {done.returncode}: {done.stderr}")
    said = json.loads(done.stdout)
    return said["step_ms"], max(said["peak_memory_bytes"])


def faster_format(case):
    """Whether channels last is, and how long a step takes."""
    formats = [False, True] if case[3]["channels"] else [False]
    times = {channels_last: statistics.median(torch(case, FEWEST, 1, channels_last)[0]) for channels_last in formats}
    best = min(times, key=times.get)
    return best, times[best]


def median_interval(values, seed=1):
    """The median of all steps and its 95 % bootstrap interval."""
    draw = random.Random(seed)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(1000))
    return statistics.median(values), medians[25], medians[974]


def compare(case, workers, rounds, channels_last, step_ms):
    steps = max(FEWEST, min(MOST, round(SECONDS * 1e3 / step_ms)))
    arms = {"ddlbench": lambda: ours(case, steps, workers), "pytorch": lambda: torch(case, steps, workers, channels_last)}
    runs = {arm: [] for arm in arms}
    begun = time.monotonic()
    for number in range(rounds):
        if number > 0 and time.monotonic() - begun > LIMIT:
            break
        for arm in list(arms) if number % 2 == 0 else reversed(list(arms)):
            times, peak = arms[arm]()
            runs[arm].append({"step_ms": times, "peak_memory_bytes": peak})
            print(f"  {case[0]}, {workers} worker(s), round {number + 1}/{rounds}, {arm}: {statistics.median(times):.4g} ms", file=sys.stderr)
    return {"network": case[0], "samples_a_worker": case[4], "shape": case[3], "options": case[1], "workers": workers,
            "pytorch_format": "channels last" if channels_last else "as it comes", "runs": runs}


def row(result):
    each = {arm: [statistics.median(run["step_ms"]) for run in runs] for arm, runs in result["runs"].items()}
    step = {arm: median_interval([ms for run in runs for ms in run["step_ms"]]) for arm, runs in result["runs"].items()}
    memory = {arm: statistics.median(run["peak_memory_bytes"] for run in runs) / 2**20 for arm, runs in result["runs"].items()}
    samples = 1e3 * result["samples_a_worker"] * result["workers"]
    middle, low, high = ratio(each["pytorch"], each["ddlbench"])

    def short(value):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

    def cells(arm):
        middle, low, high = map(short, step[arm])
        return f"{middle} [{low} to {high}] | {short(samples / step[arm][0])} | {memory[arm]:,.0f}"

    marked = " (channels last)" if result["pytorch_format"] == "channels last" else ""
    return (f"| {result['network']} | {result['samples_a_worker']} | {cells('ddlbench')} | {cells('pytorch')}{marked} | "
            f"{middle:.2f} [{low:.2f} to {high:.2f}] |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--networks", default=",".join(NAMES), help="with commas between; all")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    names = chosen.networks.split(",")
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"no network {', '.join(unknown)}; there are {', '.join(NAMES)}")
    results = []
    for case in CASES:
        if case[0] not in names:
            continue
        channels_last, step_ms = faster_format(case)
        for workers in map(int, chosen.workers.split(",")):
            results.append(compare(case, workers, chosen.rounds, channels_last, step_ms))
            save("networks", results)
    for workers in map(int, chosen.workers.split(",")):
        print(f"\n{workers} worker{'s' if workers > 1 else ''} of one thread, fp32; medians of all steps with 95 % intervals, ratios with {interval_words(chosen.rounds)}, {chosen.rounds} interleaved "
              "rounds at most; memory: the largest worker's peak, MiB\n\n"
              "| network | samples each | ddlbench, ms a step | samples/s | MiB | PyTorch, ms a step | samples/s | MiB | ours is faster by |\n"
              "|---|---|---|---|---|---|---|---|---|")
        print("\n".join(row(result) for result in results if result["workers"] == workers), flush=True)


if __name__ == "__main__":
    main()
