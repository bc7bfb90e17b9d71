"""Figures of the documents that come from look-ups which others published, and from constants in machines/, without a run of ddlbench:

  vtrain_nccl_allreduce_lut.csv        nccl-tests in one node (vTrain): machines/libraries/nccl.json, docs/machine.md "Libraries of collectives"
  neusight_labels.csv                  single GPUs, training steps (NeuSight): flops_per_joule_gain of machines/stacks/nvidia.json, docs/validation.md "How much of its peak an H100 reaches"
  mxnet_singledevice_batch_sweep.csv   batches on one GPU (MXNet): operator_us of machines/{k80,m60,v100}.json

usage: .deps/venv/bin/python bench/look_ups.py [FOLDER]

FOLDER is where they lie; unless told $DDLBENCH_TABLES, the folder above it, or shared/reference beside this checkout. What is not there is left out, by name. Formulae are those of docs/machine.md, as src/ddl/predict/datasheet/collective_library.cpp has them.
"""
import math
import statistics
import sys

import numpy

from published import document, errors_pct, rows_of
from refit import Model, fit
from tables import first, look_up_folders

FOLDERS = look_up_folders(*sys.argv[1:2])
PROFILES = {"a100": "a100-80gb", "v100": "v100-16gb"}
FITTED = ("latency_us", "latency_us_per_rank", "half_bytes", "bandwidth", "bandwidth_of_two")
#: Layers of ours that start a kernel forward, without flattening and auxiliary heads: ResNet-50 53 convolutions and norms each, 49 ReLUs, 16 sums, 2 pools, a product; Inception V3 94 convolutions, norms and ReLUs each, 14 pools, 15 concatenations, a product.
OPERATORS = {"ResNet-50": 174, "Inception-v3": 312}
MIB = 1 << 20


def look_up(name):
    path = first(name, FOLDERS)
    if path is None:
        print(f"{name}: in none of {', '.join(map(str, FOLDERS))}: left out\n", file=sys.stderr)
    return path and rows_of(path)


def fitted(constants, machine, size, ranks):
    """us, of an all-reduce in a node."""
    latency, per_rank, half, share, of_two = constants
    rate = machine["node"]["bus_bandwidth"] * share * (of_two if ranks <= 2 else 1)
    return latency + per_rank * ranks + 1e6 * 2 * (ranks - 1) / ranks * size / rate * (1 + math.sqrt(half / size))


def tuning(table, machine, size, ranks):
    """us: the least over NCCL's algorithms and protocols, by NVLink."""
    capability = machine["device"]["compute_capability"]
    generation = next(each for each in table["generations"] if capability < each["below_capability"])
    best = math.inf
    for each in table["algorithms"]:
        rate = machine["node"]["bus_bandwidth"] * each["share"]
        if each.get("capped"):
            rate = min(rate, generation["ll_bandwidth"][0])
        if each["algorithm"] == "tree":
            correction, blocks = table["tree_correction"][each["protocol"]], int(math.log2(size / 64))
            rate *= 0.5 * (correction[blocks] if blocks < len(correction) else 1)
        else:
            rate *= ranks / (2 * (ranks - 1))
        best = min(best, each["base_us"] + 2 * (ranks - 1) * each["nvlink_us"] + 1e6 * size / rate)
    return best


def all_reduces(rows):
    nccl = document("libraries/nccl")
    shipped = [nccl["fitted"][name] for name in FITTED]
    found = [(row["gpu"], document(PROFILES[row["gpu"]]), int(row["bytes"]), int(row["n_gpus"]), float(row["out_of_place_us"])) for row in rows]
    forms = {"fitted": lambda *asked: fitted(shipped, *asked), "tuning": lambda *asked: tuning(nccl["tuning"], *asked)}
    kinds = {"A100, 2 to 8": lambda gpu, size, ranks: gpu == "a100", "- from 16 MiB on": lambda gpu, size, ranks: gpu == "a100" and size >= 16 * MIB, "- eight": lambda gpu, size, ranks: gpu == "a100" and ranks == 8,
             "eight V100": lambda gpu, size, ranks: gpu == "v100" and ranks == 8, "V100, 2 to 8": lambda gpu, size, ranks: gpu == "v100"}
    print("All-reduces in a node, nccl-tests, fp32, out of place, 1 MiB to 1 GiB; mean absolute error, largest, bias\n\n| | all-reduces | `fitted` | `tuning` |\n|---|---|---|---|")
    for kind, wanted in kinds.items():
        some = [each for each in found if wanted(each[0], each[2], each[3])]
        cells = []
        for form in forms.values():
            errors = errors_pct([form(machine, size, ranks) for _, machine, size, ranks, _ in some], [took for *_, took in some])
            cells.append(f"{abs(errors).mean():.1f} %, {abs(errors).max():.1f} %, {errors.mean():+.1f} %")
        print(f"| {kind} | {len(some)} | {' | '.join(cells)} |")
    held_out([each for each in found if each[0] == "a100"], shipped)
    long = next(row for row in rows if (row["gpu"], row["n_gpus"], row["bytes"]) == ("v100", "8", str(1 << 30)))
    bus = float(long["out_of_place_busbw_GBps"])
    print(f"\nBus of eight V100: {bus:.1f} GB/s at 1 GiB; over the fit's share of an A100's, {nccl['fitted']['bandwidth']}: {bus / nccl['fitted']['bandwidth']:.1f} GB/s (v100-16gb has {document('v100-16gb')['node']['bus_bandwidth'] / 1e9:.1f})\n")


def held_out(found, shipped):
    """Of each number of A100 by constants fitted to the other numbers."""
    model = Model(lambda values: [fitted(values, machine, size, ranks) for _, machine, size, ranks, _ in found], [took for *_, took in found], [math.inf, math.inf, math.inf, 1, 1])
    of = numpy.array([ranks for *_, ranks, _ in found])
    errors = {ranks: errors_pct(model.predict(fit(model, shipped, of != ranks)), model.measured)[of == ranks] for ranks in sorted(set(of))}
    every = numpy.concatenate(list(errors.values()))
    again = errors_pct(model.predict(fit(model, shipped, numpy.ones(len(of)))), model.measured)
    print(f"\nA100, `fitted` fitted again (bench/refit.py): to all {abs(again).mean():.1f} %; to the other numbers of GPUs, of each left out in turn: {abs(every).mean():.1f} % ("
          + ", ".join(f"{ranks}: {abs(each).mean():.1f}" for ranks, each in errors.items()) + ")")


def peaks(rows):
    """What an H100 reaches of its peak beside what an A100 does: the ratio of times over that of peaks."""
    key = lambda row: tuple(row[column] for column in ("model", "mode", "seq", "batch", "option"))
    h100, a100 = ({key(row): float(row["e2e_ms"]) for row in rows if row["device"] == device} for device in ("NVIDIA_H100_80GB_HBM3", "NVIDIA_A100_80GB_PCIe"))
    h, a = document("h100-80gb")["device"], document("a100-80gb")["device"]
    peak = h["peak_flops"]["fp32"] / a["peak_flops"]["fp32"]
    reached = {each: a100[each] / h100[each] / peak for each in a100 if each in h100}
    print("Training steps in fp32 that NeuSight measured on both an H100 and an A100 of 80 GB over PCIe\n\n| | of its peak beside an A100 |\n|---|---|")
    for (model, mode, sequence, batch, _), share in sorted(reached.items(), key=lambda each: each[1]):
        print(f"| {model}, {mode}, {sequence} words, batch {batch} | {share:.3f} |")
    values = list(reached.values())
    gain = document("stacks/nvidia")["flops_per_joule_gain"]
    taken = min(1, h["watts"] / h["peak_flops"]["fp16"] / (a["watts"] / a["peak_flops"]["fp16"]) * gain)
    print(f"\n{len(values)} pairs: {min(values):.2f} to {max(values):.2f}, geometric mean {statistics.geometric_mean(values):.2f}, median {statistics.median(values):.2f}; taken (16 bits): {taken:.2f}\n")


def launches(rows):
    """A step's time over batches is a line; of what it has at a batch of 0 a third is laid to launches, of which a step has 3 an operator."""
    print("What a step of MXNet takes besides its samples (least squares of relative errors over batches), a third of it over 3 launches an operator, us\n\n| | " + " | ".join(OPERATORS) + " | `operator_us` |\n|---|" + "---|" * (len(OPERATORS) + 1))
    for device in ("K80", "M60", "V100"):
        cells = []
        for model, operators in OPERATORS.items():
            points = [(int(row["batch"]), int(row["batch"]) / float(row["images_per_s"])) for row in rows if (row["device"], row["mode"], row["model"]) == (device, "train", model)]
            scaled = numpy.array([[1 / seconds, batch / seconds] for batch, seconds in points])
            constant = numpy.linalg.lstsq(scaled, numpy.ones(len(points)), rcond=None)[0][0]
            cells.append(f"{1e6 * constant / 9 / operators:.1f} (of {1e3 * constant:.1f} ms)")
        print(f"| {device} | {' | '.join(cells)} | {document(device.lower())['device']['operator_us']:g} |")


for file, show in {"vtrain_nccl_allreduce_lut.csv": all_reduces, "neusight_labels.csv": peaks, "mxnet_singledevice_batch_sweep.csv": launches}.items():
    if (rows := look_up(file)) is not None:
        show(rows)
