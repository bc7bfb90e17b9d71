"""Every network beside eager PyTorch, in one interleaved run: step time, samples/s and memory; one worker, and two against DDP.

Ours as it comes; PyTorch in both memory formats, of which the faster one counts. One thread a worker, fp32, SGD with momentum,
samples in memory, no dropout (PyTorch's draws differ). Batches and samples are those of the speed goals.

usage: networks.py [ROUNDS [WORKERS [NETWORK…]]]
"""
import json
import pathlib
import statistics
import subprocess
import sys

from common import interleaved, ratio, record, save

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 2
WORKERS = [int(sys.argv[2])] if len(sys.argv) > 2 else [1, 2]
PEER = pathlib.Path(__file__).resolve().parent / "peers" / "torch_networks.py"


def images(channels, side, classes):
    return {"objective": "classification", "channels": channels, "height": side, "width": side, "classes": classes, "source": 0, "target": 0}


SENTENCES = {"objective": "translation", "channels": 0, "height": 0, "width": 0, "classes": 8000, "source": 64, "target": 64}
TEXT = {"objective": "language", "channels": 0, "height": 0, "width": 0, "classes": 8000, "source": 0, "target": 257}
CIFAR, IMAGENET = images(3, 32, 10), images(3, 224, 1000)
# Network, its options, our data set, its shape, samples a worker, steps.
CASES = [
    ("lenet", {}, "mnist", images(1, 28, 10), 64, 60), ("mlp", {}, "mnist", images(1, 28, 10), 64, 60), ("smallcnn", {}, "cifar10", CIFAR, 32, 60),
    ("resnet18", {}, "cifar10", CIFAR, 32, 10), ("vgg11", {"dropout": "0"}, "cifar10", CIFAR, 32, 10), ("resnet34", {}, "cifar10", CIFAR, 32, 8),
    ("resnet50", {}, "imagenet", IMAGENET, 4, 6), ("resnet50v2", {}, "imagenet", IMAGENET, 4, 6), ("resnet101", {}, "imagenet", IMAGENET, 2, 5),
    ("resnet152", {}, "imagenet", IMAGENET, 2, 5), ("mobilenetv2", {"dropout": "0"}, "imagenet", IMAGENET, 8, 6), ("alexnet", {"dropout": "0"}, "imagenet", IMAGENET, 16, 6),
    ("vgg16", {"dropout": "0"}, "imagenet", IMAGENET, 2, 4), ("inceptionv3", {"dropout": "0"}, "imagenet", images(3, 299, 1000), 4, 5),
    ("transformer", {"dropout": "0"}, "translation", SENTENCES, 16, 5), ("gpt", {"hidden": "256", "layers": "4", "heads": "4", "dropout": "0"}, "language", TEXT, 4, 8),
]


def ours(name, options, dataset, shape, batch, steps, workers):
    model = name + (f"[{','.join(f'{key}={value}' for key, value in options.items())}]" if options else "")
    wanted = {"imagenet": f"[size={shape['height']}]", "translation": f"[vocabulary={shape['classes']},length={shape['target']}]",
              "language": f"[vocabulary={shape['classes']},length={shape['target']}]"}
    dataset += wanted.get(dataset, "")
    done = record("--model", model, "--dataset", dataset, "--synthetic", "--train-samples", max(64, 2 * batch * workers), "--test-samples", 16, "--no-evaluate",
                  "--steps", steps + 2, "--workers", workers, "--batch", batch * workers, "--learning-rate", 0.001, "--trace", "off")
    return done["step_ms"]["median"], max(rank["peak_memory_bytes"] for rank in done["ranks"])


def torch(name, options, shape, batch, steps, workers, channels_last):
    job = {"model": name, "options": options, "shape": shape, "batch": batch * workers, "steps": steps, "workers": workers, "channels_last": channels_last}
    done = subprocess.run([sys.executable, PEER, json.dumps(job)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{name} in PyTorch ended with {done.returncode}: {done.stderr}")
    said = json.loads(done.stdout)
    return statistics.median(said["step_ms"]), max(said["peak_memory_bytes"])


def compare(case, workers):
    name, options, dataset, shape, batch, steps = case
    arms = {"ddlbench": lambda: ours(name, options, dataset, shape, batch, steps, workers),
            "PyTorch": lambda: torch(name, options, shape, batch, steps, workers, False)}
    if shape["channels"]:
        arms["PyTorch, channels last"] = lambda: torch(name, options, shape, batch, steps, workers, True)
    memory = {arm: [] for arm in arms}

    def measure(label):
        milliseconds, peak = arms[label]()
        memory[label].append(peak)
        return milliseconds

    times = interleaved({label: label for label in arms}, ROUNDS, measure)
    best = min((label for label in arms if label != "ddlbench"), key=lambda label: statistics.median(times[label]))
    middle, low, high = ratio(times[best], times["ddlbench"])
    mine, theirs = statistics.median(times["ddlbench"]), statistics.median(times[best])
    print(f"{name:12} {batch:4} {mine:10.1f} {theirs:10.1f} {1e3 * batch * workers / mine:10.1f} {1e3 * batch * workers / theirs:10.1f}"
          f"   {middle:.2f} [{low:.2f} to {high:.2f}] {statistics.median(memory['ddlbench']) / 2**20:8.0f} {statistics.median(memory[best]) / 2**20:8.0f}"
          f"  {'channels last' if best != 'PyTorch' else 'NCHW'}", flush=True)
    return {"times": times, "memory": memory}


for workers in WORKERS:
    print(f"{workers} worker(s) of one thread, fp32; medians of {ROUNDS} interleaved runs; memory: the largest worker's peak, MiB\n"
          f"{'network':12} {'each':>4} {'ms, ours':>10} {'PyTorch':>10} {'samples/s':>10} {'PyTorch':>10}   {'ours is faster by':22} {'memory':>6} {'PyTorch':>8}")
    results = {case[0]: compare(case, workers) for case in CASES if len(sys.argv) <= 3 or case[0] in sys.argv[3:]}
    save(f"networks_{workers}", results)
