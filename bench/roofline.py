"""How far each network's training step is from what one core could do at most: by the roofline, layer by layer.

The roofline (Williams, Waterman & Patterson, CACM 2009) of a pass is the longer of its operations at the fastest product of matrices that this machine was seen to do, by MKL, oneDNN or OpenBLAS, over sizes, and of its bytes
at the bandwidth of the cache or memory that holds them. Operations are those of the definition: a convolution that does with fewer (Winograd) may pass 100 %. Bytes are the fewest: each value that a pass reads or writes,
once; whose working set fits into a cache is held to that cache's bandwidth. Layers that are computed with the one before them have no time and no bytes of their own.

Times are of `ddlbench probe compute`, one thread, in the core's seconds. Before and after each network the pace of fixed work is taken (pulse.py): what went at another pace than the peak is measured again, three times at most, and is
marked * if it never did.

usage: roofline.py [--networks A,B…] [--precision fp32,bf16] [--budget 3s] [--over 2]
The networks and samples are those of bench/training.py. Prints tables in Markdown; build/bench/roofline.json has all that was measured
"""
import argparse
import ctypes
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import torch

from common import BINARY, save
from pulse import CALM, Pulse, apart
from training_cases import CASES, dataset_of, model_of

torch.set_num_threads(1)
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
PRODUCTS = [(n, n, n) for n in (192, 256, 384, 512, 768, 1024)] + [(1024, 256, 1024), (1024, 1024, 256), (3136, 576, 64), (784, 1152, 128)]
SIZES = [1 << n for n in range(18, 28)]  # bytes of three arrays, from what a second cache holds to what none does
AGAIN = 3


def fastest(run, seconds):
    """Seconds of the fastest of some runs: those that nobody disturbed."""
    run()
    best, end = math.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        begun = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begun)
    return best


def openblas():
    """Its product of fp32 matrices by rows, in one thread, of the library that ddlbench would open (src/ddl/nn/openblas.cpp); None where there is none."""
    told = os.environ.get("DDLBENCH_OPENBLAS")
    if told == "none":
        return None
    own_threads = 1  # of openblas_get_parallel()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of this process alone, and of those that it starts
    for file in [told] if told else [*map(str, pathlib.Path("/usr/lib").glob("*/openblas-pthread/libopenblas.so.0")), "libopenblasp.so.0", "libopenblas.so.0"]:
        try:
            library = ctypes.CDLL(file, os.RTLD_NOW | os.RTLD_DEEPBIND)
            library.openblas_get_config.restype = ctypes.c_char_p
            if library.openblas_get_parallel() != own_threads or b"USE64BITINT" in library.openblas_get_config():
                print(f"{file}: not one that ddlbench takes", file=sys.stderr)
                continue
        except (OSError, AttributeError) as error:
            print(f"OpenBLAS: {error}", file=sys.stderr)
            continue
        order, plain, size, scalar, pointer = 101, 111, ctypes.c_int, ctypes.c_float, ctypes.c_void_p
        multiply = library.cblas_sgemm
        multiply.argtypes = [size, size, size, size, size, size, scalar, pointer, size, pointer, size, scalar, pointer, size]

        def product(a, b, c):
            (rows, inner), columns = a.shape, b.shape[1]
            multiply(order, plain, plain, rows, columns, inner, 1, a.data_ptr(), inner, b.data_ptr(), columns, 0, c.data_ptr(), columns)
        return product
    return None


def products(precision):
    """Operations a second of products of matrices, by library and size; those that this processor has none for are left out."""
    found, why = {}, {}
    third = openblas() if precision == "fp32" else None
    for rows, inner, columns in PRODUCTS:
        a, b = torch.randn(rows, inner).to(TYPES[precision]), torch.randn(inner, columns).to(TYPES[precision])
        c, across = torch.empty(rows, columns, dtype=TYPES[precision]), b.t().contiguous()
        for library, run in (("ATen's mm", lambda: torch.mm(a, b, out=c)), ("oneDNN's inner product", lambda: torch.ops.mkldnn._linear_pointwise(a, across, None, "none", [], ""))):
            try:
                found[f"{library}, {rows}x{inner}x{columns}"] = 2 * rows * inner * columns / fastest(run, 0.1)
            except RuntimeError as error:
                why[library] = str(error).split("\n")[0]
        if third is not None:
            found[f"OpenBLAS's sgemm, {rows}x{inner}x{columns}"] = 2 * rows * inner * columns / fastest(lambda: third(a, b, c), 0.1)
    for samples, channels, side in ((8, 64, 56), (8, 128, 28), (8, 256, 14)):
        maps = torch.randn(samples, channels, side, side).to(TYPES[precision]).contiguous(memory_format=torch.channels_last)
        weight = torch.randn(channels, channels, 3, 3).to(TYPES[precision]).contiguous(memory_format=torch.channels_last)
        with torch.no_grad():
            taken = fastest(lambda: torch.conv2d(maps, weight, padding=1), 0.2)
        found[f"oneDNN's convolution 3x3, {samples}x{channels}x{side}x{side}"] = 2 * maps.numel() * channels * 9 / taken
    for library, reason in why.items():
        print(f"{precision}: {library}: {reason}", file=sys.stderr)
    return found


def bandwidths():
    """Bytes a second of c = a + b, by the bytes of all three. What a write reads first does not count, as in STREAM."""
    found = {}
    for size in SIZES:
        a, b, c = (torch.ones(size // 12) for _ in range(3))
        found[size] = size / fastest(lambda: torch.add(a, b, out=c), 0.15)
    return found


def bandwidth(rates, size):
    """Of a working set of so many bytes: between two that were measured along the logarithm of the size."""
    if size <= SIZES[0]:
        return rates[SIZES[0]]
    for low, high in zip(SIZES, SIZES[1:]):
        if size <= high:
            part = math.log(size / low) / math.log(high / low)
            return rates[low] ** (1 - part) * rates[high] ** part
    return rates[SIZES[-1]]


def elements(shape):
    return math.prod(map(int, shape.split("x")))


def shapes(sort):
    """Elements of a sample that a layer reads, and those that it makes; of the loss, its logits and nothing."""
    given, _, made = sort.partition(" -> ")
    read = [part.removesuffix(" learning") for part in given[given.rindex("(") + 1:given.rindex(")")].split(", ")]
    return sum(map(elements, read)), elements(made.split(" ")[0]) if made else 0


def passes(layer, batch, element):
    """Forward and each part of backward: operations, and bytes read and written once. Of a layer in this precision's bytes; parameters and their gradients as fp32."""
    read, made = (batch * element * each for each in shapes(layer["sort"]))
    flops, weights = layer["flops"] * batch, 4 * layer["parameters"]
    family = layer["family"].split()[0]
    if family in ("conv2d", "linear", "attention", "lstm"):
        yield "forward", flops, read + made + weights
        if layer["backward_input_us"] is not None:
            yield "backward", flops, read + made + weights
        if layer["backward_weight_us"] is not None:
            yield "backward", flops, read + made + weights
        return
    if family == "embedding":
        # Rows that are looked up, and the whole gradient of the table.
        yield "forward", 0, 2 * made
        yield "backward", 0, made + weights
        return
    if family == "loss":
        yield "forward", flops, read
        yield "backward", flops, 2 * read
        return
    yield "forward", flops, read + made
    if layer["backward_input_us"] is not None and family not in ("add", "flatten"):
        # Its output's gradient, and either input or output, to know the slope by.
        yield "backward", flops, read + made + min(read, made)


def judge(entry, peak, rates, element):
    """Layers with what they take and could take, seconds, all places together."""
    batch, found = entry["batch"], []
    for layer in entry["layers"]:
        took = {"forward": 1e-6 * layer["forward_us"], "backward": 1e-6 * ((layer["backward_input_us"] or 0) + (layer["backward_weight_us"] or 0))}
        flops = bytes_ = limit = 0
        for way, operations, moved in passes(layer, batch, element):
            bound = max(operations / peak, moved / bandwidth(rates, moved))
            # Computed with the layer before it, or in place of nothing: 2 % of its limit is no pass over it.
            if took[way] < 0.02 * bound:
                continue
            flops, bytes_, limit = flops + operations, bytes_ + moved, limit + bound
        count = layer["count"]
        found.append({"sort": layer["sort"], "count": count, "forward": took["forward"] * count, "backward": took["backward"] * count, "flops": flops * count, "bytes": bytes_ * count, "limit": limit * count})
    read = 5 * entry["parameter_bytes"]  # SGD with momentum: reads parameter, momentum and gradient, writes two
    found.append({"sort": "update (sgd)", "count": 1, "forward": 0.0, "backward": 1e-6 * entry["update_us"], "flops": 0, "bytes": read, "limit": read / bandwidth(rates, read)})
    return found


def probe(name, precision, budget):
    case = CASES[name]
    model = model_of(case)
    done = subprocess.run([BINARY, "probe", "compute", "--model", model, "--dataset", dataset_of(case), "--synthetic", "--batch", str(case["batch"]), "--precision", precision, "--optimizer", "sgd[momentum=0.9]",
                           "--compression", "fp16", "--budget", budget, "--machine", "none", "--json", "--quiet"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"probe of {model} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)["compute"][0]


def at_pace(pulse, pace, measure):
    """What was measured while fixed work took as long before and after as it did when the peak was taken; else the calmest of some, and False."""
    best = None
    for _ in range(AGAIN):
        pulse.await_pace(pace, 60)
        before = pulse.take()
        found = measure()
        off = max(apart(before, pace), apart(pulse.take(), pace))
        if best is None or off < best[0]:
            best = off, found
        if off <= CALM:
            break
    return best[1], best[0] <= CALM


def short(sort):
    sort = re.sub(r" (own|tied) \S+| learning| channels last| fixed", "", sort)
    return re.sub(r",?(padding|stride)=(\d+)x\2", lambda match: f",{match[1][0]}{match[2]}", sort).replace("[,", "[")


def row(what, layer, step, peak, memory, count=""):
    took = layer["forward"] + layer["backward"]

    def share(part, whole):
        return f"{100 * part / whole:.0f} %" if took > 0 and part > 0 else ""

    return (f"| {what} | {count} | {1e3 * layer['forward']:.3g} | {1e3 * layer['backward']:.3g} | {100 * took / step:.1f} % | {share(layer['flops'] / max(took, 1e-12), peak)} | "
            f"{share(layer['bytes'] / max(took, 1e-12), memory)} | {share(layer['limit'], took)} |")


def table(entry, layers, peak, rates, over, calm):
    step = sum(layer["forward"] + layer["backward"] for layer in layers)
    memory = rates[SIZES[-1]]
    # No pass is counted as able to be faster than its roofline, nor slower than it was.
    limit = sum(min(layer["limit"], layer["forward"] + layer["backward"]) for layer in layers)
    whole = {key: sum(layer[key] for layer in layers) for key in ("forward", "backward", "flops", "bytes")} | {"limit": limit}
    print(f"\n**{entry['network']}, {entry['batch']} samples, {entry['precision']}**{'' if calm else ' *'}: {1e3 * step:.3g} ms, at the limit {1e3 * limit:.3g} ms: **{100 * limit / step:.0f} %**\n\n"
          "| layer | places | forward, ms | backward, ms | of the step | of the peak | of the memory's bandwidth | of the roofline |\n|---|---|---|---|---|---|---|---|")
    print(row("all", whole, step, peak, memory))
    rest = dict.fromkeys(("forward", "backward", "flops", "bytes", "limit"), 0.0)
    for layer in sorted(layers, key=lambda each: -(each["forward"] + each["backward"])):
        if 100 * (layer["forward"] + layer["backward"]) >= over * step:
            print(row(short(layer["sort"]), layer, step, peak, memory, layer["count"]))
        else:
            rest = {key: rest[key] + layer[key] for key in rest}
    print(row("others", rest, step, peak, memory), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--networks", default=",".join(CASES), help="with commas between; those")
    parser.add_argument("--precision", default="fp32", help="with commas between: fp32, bf16")
    parser.add_argument("--budget", default="3s", help="for each measurement")
    parser.add_argument("--over", type=float, default=2, help="percent of a step from which on a layer has a line of its own")
    chosen = parser.parse_args()
    names, precisions = chosen.networks.split(","), chosen.precision.split(",")
    if unknown := [name for name in names if name not in CASES]:
        parser.error(f"no network {', '.join(unknown)}; there are {', '.join(CASES)}")
    if unknown := [each for each in precisions if each not in TYPES]:
        parser.error(f"no precision {', '.join(unknown)}; there are {', '.join(TYPES)}")
    pulse = Pulse()
    pace = statistics.median(pulse.take() for _ in range(5))
    all_products, rates = {precision: products(precision) for precision in precisions}, bandwidths()
    results = {"pace_s": pace, "products_flops": all_products, "bandwidth_bytes_per_s": rates, "networks": []}
    for precision, found in all_products.items():
        best = {}
        for what, rate in found.items():
            library = what.partition(",")[0]
            best[library] = max(best.get(library, (0, "")), (rate, what))
        print(f"{precision}: " + "; ".join(f"{what} {rate / 1e9:.1f} GFLOP/s" for rate, what in sorted(best.values(), reverse=True)))
    print("memory: " + ", ".join(f"{size >> 10} KiB {rate / 1e9:.1f} GB/s" for size, rate in rates.items()))
    for name in names:
        for precision in precisions:
            peak = max(all_products[precision].values())
            entry, calm = at_pace(pulse, pace, lambda: probe(name, precision, chosen.budget))
            layers = judge(entry, peak, rates, 4 if precision == "fp32" else 2)
            table(entry, layers, peak, rates, chosen.over, calm)
            results["networks"].append({"entry": entry, "layers": layers, "calm": calm})
            save("roofline", results)


if __name__ == "__main__":
    main()
