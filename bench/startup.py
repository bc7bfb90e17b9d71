"""From the start of the command to the first training step: `ddlbench run` against a PyTorch DDP script.

Two workers, ResNet-18, CIFAR shape. ddlbench: from the start of its process. DDP: from the start of its ranks, which are
started directly (torchrun adds its own start on top and is shown as a third arm). Goal: at least twice as fast.
"""
import os
import subprocess
import sys
import tempfile
import time

from common import ROOT, interleaved, record, save, table

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
COMMON = ["--model", "resnet18", "--dataset", "cifar10", "--synthetic", "--train-samples", 256, "--test-samples", 16,
          "--no-evaluate", "--workers", 2, "--batch", 64, "--steps", 1]


def torchrun():
    """A user's own script; it prints the monotonic clock as its first step begins."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic_ns()
        done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                               ROOT / "bench" / "peers" / "ddp_first_step.py"], cwd=folder, capture_output=True, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"})
    if done.returncode != 0:
        sys.exit(done.stderr)
    first = min(int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("FIRST_STEP"))
    return (first - began) * 1e-9


def measure(arm):
    return torchrun() if arm == "torchrun" else record(*COMMON, *arm)["launch"]["start_to_first_step_s"]


results = interleaved({"ddlbench run": [], "PyTorch DDP, ranks started directly": ["--subject", "torch-ddp"],
                       "PyTorch DDP, torchrun": "torchrun"}, ROUNDS, measure)
table("Start to first step, two workers", "seconds", results, "ddlbench run", higher_is_better=False)
save("startup", results)
