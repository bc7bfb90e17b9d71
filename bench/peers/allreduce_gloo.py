"""torch.distributed.all_reduce over Gloo as collective_bench measures ours. usage: allreduce_gloo.py RANKS BYTES…"""
import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing


def run(rank, ranks, sizes, meeting):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    for size in sizes:
        block, blocks = (100, 101) if size <= 64 << 10 else (10, 51) if size <= 4 << 20 else (1, 21)
        data = torch.full((size // 4,), float(rank + 1))
        dist.all_reduce(data)
        assert bool((data == ranks * (ranks + 1) / 2).all())
        data.zero_()
        times = []
        for number in range(-2, blocks):
            dist.barrier()
            begin = time.perf_counter()
            for _ in range(block):
                dist.all_reduce(data)
            if number >= 0:
                times.append((time.perf_counter() - begin) / block)
        if rank == 0:
            print(f"{size},{statistics.median(times) * 1e6:.3f}", flush=True)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        ranks = int(sys.argv[1])
        multiprocessing.spawn(run, (ranks, [int(size) for size in sys.argv[2:]], f"{folder}/meeting"), nprocs=ranks)
