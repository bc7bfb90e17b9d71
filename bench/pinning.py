"""Throughput with workers bound to cores of their own (pin=auto) against without (pin=off): smallcnn and ResNet-18 of CIFAR's shape, one thread a worker, over shm.

With `beside` another program computes on the machine meanwhile, which no pinning knows of: what auto costs where it should have been turned off.

usage: pinning.py [ROUNDS [beside] [WORKERS…]]
"""
import contextlib
import os
import subprocess
import sys

from common import interleaved, record, save, table

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 6
BESIDE = "beside" in sys.argv
WORKERS = [int(word) for word in sys.argv[2:] if word.isdigit()] or (1, 2)
NETWORKS = {"smallcnn": (32, 200), "resnet18": (32, 12)}  # images a worker, steps


def measure(arguments):
    got = record(*arguments)
    bound = [rank["cores"]["bound"] for rank in got["ranks"]]
    if all(bound) != (got["config"]["pin"] == "auto"):
        sys.exit(f"pin={got['config']['pin']}, but bound is {bound}: {[rank['cores']['not_bound'] for rank in got['ranks']]}")
    return got["throughput"]["median"]


@contextlib.contextmanager
def another_program():
    if not BESIDE:
        yield
        return
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        busy.kill()
        busy.wait()


for network, (batch, steps) in NETWORKS.items():
    for workers in WORKERS:
        common = ["--model", network, "--dataset", "cifar10", "--synthetic", "--train-samples", 2048, "--test-samples", 16, "--no-evaluate",
                  "--steps", steps, "--trace", "off", "--workers", workers, "--batch", batch * workers]
        with another_program():
            results = interleaved({pin: [*common, "--pin", pin] for pin in ("off", "auto")}, ROUNDS, measure)
        table(f"{network}, 3x32x32, batch {batch} each, {workers} worker(s) on {os.cpu_count()} cores{', another program beside' if BESIDE else ''}", "images/s", results, "off")
        save(f"pinning_{network}_{workers}{'_beside' if BESIDE else ''}", results)
