"""One network cut in two in PyTorch: torch.distributed.pipelining over Gloo, or torchgpipe on two CPU devices; times of training steps.

One thread a stage. The networks are those of tests/reference_networks.py as lists of pieces; the cut is where the slower half, measured here by
forward and backward of every piece on one micro-batch, is fastest. A GPT's output has a weight of its own: neither package ties weights across
stages. Samples are drawn once and stay in memory; SGD with momentum, fused.

usage: torch_pipelines.py JSON, with {package: gpipe|1f1b|torchgpipe, model, options{}, shape{}, batch, micro, steps, channels_last, checkpoint}
prints JSON: {step_ms: [...], peak_memory_bytes: [...], cut}; a step is the slowest rank's
"""
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

import own_process
import ranks
from torch_networks import WARM_UP, Shape, reference_networks, samples

ROUNDS = 3  # of measuring a piece; the fastest counts


class Stem(nn.Module):
    def __init__(self, whole):
        super().__init__()
        self.small, self.conv1, self.bn1 = whole.small, whole.conv1, whole.bn1

    def forward(self, x):
        x = F.relu_(self.bn1(self.conv1(x)))
        return x if self.small else F.max_pool2d(x, 3, 2, 1)


class Mean(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


class Words(nn.Module):
    def __init__(self, whole):
        super().__init__()
        self.wte, self.wpe = whole.wte, whole.wpe

    def forward(self, words):
        return self.wte(words) + self.wpe(torch.arange(words.shape[1]))


class Contiguous(torch.autograd.Function):
    """What pipelining sends has to be contiguous, also where the network is channels last."""

    @staticmethod
    def forward(context, x):
        return x.contiguous()

    @staticmethod
    def backward(context, gradient):
        return gradient.contiguous()


class Boundary(nn.Module):
    def forward(self, x):
        return Contiguous.apply(x)


def pieces(job):
    whole = reference_networks.build(job["model"], Shape(**job["shape"]), job["options"])
    if job["model"] == "gpt":
        output = nn.Linear(whole.wte.weight.shape[1], whole.wte.weight.shape[0], bias=False)
        return [Words(whole), *whole.h, nn.Sequential(whole.ln_f, output)]
    blocks = [block for stage in range(1, 5) for block in getattr(whole, f"layer{stage}")]
    return [Stem(whole), *blocks, nn.Sequential(Mean(), whole.fc)]


def loss_of(logits, wanted):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), wanted.reshape(-1))


def data(job):
    given, wanted = samples(Shape(**job["shape"]), job["batch"], job["channels_last"])
    return given.get("images", given.get("target")), wanted.reshape(job["batch"], -1).squeeze(1)


def best_cut(layers, job):
    """How many pieces the first stage has."""
    x, wanted = data(job)
    x, wanted = x[:job["batch"] // job["micro"]], wanted[:job["batch"] // job["micro"]]
    costs = []
    for number, layer in enumerate(layers):
        fastest = float("inf")
        for _ in range(ROUNDS):
            given = x.detach().requires_grad_(x.is_floating_point() and number > 0)
            begin = time.perf_counter()
            out = layer(given)
            (loss_of(out, wanted) if number + 1 == len(layers) else out.sum()).backward()
            fastest = min(fastest, time.perf_counter() - begin)
        costs.append(fastest)
        x = out
    return min(range(1, len(layers)), key=lambda cut: max(sum(costs[:cut]), sum(costs[cut:])))


def prepared(job):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    layers = pieces(job)
    if job["channels_last"]:
        layers = [layer.to(memory_format=torch.channels_last) for layer in layers]
    return layers


def optimizer_of(module):
    return torch.optim.SGD(module.parameters(), lr=0.001, momentum=0.9, fused=True)


def timed(job, step, before=lambda: None):
    times = []
    for number in range(job["steps"] + WARM_UP):
        before()
        begin = time.perf_counter()
        step()
        if number >= WARM_UP:
            times.append((time.perf_counter() - begin) * 1e3)
    return times


def pipelined(rank, job, cut, folder):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
    layers = prepared(job)
    ranks.meet(rank, 2, folder)
    module = nn.Sequential(*layers[:cut], Boundary()) if rank == 0 else nn.Sequential(Boundary(), *layers[cut:])
    stage = PipelineStage(module, rank, 2, torch.device("cpu"))
    schedule = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}[job["package"]](stage, job["micro"], loss_fn=loss_of)
    optimizer = optimizer_of(module)
    x, wanted = data(job)

    def step():
        optimizer.zero_grad(set_to_none=True)
        schedule.step(x) if rank == 0 else schedule.step(target=wanted, losses=[])
        optimizer.step()

    ranks.leave(rank, folder, timed(job, step))


def torchgpipe(job, cut):
    from torchgpipe import GPipe
    layers = prepared(job)
    module = GPipe(nn.Sequential(*layers), balance=[cut, len(layers) - cut], devices=["cpu", "cpu"], chunks=job["micro"], checkpoint=job.get("checkpoint", "never"))
    optimizer = optimizer_of(module)
    x, wanted = data(job)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(module(x), wanted).backward()
        optimizer.step()

    return timed(job, step)


def main():
    job = json.loads(sys.argv[1])
    cut = best_cut(prepared(job), job)
    if job["package"] == "torchgpipe":
        print(json.dumps({"step_ms": torchgpipe(job, cut), "peak_memory_bytes": [own_process.peak_memory()], "cut": cut}))
        return
    print(json.dumps({**ranks.run(2, pipelined, job, cut), "cut": cut}))


if __name__ == "__main__":
    main()
