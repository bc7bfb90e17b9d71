"""One network in eager PyTorch, or under DistributedDataParallel over Gloo: times of training steps.

Samples are drawn once and stay in memory; SGD with momentum, fused; DDP with gradient_as_bucket_view. The networks are those of
tests/reference_networks.py, which the numerics tests hold equal to ours. Ranks have the same weights and samples of their own, and must end with the same weights.

usage: torch_networks.py JSON, with {model, options{}, shape{}, batch, steps, workers, channels_last, precision: "fp32"|"bf16" (autocast)}
prints JSON: {step_ms: [...], cpu_ms: [...], peak_memory_bytes: [...], parameters, world, version}; a step of several workers is the slowest one's, its CPU time that of all,
memory that of each from the first step on
"""
import collections
import json
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F

import own_process
import torch_ranks

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
import reference_networks  # noqa: E402

Shape = collections.namedtuple("Shape", "objective channels height width classes source target")
Shape.pixels = property(lambda shape: shape.channels * shape.height * shape.width)
WARM_UP = 2


def samples(shape, batch, channels_last):
    """What the network is given, and what it is to say."""
    given = {}
    if shape.channels:
        images = torch.randn(batch, shape.channels, shape.height, shape.width)
        given["images"] = images.contiguous(memory_format=torch.channels_last) if channels_last else images
    if shape.objective == "classification":
        return given, torch.randint(shape.classes, (batch,))
    words = torch.randint(3, shape.classes, (batch, shape.target))
    given["target"] = words[:, :-1]
    if shape.source:
        given["source"] = torch.randint(3, shape.classes, (batch, shape.source))
    return given, words[:, 1:].reshape(-1)


def loss_of(output, wanted):
    logits = output["logits"].float()  # of autocast
    loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), wanted)
    if output.get("auxiliary") is not None:
        loss = loss + 0.4 * F.cross_entropy(output["auxiliary"].float(), wanted)
    return loss


def absolute_sum(model):
    return sum(p.detach().double().abs().sum().item() for p in model.parameters())


def train(rank, job):
    torch.set_num_threads(job.get("threads", 1))
    torch.manual_seed(1)
    shape = Shape(**job["shape"])
    model = reference_networks.build(job["model"], shape, job["options"])
    if job["channels_last"]:
        model = model.to(memory_format=torch.channels_last)
    model.train()
    before = absolute_sum(model)
    network = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True) if job["workers"] > 1 else model
    learnt = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(learnt, lr=0.001, momentum=0.9, fused=True)
    torch.manual_seed(2 + rank)
    given, wanted = samples(shape, job["batch"] // job["workers"], job["channels_last"])
    half = job.get("precision", "fp32") == "bf16"
    clock = own_process.StepClock(WARM_UP)
    own_process.reset_peak_memory()
    for _ in range(job["steps"] + WARM_UP):
        with clock.step():
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                output = network(given)
            loss_of(output, wanted).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    peak = own_process.peak_memory()
    return {"wall_ms": clock.wall_ms, "cpu_ms": clock.cpu_ms, "peak": peak, "before": before, "after": absolute_sum(model),
            "parameters": sum(p.numel() for p in model.parameters()), "world": dist.get_world_size() if job["workers"] > 1 else 1}


def main():
    job = json.loads(sys.argv[1])
    told = torch_ranks.in_ranks(train, job)
    own_process.same_weights(told)
    print(json.dumps({**own_process.group(told), "parameters": told[0]["parameters"], "world": told[0]["world"], "version": torch.__version__}))


if __name__ == "__main__":
    main()
