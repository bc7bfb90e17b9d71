"""Published tables with something changed, where docs/validation.md and docs/machine.md quote what comes out: no rate of one device, a package that nobody knows, NCCL's own constants, other micro-batches, other memory of the driver.

usage: .deps/venv/bin/python bench/table_variants.py [WORD]
WORD: only parts whose name has it. Tables that do not ship are looked for in $DDLBENCH_TABLES and left out, by name, where they are not. Prints Markdown; build/bench/table_variants.json has the figures
"""
import datetime
import itertools
import math
import sys

import numpy

from common import machine, save
from published import document, errors_pct, table, validate

IMAGES = ("azure-horovod", "tensorflow-cnn", "nvidia-resnet50", "torchgpipe")
FORMULAE = ("--formulae-alone",)
out = {}


def rows_of(name):
    rows = table(name)
    if rows is None:
        print(f"{name}: in no folder of tables: left out", file=sys.stderr)
    return rows


def heading(text):
    print(f"\n{text}\n\n| | rows | MAPE | max | bias | tau | in interval | rms of the logarithm |\n|---|---|---|---|---|---|---|---|")


def tell(name, rows, changes=None, words=(), show=True):
    """A line, and what was found."""
    if rows is None:
        return None
    found = validate(rows, changes, words)
    sums = found["summary"]
    logs = [math.log(row["measured"] / row["predicted"]) for row in found["rows"]]
    spread = math.sqrt(sum(each * each for each in logs) / len(logs))
    if show:
        print(f"| {name} | {sums['rows']} | {sums['mape']:.1f} % | {sums['max']:.1f} % | {sums['bias']:+.1f} % | {sums['tau']:.3f} | {100 * sums['coverage']:.0f} % | {spread:.2f} |", flush=True)
        out[name] = {**sums, "rms_log": spread}
    return found


def with_column(rows, **values):
    return rows and [{**row, **values} for row in rows]


def datasheets():
    heading("Images from datasheets alone: without `one_device_samples_per_s`")
    for name in IMAGES:
        tell(f"{name}, datasheets alone", with_column(rows_of(name), one_device_samples_per_s=""))


def packages():
    heading("Packages taken for another")
    tell("vtrain-single as megatron", with_column(rows_of("vtrain-single"), stack="megatron/nccl"))
    tell("megatron-sc21 as megatron-deepspeed", with_column(rows_of("megatron-sc21"), stack="megatron-deepspeed/nccl"))
    tell("sailor-memory, a package that nobody knows", with_column(rows_of("sailor-memory"), stack="nobody/nccl"))
    one, other = (tell("", with_column(rows_of("megatron-sc21"), stack=f"{stack}/nccl"), show=False)["rows"] for stack in ("megatron", "megatron-core"))
    apart = [math.log(a["predicted"] / b["predicted"]) for a, b in zip(one, other)]
    print(f"\nmegatron and megatron-core on megatron-sc21: {math.sqrt(sum(each * each for each in apart) / len(apart)):.2f} apart (rms of the logarithm)")
    heading("The same, images: names that nobody knows before the library's")
    squares = []
    for name in IMAGES:
        rows = rows_of(name)
        rows = rows and [{**row, "stack": "nobody" + row["stack"][len(row["stack"].split("/")[0]):]} for row in rows]
        found = tell(f"{name} under another name", rows)
        squares += [math.log(row["measured"] / row["predicted"]) ** 2 for row in found["rows"]] if found and name != "torchgpipe" else []
    print(f"\nall but torchgpipe: {math.sqrt(sum(squares) / len(squares)):.2f}")


def nccl():
    for used in ("fitted", "tuning"):
        heading(f"NCCL's `{used}`")
        for name in ("megatron-sc21", "megatron-2020", "vtrain-single"):
            tell(f"{name}, {used}", rows_of(name), {("libraries/nccl", "used"): used}, FORMULAE)


def azure():
    heading("azure-horovod in quarters")
    rows = rows_of("azure-horovod")
    quarter = lambda row: f"{row['device'].upper()}, {row['stack'].split('/')[1]}"
    kinds = sorted({quarter(row) for row in rows})
    for kind in kinds:
        tell(kind, [row for row in rows if quarter(row) == kind])
    for device in ("k80", "v100"):
        tell(device.upper(), [row for row in rows if row["device"] == device])
    print("\nResNets v1 over v2, which have the same work and tensors, on two devices and more: logarithms of what v1 does a second over what v2 does")
    for kind in kinds:
        rates = {(row["model"], row["devices"]): float(row["measured_samples_per_s"]) / float(row["one_device_samples_per_s"]) for row in rows if quarter(row) == kind and int(row["devices"]) > 1}
        pairs = [math.log(rate / rates[model + "v2", count]) for (model, count), rate in rates.items() if (model + "v2", count) in rates]
        print(f"- {kind}: mean {100 * numpy.mean(pairs):+.1f} %, standard deviation {100 * numpy.std(pairs, ddof=1):.1f} %, of one row of a pair {100 * numpy.std(pairs, ddof=1) / math.sqrt(2):.1f} %; {len(pairs)} pairs")
    print("\nEfficiency of ResNet-101 on K80 over NCCL: " + ", ".join(f"{float(row['measured_samples_per_s']) / float(row['one_device_samples_per_s']) / int(row['devices']):.2f} on {row['devices']}" for row in rows
                                                                  if quarter(row) == "K80, openmpi+nccl" and row["model"] == "resnet101"))


def h100():
    heading("megatron-core-h100 with micro-batches that it does not print")
    for size in (1, 2, 4):
        tell(f"micro-batches of {size}", with_column(rows_of("megatron-core-h100"), micro_batch=str(size)))


def gpt_530b():
    """Korthikanti et al. 2022 (arXiv 2205.05198), abstract: 530 thousand million parameters on 2,240 A100; MFU by its formula, 72 B s l h^2 (1 + s/6h + V/12lh). Batch 2,240, micro-batches of 1, three interleaved chunks: as Megatron-LM's README has this run."""
    row = next(row for row in rows_of("megatron-sc21") if row["id"] == "sc21-530B")
    for recompute, parallel in (("selective", "1"), ("full", "0")):
        found = validate([{**row, "devices": "2240", "dp": "8", "global_batch": "2240", "recompute": recompute, "sequence_parallel": parallel}])["rows"][0]
        hidden, layers, words, vocabulary, batch = (float(each) for each in (row["hidden"], row["layers"], row["seq"], row["vocab"], 2240))
        flops = 72 * batch * words * layers * hidden**2 * (1 + words / 6 / hidden + vocabulary / 12 / layers / hidden)
        mfu = 100 * flops / (found["predicted"] * 1e-3) / 2240 / document("a100-80gb")["device"]["peak_flops"]["fp16"]
        print(f"\n530B on 2,240 A100, {recompute} recomputation: {mfu:.1f} % MFU")


def nemo():
    """The one constant of its level, fitted to all rows but those of a network, or of a release, which are then predicted."""
    rows = rows_of("nemo-h100")
    names = [row["id"].split("-")[:2] for row in rows]
    errors = {}
    for gain in (each / 200 for each in range(196, 229)):
        found = sorted(validate(rows, {("stacks/nemo", "gpt.product_gain"): gain})["rows"], key=lambda row: row["line"])
        errors[gain] = errors_pct(numpy.array([row["predicted"] for row in found]), numpy.array([row["measured"] for row in found]))
    shipped = document("stacks/nemo")["gpt"]["product_gain"]
    print("\nnemo-h100, rows that the gain of products was not fitted to\n\n| left out, each in turn | gains | MAPE | max | bias |\n|---|---|---|---|---|")
    for what, group in [("nothing: no gain", None), ("nothing: as shipped", None), ("a network", 0), ("a release", 1)]:
        if group is None:
            gains = [1.0 if "no gain" in what else shipped]
            held = errors[gains[0]]
        else:
            gains, held = [], numpy.zeros(len(rows))
            for each in sorted({name[group] for name in names}):
                out_of_it = numpy.array([name[group] == each for name in names])
                gains.append(min(errors, key=lambda gain: abs(errors[gain][~out_of_it]).mean()))
                held[out_of_it] = errors[gains[-1]][out_of_it]
        print(f"| {what} | {', '.join(f'{gain:.3f}' for gain in gains)} | {abs(held).mean():.2f} % | {abs(held).max():.1f} % | {held.mean():+.1f} % |")


def sailor():
    rows = rows_of("sailor-memory")
    stacks = [f"stacks/{name}" for name in ("sailor-opt", "sailor-gpt-neo")]
    shipped = document(stacks[0])["gpt"]["memory"]["context_bytes"]

    def memory(changes=None):
        found = validate(rows, changes)["memory"]
        return numpy.array([row["predicted_bytes"] for row in found]), numpy.array([row["measured_bytes"] for row in found])

    predicted, measured = memory()
    errors = lambda values, context: abs(errors_pct(values - shipped + context, measured))
    print("\nsailor-memory, memory\n\n| | MAPE | median | max |\n|---|---|---|---|")
    held = memory({(name, "gpt.memory.held_values"): 0 for name in stacks})[0]
    for name, values, context in [("as shipped", predicted, shipped), ("without held_values", held, shipped), *((f"{each:g} GB for driver, kernels and communicators", predicted, each * 1e9) for each in (3, 4, 6))]:
        found = errors(values, context)
        print(f"| {name} | {found.mean():.1f} % | {numpy.median(found):.1f} % | {found.max():.1f} % |")
    for part, rest in itertools.permutations((slice(0, None, 2), slice(1, None, 2))):
        best = min((each * 1e8 for each in range(20, 81)), key=lambda context: errors(predicted, context)[part].mean())
        print(f"| {best / 1e9:.1f} GB, fitted to every other row: the other {len(measured[rest])} | {errors(predicted, best)[rest].mean():.1f} % | | |")


PARTS = {"datasheets": datasheets, "packages": packages, "nccl": nccl, "azure": azure, "h100": h100, "nemo": nemo, "530b": gpt_530b, "sailor": sailor}

if __name__ == "__main__":
    wanted = [part for name, part in PARTS.items() if len(sys.argv) < 2 or sys.argv[1] in name]
    if not wanted:
        sys.exit(f"got {sys.argv[1]}, expected one of {', '.join(PARTS)}")
    here = machine()
    print(f"{datetime.date.today()}, {here['environment']['cpu']['model']}")
    for part in wanted:
        part()
    save("table_variants", {"machine": here, "date": str(datetime.date.today()), "figures": out})
