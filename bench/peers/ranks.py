"""Ranks of one job as processes of this machine: started, joined, and what each of them measured."""
import json
import os
import pathlib
import sys
import tempfile

import torch.distributed as dist
import torch.multiprocessing as mp

import own_process


def meet(rank, size, folder):
    """In a rank: its process group."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=size)


def leave(rank, folder, times):
    """In a rank, at its end: tells what it measured."""
    pathlib.Path(folder, f"rank{rank}.json").write_text(json.dumps({"times": times, "peak": own_process.peak_memory()}))
    sys.stdout.flush()
    os._exit(0)  # Gloo's threads may outlive the interpreter: src/ddl/subject/torch_ddp.py says more


def collect(size, body, *arguments):
    """body(rank, *arguments, folder) in `size` processes; what each of them wrote to rankN.json."""
    with tempfile.TemporaryDirectory() as folder:
        processes = [mp.get_context("spawn").Process(target=body, args=(rank, *arguments, folder)) for rank in range(size)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        if any(process.exitcode for process in processes):
            sys.exit(f"ranks ended with {[process.exitcode for process in processes]}")
        return [json.loads(pathlib.Path(folder, f"rank{rank}.json").read_text()) for rank in range(size)]


def run(size, body, *arguments):
    """As collect(), of bodies that leave(): step_ms, of the slowest rank, and each one's peak_memory_bytes."""
    told = collect(size, body, *arguments)
    return {"step_ms": [max(times) for times in zip(*(rank["times"] for rank in told))], "peak_memory_bytes": [rank["peak"] for rank in told]}
