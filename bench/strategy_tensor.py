"""`tensor[split=megatron]` beside torch's parallelize_module (ColwiseParallel, RowwiseParallel, with and without SequenceParallel; Gloo).

A GPT of one layer and few words, so that the layer is most of it; the table of words is cut by vocabulary and tied to the output on both sides. PyTorch's
loss is of logits in parts (loss_parallel) and of whole ones, as ours gathers them; both are shown. The same batch on all workers, fp32, SGD with momentum.
"""
import functools
import statistics

from common import ratio
from networks import TEXT
from strategy_arms import brackets, interleave, medians, megabytes, ours_where_known, peer, step_cells


def layer(hidden, heads, batch):
    return {"model": "gpt", "options": {"hidden": str(hidden), "layers": "1", "heads": str(heads), "dropout": "0"}, "dataset": "language[vocabulary=1000,length=129]",
            "shape": {**TEXT, "classes": 1000, "target": 129}, "batch": batch, "steps": 8}


CASES = {"layer512": layer(512, 8, 16), "layer1024": layer(1024, 16, 8)}
FORMS = {False: "split=megatron", True: "split=megatron,sequence=on"}


def theirs(case, sequence, whole_logits, workers=2, steps=None):
    job = {**{key: case[key] for key in ("options", "shape", "batch", "steps")}, "workers": workers, "sequence": sequence, "whole_logits": whole_logits}
    return peer("torch_tensor.py", job if steps is None else {**job, "steps": steps})


def name_of(sequence, whole_logits):
    return "parallelize_module" + (" + SequenceParallel" if sequence else "") + ("" if whole_logits else ", loss_parallel")


def run(name, rounds, steps=None):
    case = {**CASES[name], "steps": steps or CASES[name]["steps"]}
    arms = {f"ddlbench tensor[{form}]": ours_where_known(case, f"tensor[{form}]") for form in FORMS.values()}
    arms |= {name_of(sequence, whole): functools.partial(theirs, case, sequence, whole) for sequence in FORMS for whole in (True, False)}
    alone = theirs(case, False, True, workers=1)["losses"]
    runs, missing = interleave(name, arms, rounds)
    for arm, all_runs in runs.items():
        if arm.startswith("ddlbench"):
            continue
        off = max(abs(a - b) / abs(b) for run in all_runs for a, b in zip(run["losses"], alone))
        if off > 1e-3:
            raise SystemExit(f"{arm} does not train as one rank does: losses are off by {off:.2g} of them, expected at most 1e-3")
    return {"case": name, **case, "losses_of_one_rank": alone, "runs": runs, "missing": missing}


def show(result):
    print(f"\n{result['case']}: gpt of {result['options']['layers']} layer, {result['options']['hidden']} features, {result['options']['heads']} heads, {result['shape']['classes']} words, batch "
          f"{result['batch']} of {result['shape']['target'] - 1} places, two workers of one thread, fp32; {brackets(result)}; memory: each process's peak, MB\n\n"
          "| | ms a step | samples/s | MB |\n|---|---|---|---|")
    for arm, word in result["missing"].items():
        print(f"| {arm} | not measured: {word} | | |")
    for arm, runs in result["runs"].items():
        print(f"| {arm} | {step_cells(runs, result['batch'])} | {megabytes(statistics.median(values) for values in zip(*(run['peak_memory_bytes'] for run in runs)))} |")
    print()
    for sequence, form in FORMS.items():
        mine = f"ddlbench tensor[{form}]"
        if mine in result["missing"]:
            continue
        other = min((name_of(sequence, whole) for whole in (True, False)), key=lambda arm: statistics.median(medians(result["runs"][arm])))
        middle, low, high = ratio(medians(result["runs"][other]), medians(result["runs"][mine]))
        print(f"- {mine} against {other}, the faster of the two: {middle:.2f} [{low:.2f} to {high:.2f}] times the samples/s (goal 1.1)")
