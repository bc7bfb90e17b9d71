"""Ranks of torch.distributed as processes of this machine, over Gloo and loopback; their memory."""
import json
import os
import pathlib
import sys

import torch.distributed as dist

import ranks


def resident_memory():
    """VmRSS of this process, bytes."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("[torch_ranks] /proc/self/status has no VmRSS")


def reset_peak_memory():
    """VmHWM begins anew, so that start-up does not count; as ours does before the first step."""
    pathlib.Path("/proc/self/clear_refs").write_text("5")


def _rank(rank, job, train, folder):
    ranks.meet(rank, job["workers"], folder)
    pathlib.Path(folder, f"rank{rank}.json").write_text(json.dumps(train(rank, job)))
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # Gloo's threads may outlive the interpreter: src/ddl/subject/torch_ddp.py says more


def in_ranks(train, job):
    """What train(rank, job) returned on each of job["workers"] ranks, which can talk to each other."""
    return ranks.collect(job["workers"], _rank, job, train)
