"""One network in eager PyTorch, or under DistributedDataParallel over Gloo: times of training steps, one thread a worker.

Samples are drawn once and stay in memory; SGD with momentum, fused; DDP with gradient_as_bucket_view. The networks are those of
tests/reference_networks.py, which the numerics tests hold equal to ours.

usage: torch_networks.py JSON, with {model, options{}, shape{}, batch, steps, workers, channels_last}
prints JSON: {step_ms: [...], peak_memory_bytes: [...]}; a step of several workers is the slowest one's
"""
import collections
import json
import pathlib
import sys
import time

import torch
import torch.nn.functional as F

import ranks

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
    logits = output["logits"]
    loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), wanted)
    if output.get("auxiliary") is not None:
        loss = loss + 0.4 * F.cross_entropy(output["auxiliary"], wanted)
    return loss


def train(rank, job, folder):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    shape = Shape(**job["shape"])
    model = reference_networks.build(job["model"], shape, job["options"])
    if job["channels_last"]:
        model = model.to(memory_format=torch.channels_last)
    model.train()
    if job["workers"] > 1:
        ranks.meet(rank, job["workers"], folder)
    network = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True) if job["workers"] > 1 else model
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.001, momentum=0.9, fused=True)
    given, wanted = samples(shape, job["batch"] // job["workers"], job["channels_last"])
    times = []
    for step in range(job["steps"] + WARM_UP):
        begin = time.perf_counter()
        loss_of(network(given), wanted).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step >= WARM_UP:
            times.append((time.perf_counter() - begin) * 1e3)
    ranks.leave(rank, folder, times)


def main():
    job = json.loads(sys.argv[1])
    print(json.dumps(ranks.run(job["workers"], train, job)))


if __name__ == "__main__":
    main()
