"""Training throughput against PyTorch: ResNet-18, CIFAR shape, 32 images a worker, fp32, one thread each.

One worker against eager PyTorch, two against DDP over Gloo. The peer gets the same initial weights, images, order and
steps (subject torch-ddp); its step times are its own clock's. Arms:
  ddlbench                 as it comes (--kernels fast)
  ddlbench, plain ATen     --kernels torch: contiguous tensors, no allocator cache: the same compute as the peer's
  PyTorch                  as a user runs it
  PyTorch, malloc tuned    with glibc's thresholds raised, so that it pays no page faults either

usage: training.py [ROUNDS [WORKERS…]]. Goals: at least 0.98 of eager PyTorch with one worker, 1.0 of DDP with two.
"""
import sys

from common import interleaved, record, save, table

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 4
COMMON = ["--model", "resnet18", "--dataset", "cifar10", "--synthetic", "--train-samples", 2048, "--test-samples", 16,
          "--no-evaluate", "--steps", 12, "--trace", "off"]
TUNED = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "4294967296", "MALLOC_TOP_PAD_": "268435456"}


def arms(workers):
    size = [*COMMON, "--workers", workers, "--batch", 32 * workers]
    return {"ddlbench": (size, None), "ddlbench, plain ATen": ([*size, "--kernels", "torch"], None),
            "PyTorch": ([*size, "--subject", "torch-ddp"], None),
            "PyTorch, malloc tuned": ([*size, "--subject", "torch-ddp"], TUNED)}


def measure(arm):
    arguments, environment = arm
    return record(*arguments, environment=environment)["throughput"]["median"]


for workers in [int(n) for n in sys.argv[2:]] or (1, 2):
    results = interleaved(arms(workers), ROUNDS, measure)
    table(f"ResNet-18, 3x32x32, batch 32 each, fp32, {workers} worker(s) of one thread", "images/s", results, "PyTorch")
    save(f"training_{workers}", results)
