"""One network under FSDP2 (torch.distributed.fsdp.fully_shard) over Gloo, on CPUs: times of training steps, and memory.

One thread a rank. Networks are those of tests/reference_networks.py; a residual or transformer block is a unit, the rest the root's. Weights
stay contiguous, which fully_shard asks for; `channels_last` is of the images. SGD with momentum, foreach (there is no fused SGD for DTensors in 2.13).
Samples are drawn once and stay in memory.

usage: torch_sharded.py JSON, with {model, options{}, shape{}, batch, steps, workers, reshard: true|false, channels_last}; model `empty` is one
linear layer of 10 outputs: what a process takes without a network
prints JSON: {step_ms, peak_memory_bytes, memory_before_bytes, loss, local}; a step is the slowest rank's; memory_before is of the process when the
network was not made yet; loss the first step's, the mean of all ranks'; local of all: the part of the parameters that rank 0 keeps
"""
import json
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from own_process import peak_memory, resident_memory, reset_peak_memory
from torch_networks import WARM_UP, Shape, loss_of, reference_networks, samples
from torch_ranks import in_ranks


class Empty(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.fc = nn.Linear(shape.channels, shape.classes)

    def forward(self, given):
        return {"logits": self.fc(given["images"].mean((2, 3)))}


def build(job):
    shape = Shape(**job["shape"])
    return Empty(shape) if job["model"] == "empty" else reference_networks.build(job["model"], shape, job["options"])


def units(model):
    """Blocks, in their order."""
    return [module for module in model.modules() if isinstance(module, (reference_networks.Residual, reference_networks.GptBlock))]


def train(rank, job):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    mesh = init_device_mesh("cpu", (job["workers"],))
    before = resident_memory()
    model = build(job).train()
    for unit in units(model):
        fully_shard(unit, mesh=mesh, reshard_after_forward=job["reshard"])
    fully_shard(model, mesh=mesh)
    whole, own = sum(p.numel() for p in model.parameters()), sum(p.to_local().numel() for p in model.parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, foreach=True)
    torch.manual_seed(2 + rank)
    given, wanted = samples(Shape(**job["shape"]), job["batch"] // job["workers"], job["channels_last"])
    reset_peak_memory()
    times, first = [], None
    for step in range(job["steps"] + WARM_UP):
        begin = time.perf_counter()
        loss = loss_of(model(given), wanted)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step == 0:
            first = loss.detach()
        if step >= WARM_UP:
            times.append((time.perf_counter() - begin) * 1e3)
    peak = peak_memory()
    dist.all_reduce(first)
    return {"times": times, "peak": peak, "before": before, "loss": first.item() / job["workers"], "local": own / whole}


def main():
    job = json.loads(sys.argv[1])
    ranks = in_ranks(train, job)
    print(json.dumps({"step_ms": [max(times) for times in zip(*(rank["times"] for rank in ranks))], "peak_memory_bytes": [rank["peak"] for rank in ranks],
                      "memory_before_bytes": [rank["before"] for rank in ranks], "loss": ranks[0]["loss"], "local": ranks[0]["local"]}))


if __name__ == "__main__":
    main()
