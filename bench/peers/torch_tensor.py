"""A GPT split among ranks by torch.distributed.tensor.parallel.parallelize_module over Gloo, on CPUs: times of training steps.

Megatron's form as PyTorch's tutorial has it: heads and the inside of the MLP by columns, then by rows; the vocabulary of the table, tied to the
output. `sequence`: norms and what is between the blocks by places (SequenceParallel). The loss is of the logits in parts (loss_parallel), or of whole
ones with `whole_logits`. Queries, keys and values of a head lie beside each other in one matrix, so that its rows can be cut between heads.
One thread a rank; SGD with momentum, foreach (there is no fused SGD for DTensors in 2.13). With one rank nothing is split.

usage: torch_tensor.py JSON, with {options{hidden, layers, heads}, shape{}, batch, steps, workers, sequence, whole_logits}
prints JSON: {step_ms, peak_memory_bytes, memory_before_bytes, losses}; a step is the slowest rank's
"""
import contextlib
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, loss_parallel, parallelize_module

from own_process import peak_memory, resident_memory, reset_peak_memory
from torch_networks import WARM_UP, Shape, samples
from torch_ranks import in_ranks


class Attention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.width = hidden // heads
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)

    def forward(self, x):
        # Of this rank: [n, heads, places, 3, width].
        together = self.qkv(x).unflatten(-1, (-1, 3, self.width)).transpose(1, 2)
        q, k, v = together.unbind(3)
        return self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attn, self.mlp = Attention(hidden, heads), Mlp(hidden)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Places(nn.Module):
    """Adds the vectors of the places that are here."""

    def __init__(self, places, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(places, hidden) * 0.01)

    def forward(self, x):
        return x + (self.weight.to_local() if isinstance(self.weight, DTensor) else self.weight)


class Gpt(nn.Module):
    def __init__(self, words, places, hidden, layers, heads):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, hidden), Places(places, hidden)
        nn.init.normal_(self.wte.weight, std=0.02)
        self.h = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.ln_f, self.output = nn.LayerNorm(hidden), nn.Linear(hidden, words, bias=False)
        self.output.weight = self.wte.weight

    def forward(self, words):
        x = self.wpe(self.wte(words))
        for block in self.h:
            x = block(x)
        return self.output(self.ln_f(x))


def split(model, mesh, sequence, whole_logits):
    between = Shard(1) if sequence else Replicate()  # blocks
    gather = {"input_layouts": (Shard(1),), "desired_input_layouts": (Replicate(),)}
    block = {"attn.qkv": ColwiseParallel(), "attn.proj": RowwiseParallel(output_layouts=between), "mlp.c_fc": ColwiseParallel(),
             "mlp.c_proj": RowwiseParallel(output_layouts=between)}
    if sequence:
        block |= {"ln_1": SequenceParallel(), "attn": PrepareModuleInput(**gather), "ln_2": SequenceParallel(), "mlp": PrepareModuleInput(**gather)}
    for each in model.h:
        parallelize_module(each, mesh, block)
    logits = {"output_layouts": Replicate()} if whole_logits else {"output_layouts": Shard(-1), "use_local_output": False}
    parallelize_module(model, mesh, {"wte": RowwiseParallel(input_layouts=Replicate(), output_layouts=between),
                                     "output": ColwiseParallel(input_layouts=between, **logits), **({"ln_f": SequenceParallel()} if sequence else {})})
    model.output.weight = model.wte.weight
    if sequence:
        model.wpe.weight = nn.Parameter(distribute_tensor(model.wpe.weight.data, mesh, [Shard(0)]))


def optimizers_of(model):
    """Foreach takes DTensors, or tensors, but not both together."""
    kinds = [[p for p in model.parameters() if isinstance(p, DTensor) == split] for split in (True, False)]
    return [torch.optim.SGD(kind, lr=0.001, momentum=0.9, foreach=True) for kind in kinds if kind]


def train(rank, job):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    shape, options = Shape(**job["shape"]), {key: int(value) for key, value in job["options"].items() if key != "dropout"}
    mesh = init_device_mesh("cpu", (job["workers"],))
    before = resident_memory()
    model = Gpt(shape.classes, shape.target - 1, **options).train()
    if job["workers"] > 1:
        split(model, mesh, job["sequence"], job["whole_logits"])
    optimizers = optimizers_of(model)
    torch.manual_seed(2)  # of each rank the same
    given, wanted = samples(shape, job["batch"], False)
    in_parts = job["workers"] > 1 and not job["whole_logits"]
    reset_peak_memory()
    times, losses = [], []
    for step in range(job["steps"] + WARM_UP):
        begin = time.perf_counter()
        with loss_parallel() if in_parts else contextlib.nullcontext():
            logits = model(given["target"])
            loss = F.cross_entropy(logits.flatten(0, 1), wanted)
            loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        losses.append((loss.full_tensor() if isinstance(loss, DTensor) else loss).item())
        if step >= WARM_UP:
            times.append((time.perf_counter() - begin) * 1e3)
    return {"times": times, "peak": peak_memory(), "before": before, "losses": losses}


def main():
    job = json.loads(sys.argv[1])
    ranks = in_ranks(train, job)
    print(json.dumps({"step_ms": [max(times) for times in zip(*(rank["times"] for rank in ranks))], "peak_memory_bytes": [rank["peak"] for rank in ranks],
                      "memory_before_bytes": [rank["before"] for rank in ranks], "losses": ranks[0]["losses"]}))


if __name__ == "__main__":
    main()
