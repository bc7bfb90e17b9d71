"""Ranks of torch.distributed as processes of this machine, over Gloo and loopback."""
import json
import os
import pathlib
import sys

import torch.distributed as dist

import ranks


def _rank(rank, job, train, folder):
    several = job["workers"] > 1
    if several:
        ranks.meet(rank, job["workers"], folder)
    pathlib.Path(folder, f"rank{rank}.json").write_text(json.dumps(train(rank, job)))
    if several:
        dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # Gloo's threads may outlive the interpreter: src/ddl/subject/torch_ddp.py says more


def in_ranks(train, job):
    """What train(rank, job) returned on each of job["workers"] ranks, which can talk to each other."""
    return ranks.collect(job["workers"], _rank, job, train)
