"""`sharded` beside FSDP2 (torch.distributed.fsdp.fully_shard, Gloo, on CPUs).

ResNet-50 at 64x64 and a 12-layer GPT; the same network, batch, optimizer (SGD with momentum), fp32, samples in memory, no dropout.
  level 3   beside fully_shard of each block with reshard_after_forward=True
  level 2   beside reshard_after_forward=False, which keeps a block's parameters from forward to backward; level 3 with reshard=off is just that
Memory is measured in one way: the kernel's high-water mark of a worker's process from its first step on, less that of the same program with a network
of one small linear layer, of the same strategy. LibTorch's allocator tells its own peak in our runs; PyTorch keeps no such count on CPUs.
"""
import functools
import statistics

from common import ratio
from networks import TEXT, images
from strategy_arms import brackets, faster_format, interleave, medians, megabytes, ours, peer, step_cells

CASES = {
    "resnet50": {"model": "resnet50", "options": {}, "dataset": "imagenet[size=64]", "shape": images(3, 64, 1000), "batch": 32, "steps": 4},
    "gpt12": {"model": "gpt", "options": {"hidden": "256", "layers": "12", "heads": "4", "dropout": "0"}, "dataset": "language[vocabulary=8000,length=129]",
              "shape": {**TEXT, "target": 129}, "batch": 16, "steps": 4},
}
NOTHING = {"model": "null", "options": {"ms": "0"}, "dataset": "mnist", "shape": images(1, 28, 10), "batch": 2, "steps": 2}
OURS = {"ddlbench level 3": "sharded[level=3]", "ddlbench level 3, reshard=off": "sharded[level=3,reshard=off]", "ddlbench level 2": "sharded[level=2]"}
THEIRS = {"FSDP2 reshard": True, "FSDP2 no reshard": False}
PAIRS = [("ddlbench level 3", "FSDP2 reshard"), ("ddlbench level 2", "FSDP2 no reshard"), ("ddlbench level 3, reshard=off", "FSDP2 no reshard")]


def theirs(case, reshard, channels_last, model=None):
    job = {**{key: case[key] for key in ("options", "shape", "batch", "steps")}, "model": model or case["model"], "workers": 2, "reshard": reshard, "channels_last": channels_last}
    return peer("torch_sharded.py", job)


def run(name, rounds, steps=None):
    case = {**CASES[name], "steps": steps or CASES[name]["steps"]}
    nothing = {arm: ours(NOTHING, strategy)["peak_memory_bytes"] for arm, strategy in OURS.items()}
    nothing |= {arm: theirs(NOTHING, reshard, False, "empty")["peak_memory_bytes"] for arm, reshard in THEIRS.items()}
    channels_last = faster_format(case, lambda each: theirs({**case, "steps": 2}, True, each))
    arms = {arm: functools.partial(ours, case, strategy) for arm, strategy in OURS.items()}
    arms |= {arm: functools.partial(theirs, case, reshard, channels_last) for arm, reshard in THEIRS.items()}
    runs, missing = interleave(name, arms, rounds)
    same_losses([run["loss"] for arm in THEIRS for run in runs[arm]])
    return {"case": name, **case, "pytorch_format": "images channels last" if channels_last else "as it comes", "nothing_bytes": nothing, "runs": runs, "missing": missing}


def same_losses(losses):
    """What a peer prints is worth nothing where its forms do not train the same."""
    if max(losses) - min(losses) > 1e-4 * abs(losses[0]):
        raise SystemExit(f"FSDP2's first losses differ between runs; got {losses}, expected one")


def above_nothing(result, arm):
    """Each worker's bytes, the median of all runs."""
    return [statistics.median(values) - nothing for values, nothing in zip(zip(*(run["peak_memory_bytes"] for run in result["runs"][arm])), result["nothing_bytes"][arm])]


def show(result):
    print(f"\n{result['case']}, batch {result['batch']}, two workers of one thread, fp32; {brackets(result)}; PyTorch {result['pytorch_format']}; "
          "memory of each worker above that of a network of nothing, and what LibTorch's allocator held at most, MB\n\n"
          "| | ms a step | samples/s | memory | allocator |\n|---|---|---|---|---|")
    for arm, runs in result["runs"].items():
        allocator = megabytes(statistics.median(values) for values in zip(*([each["allocator_peak"] for each in run["memory_bytes"]] for run in runs))) if "memory_bytes" in runs[0] else "-"
        print(f"| {arm} | {step_cells(runs, result['batch'])} | {megabytes(above_nothing(result, arm))} | {allocator} |")
    print()
    for mine, other in PAIRS:
        middle, low, high = ratio(medians(result["runs"][other]), medians(result["runs"][mine]))
        memory = max(above_nothing(result, mine)) / max(above_nothing(result, other))
        print(f"- {mine} against {other}: {middle:.2f} [{low:.2f} to {high:.2f}] times the samples/s (goal 1.1), {memory:.2f} times the memory (goal: at most 1)")
