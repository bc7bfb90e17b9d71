"""Networks in PyTorch on one NVIDIA GPU: eager, and as one CUDA graph of the whole step. Times of training steps, each until the GPU is through with it, and of steps that are
queued one behind the other.

The networks are those of tests/reference_networks.py, which the numerics tests hold equal to ours. Samples lie on the GPU; SGD with momentum, fused; convolutions channels last, or `contiguous`; cuDNN tunes.

usage: torch_gpu.py JSON, with [{name, model, options{}, shape{}, batch, steps, precision: "fp32"|"tf32"|"bf16" (autocast), ways: ["eager"|"contiguous"|"graph"|"contiguous graph", …]}, …]
prints a line of JSON a job and way: {name, precision, way, step_ms: [...], queued_ms, peak_memory_bytes, version}; or {name, precision, way, error}
"""
import contextlib
import json
import sys
import time

import torch

from torch_networks import Shape, loss_of, reference_networks, samples

WARM_UP = 5


def step_of(job):
    """What does one step of training."""
    torch.manual_seed(1)
    shape = Shape(**job["shape"])
    last = bool(shape.channels) and "contiguous" not in job["way"]
    model = reference_networks.build(job["model"], shape, job["options"]).train()
    if last:
        model = model.to(memory_format=torch.channels_last)
    given, wanted = samples(shape, job["batch"], last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, fused=True)
    half = job["precision"] == "bf16"

    def step():
        # Its cache of narrowed weights would outlive a recorded step.
        with torch.autocast("cuda", torch.bfloat16, enabled=half, cache_enabled="graph" not in job["way"]):
            output = model(given)
        loss_of(output, wanted).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def recorded(step):
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(WARM_UP):
            step()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def measure(job):
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = job["precision"] == "tf32"
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    step = step_of(job)
    if "graph" in job["way"]:
        step = recorded(step)
    for _ in range(WARM_UP):
        step()
    torch.cuda.synchronize()
    took = []
    for _ in range(job["steps"]):
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        took.append(1e3 * (time.perf_counter() - begin))
    begin = time.perf_counter()
    for _ in range(job["steps"]):
        step()
    torch.cuda.synchronize()
    return {"step_ms": took, "queued_ms": 1e3 * (time.perf_counter() - begin) / job["steps"], "peak_memory_bytes": torch.cuda.max_memory_allocated(), "version": torch.__version__}


def main():
    torch.set_default_device("cuda")
    for job in json.loads(sys.argv[1]):
        for way in job["ways"]:
            told = {"name": job["name"], "precision": job["precision"], "way": way}
            try:
                with contextlib.redirect_stdout(sys.stderr):
                    told |= measure({**job, "way": way})
            except Exception as error:  # the other ways are still of use
                told["error"] = f"{type(error).__name__}: {str(error)[:300]}"
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
