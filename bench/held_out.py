"""Errors of published rows that had no part in the constants that predict them: each group of rows is left out in turn, everything that was fitted is fitted again to the others (refit.py), and `ddlbench validate` predicts the rows that were left out.

usage: .deps/venv/bin/python bench/held_out.py [--tables vtrain-single,…] [--starts shipped,round] [--fast]

Tables that do not ship are looked for in $DDLBENCH_TABLES and left out, by name, where they are not. A search that begins at the shipped constants leaks a little, since these saw all rows; one that begins at the same constants rounded to one digit ("round") does not,
and is as much worse as it ends early: the truth lies between. A constant that the remaining rows say nothing about stays where the search began: the last column counts them. `shapes` of megatron-deepspeed are noted from the remaining rows alone (mean logarithm of
measured over predicted, shrunk by n/(n+1)), after the constants. How many lie in their interval: with sigmas as they ship, which were judged in sight of all rows; of networks, devices and precisions as wide as a stack tells of one that it was not fitted to. Prints Markdown; build/bench/held_out.json has every row.
"""
import argparse
import collections
import datetime
import functools
import json
import math
import random
import sys
import time

import numpy

from common import machine, save
from published import at, document, figures, regret, table, validate
from refit import Model, fit, one_digit

SEED = 1
FOLDS = 5


def constants(file, prefix, *names, most=math.inf):
    """[(places, most)]; a name may stand for several places that share a value: "a=b"."""
    return [([(file, f"{prefix}{place}") for place in name.split("=")], most) for name in names]


KERNELS = constants("stacks/nvidia", "", "gemm_efficiency", "batched_gemm_efficiency", "pass_bandwidth", most=1) + constants("stacks/nvidia", "", "tile_half", "wave_us", "slowdown_per_doubling_of_nodes")
GPT = [*KERNELS, *constants("libraries/nccl", "fitted.", "network_bandwidth", most=1), *constants("stacks/megatron", "gpt.", "kernel_us", "update_bytes_per_parameter", "message_ms", "loss_bytes_per_logit", "tensor_bandwidth"),
       *constants("stacks/megatron", "gpt.", "gradients_hidden", most=1),
       *constants("stacks/megatron-deepspeed", "gpt.", "kernel_us", "host_forward_ms", "host_backward_ms", "host_tensor_ms", "host_unfused_softmax_ms", "host_stage_ms", "update_bytes_per_parameter", "step_ms", "message_ms", "tensor_message_ms",
                  "tensor_message_bytes", "loss_bytes_per_logit"), *constants("stacks/megatron-deepspeed", "gpt.", "misaligned_vocabulary_efficiency", most=1)]
NCCL = "stacks/horovod-openmpi+nccl"
HOROVOD = [*constants("stacks/horovod-intelmpi", "images.", "step_ms"),
           *constants("libraries/intelmpi", "horovod.", "of_two.call_ms=of_more.call_ms", "of_two.call_ms_per_doubling_of_devices=of_more.call_ms_per_doubling_of_devices", "of_two.ms_per_mb", "of_more.ms_per_mb"),
           *constants(NCCL, "images.", "step_ms", "of_two.ms_per_mb=of_more.ms_per_mb", *(f"of_{group}.{name}" for group in ("two", "more") for name in ("stall_ms", "stall_kernels")),
                      *(f"across.{name}" for name in ("ms_per_mb", "call_ms", "call_ms_per_doubling_of_nodes", "stall_ms", "stall_kernels", "stall_kernels_per_doubling_of_nodes", "step_ms")))]
UPDATES = ("ps-cpu", "ps-gpu", "repl-nonccl", "nccl", "dist-repl")
TENSORFLOW = constants("stacks/tensorflow", "images.", "uneven_over_pcie", "uneven_over_nvlink", "uneven_per_doubling", *(f"updates.{update}.ms_per_mb" for update in UPDATES), "=".join(f"updates.{update}.power" for update in UPDATES[1:]),
                       "network_ms_per_mb", "input_ms", "contention_ms_per_mb")
TORCHGPIPE = [*constants("stacks/torchgpipe", "images.", "copy_bandwidth"), *constants("stacks/nvidia", "images.", "convolution", "memory", most=1), *constants("stacks/nvidia", "images.", "convolution_3x3"), *constants("p40", "device.", "operator_us")]
# V100s of 32 GB have the loader of those of 16.
APEX = [*constants("stacks/apex", "images.", "uneven"), *constants("a100-80gb", "device.", "loader_images_per_s"), ([("v100-16gb", "device.loader_images_per_s"), ("v100-32gb", "device.loader_images_per_s")], math.inf)]


def by(*columns):
    return lambda rows: [" ".join(row[column] for column in columns) for row in rows]


def folds(rows):
    order = list(range(len(rows)))
    random.Random(SEED).shuffle(order)
    return [f"{order[number] % FOLDS}" for number in range(len(rows))]


SHAPE = ("tp", "hidden", "micro_batch")


def folds_of_shapes(rows):
    """All rows of a shape are in one fold."""
    shapes = by(*SHAPE)(rows)
    fold_of = dict(zip(sorted(set(shapes)), folds(sorted(set(shapes)))))
    return [fold_of[shape] for shape in shapes]


#: what is fitted, over which tables, which stacks say what they were fitted to, and which groups of which table are left out in turn
STUDIES = {
    "gpt": {"constants": GPT, "tables": ["vtrain-single", "megatron-sc21", "megatron-2020"],
            "left_out": {"vtrain-single": {"a fifth at random": folds, "a fifth of all shapes": folds_of_shapes, "a number of layers": by("layers"), "a `pp`": by("pp")},
                         "megatron-sc21": {"a row": by("id"), "the table": by("table")}, "megatron-2020": {"a row": by("id"), "the table": by("table")}}},
    "horovod": {"constants": HOROVOD, "search": {"way": 1.3}, "tables": ["azure-horovod"], "stacks": ("horovod-intelmpi", "horovod-openmpi+nccl"), "left_out": {"azure-horovod": {"a network": by("model"), "a number of devices": by("devices"), "a device": by("device")}}},
    "tensorflow": {"constants": TENSORFLOW, "tables": ["tensorflow-cnn"], "stacks": ("tensorflow",), "left_out": {"tensorflow-cnn": {"a network": by("model"), "a device": by("device"), "a number of devices": by("devices")}}},
    "torchgpipe": {"constants": TORCHGPIPE, "tables": ["torchgpipe"], "stacks": ("torchgpipe",), "left_out": {"torchgpipe": {"a row": by("id"), "a network": lambda rows: [row["model"].split("(")[0] for row in rows]}}},
    "apex": {"constants": APEX, "tables": ["nvidia-resnet50"], "stacks": ("apex",), "left_out": {"nvidia-resnet50": {"a device": by("device"), "a precision": by("precision")}}},
}
SHAPES = ("stacks/megatron-deepspeed", "gpt.shapes")
#: what a stack says it was fitted to, of the ways that leave a thing of it out, and the column that has it
FORGOTTEN = {"a network": ("networks", "model"), "a device": ("devices", "device"), "a precision": ("precisions", "precision")}


class Study:
    def __init__(self, what, rows):
        self.rows, self.stacks, self.places = rows, what.get("stacks", ()), [places for places, _ in what["constants"]]
        self.shipped = numpy.array([at(document(places[0][0]), places[0][1]) for places in self.places], float)
        measured = [float(row.get("measured_ms") or row["measured_samples_per_s"]) for row in rows]
        self.model = Model(lambda values: self.predictions(values), measured, [most for _, most in what["constants"]], **what.get("search", {}))
        of = collections.Counter(self.table_of(row) for row in rows)
        # One package's tables count as much as another's, however many rows they have.
        self.weights = numpy.array([1 / of[self.table_of(row)] for row in rows])

    @staticmethod
    def table_of(row):
        return row["stack"].split("/")[0] if row["model"] == "gpt" else row["table"]

    def changes(self, values):
        return {place: float(value) for places, value in zip(self.places, values) for place in places}

    def predictions(self, values, shapes=None):
        found = validate(self.rows, {**self.changes(values), **({SHAPES: shapes} if shapes is not None else {})}, () if shapes is not None else ("--formulae-alone",))
        if [row["id"] for row in found["rows"]] != [row["id"] for row in self.rows]:
            sys.exit(f"ddlbench validate predicted {len(found['rows'])} of {len(self.rows)} rows")
        return [row["predicted"] for row in found["rows"]]

    @functools.lru_cache
    def widths(self, shaped):
        """Logarithm of each row's upper end over its prediction, by the constants and sigmas that ship."""
        return numpy.log([row["high"] / row["predicted"] for row in validate(self.rows, {}, () if shaped else ("--formulae-alone",))["rows"]])

    def widths_of_strangers(self, table, left_out):
        """The same of a table's rows, each by stacks that do not say that they were fitted to what is left out with it: as wide as of what nobody has seen. None where stacks name no such thing."""
        if not self.stacks or left_out not in FORGOTTEN:
            return None
        term, column = FORGOTTEN[left_out]
        out = numpy.zeros(len(self.rows))
        thing = lambda row: row[column].split("(")[0]
        for each in {thing(row) for row in self.rows if row["table"] == table}:
            places = [(f"stacks/{stack}", f"images.fitted.{term}") for stack in self.stacks]
            found = validate(self.rows, {place: [known for known in at(document(place[0]), place[1]) if known != each] for place in places}, ("--formulae-alone",))["rows"]
            for number, row in enumerate(self.rows):
                if row["table"] == table and thing(row) == each:
                    out[number] = numpy.log(found[number]["high"] / found[number]["predicted"])
        return out

    def start(self, name):
        return self.shipped if name == "shipped" else numpy.minimum([one_digit(value) for value in self.shipped], self.model.most)

    def noted_shapes(self, values, part):
        """As `shapes` of the stack: from the rows that have a part."""
        logs = collections.defaultdict(list)
        for row, has, predicted, measured in zip(self.rows, part, self.model.predict(values), self.model.measured):
            if has and row["table"] == "vtrain-single":
                logs[tuple(int(row[column]) for column in SHAPE)].append(math.log(measured / predicted))
        return [{"tensor": tensor, "hidden": hidden, "micro_batch": micro, "log_multiplier": sum(each) / (len(each) + 1), "rows": len(each)} for (tensor, hidden, micro), each in sorted(logs.items())]

    def hold_out(self, name, groups_of, start, most_groups, shapes):
        """Predictions of every row of a table by constants that its group had no part in; by formulae, and with the shapes of the others."""
        mine = [number for number, row in enumerate(self.rows) if row["table"] == name]
        group_of = dict(zip(mine, groups_of([self.rows[number] for number in mine])))
        groups = list(dict.fromkeys(group_of.values()))[:most_groups]
        formulae, shaped, unknown = {}, {}, set()
        for group in groups:
            left = [number for number in mine if group_of[number] == group]
            part = numpy.array([number not in left for number in range(len(self.rows))])
            if not part.any():
                sys.exit(f"{name}: '{group}' is all that there is")
            weights = self.weights * part
            values = fit(self.model, start, weights)
            unknown |= set(self.model.unknown(start, weights))
            formulae |= {number: self.model.predict(values)[number] for number in left}
            if shapes:
                found = self.predictions(values, self.noted_shapes(values, part))
                shaped |= {number: found[number] for number in left}
        return len(groups), formulae, shaped, [self.places[number][0] for number in sorted(unknown)]


def shapes_again(study):
    """Whether the shapes that ship are what the constants that ship leave of all rows."""
    shipped = {tuple(each[column] for column in ("tensor", "hidden", "micro_batch")): each["log_multiplier"] for each in at(document(SHAPES[0]), SHAPES[1])}
    noted = {tuple(each[column] for column in ("tensor", "hidden", "micro_batch")): each["log_multiplier"] for each in study.noted_shapes(study.shipped, numpy.ones(len(study.rows), bool))}
    print(f"shapes that ship: {len(shipped)}; noted again from all rows they differ by {max(abs(noted[key] - shipped[key]) for key in shipped):.4f} at most", file=sys.stderr)


def cell(found):
    tau = "-" if found["tau"] is None else f"{found['tau']:.3f}"
    chosen = "-" if found["regret"] is None else f"{found['regret']:.1f} %"
    return f"{found['mape']:.2f} %, {found['max']:.1f} %, {found['bias']:+.1f} %, {tau}, {found['inside']:.0%}, {chosen}"


def line(name, left_out, groups, rows, cells, unknown, seconds):
    print(f"| {name} | {left_out} | {groups} | {rows} | {' | '.join(cells)} | {unknown} | {seconds:.0f} |", flush=True)


def show(study, what, starts, chosen, most_groups, out, keep):
    for name, ways in what["left_out"].items():
        mine = [number for number, row in enumerate(study.rows) if row["table"] == name]
        if not mine or name not in chosen:
            continue

        def judged(found, numbers, shaped=False, strange=None):
            """With how many lie in their interval: as wide as of what was left out where a stack names such things, else as wide as they ship."""
            predicted, measured, widths = numpy.array([found[number] for number in numbers]), study.model.measured[numbers], (study.widths(shaped) if strange is None else strange)[numbers]
            return {**figures(predicted, measured), "regret": regret([study.rows[number] for number in numbers], predicted, measured), "inside": float((abs(numpy.log(predicted / measured)) <= widths).mean())}

        shipped = judged(study.model.predict(study.shipped), mine)
        line(name, "nothing: as shipped", "", len(mine), [cell(shipped)] * len(starts), "", 0)
        begun = time.monotonic()
        refitted = {start: judged(study.model.predict(fit(study.model, study.start(start), study.weights)), mine) for start in starts}
        line(name, "nothing: fitted again", "", len(mine), [cell(refitted[start]) for start in starts], "", time.monotonic() - begun)
        out.append({"table": name, "left_out": None, "shipped": shipped, "refitted": refitted})
        for left_out, groups_of in ways.items():
            begun = time.monotonic()
            shapes = name == "vtrain-single" and left_out != "a fifth of all shapes"  # no other row has those
            found = {start: study.hold_out(name, groups_of, study.start(start), most_groups, shapes) for start in starts}
            strange = study.widths_of_strangers(name, left_out)
            kinds = [("", 1), (", shapes of the others", 2)] if shapes else [("", 1)]
            for kind, place in kinds:
                numbers = sorted(found[starts[0]][place])
                cells = {start: judged(found[start][place], numbers, shaped=place == 2, strange=strange) for start in starts}
                unknown = found[starts[0]][3]
                line(name, left_out + kind, found[starts[0]][0], len(numbers), [cell(cells[start]) for start in starts], len(unknown), time.monotonic() - begun)
                out.append({"table": name, "left_out": left_out + kind, "groups": found[starts[0]][0], **cells, "unknown": unknown, "seconds": time.monotonic() - begun,
                            "predicted": {start: {study.rows[number]["id"]: float(found[start][place][number]) for number in numbers} for start in starts}})
            keep()


def main():
    everything = [name for what in STUDIES.values() for name in what["left_out"]]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", default=",".join(everything), help="names, with commas between")
    parser.add_argument("--starts", default="shipped,round", help="where searches begin")
    parser.add_argument("--fast", action="store_true", help="two groups of each kind, from the shipped constants: to see that it works")
    chosen = parser.parse_args()
    tables, starts = chosen.tables.split(","), ["shipped"] if chosen.fast else chosen.starts.split(",")
    for word, known in [(word, everything) for word in tables] + [(word, ["shipped", "round"]) for word in starts]:
        if word not in known:
            parser.error(f"got {word}, expected one of {', '.join(known)}")
    here, out, begun = machine(), [], time.monotonic()
    keep = lambda: save("held_out", {"machine": here, "date": str(datetime.date.today()), "seed": SEED, "results": out})
    print(f"{datetime.date.today()}, {here['environment']['cpu']['model']}; of rows that were left out: MAPE, largest, bias, tau, in interval, regret of the best predicted; five folds by seed {SEED}\n")
    print(f"| table | left out, each in turn | groups | rows | {' | '.join('from the constants that ship' if start == 'shipped' else 'from one digit of them' for start in starts)} | constants not known by the rest | s |")
    print("|---" * (6 + len(starts)) + "|")
    for what in STUDIES.values():
        if not set(tables) & set(what["left_out"]):
            continue
        rows = []
        for name in what["tables"]:
            found = table(name)
            if found is None:
                print(f"{name}: in no folder of tables: left out", file=sys.stderr)
                continue
            # Nothing was fitted on a V100.
            rows += [row for row in found if not (row["model"] == "gpt" and row["device"].startswith("v100"))]
        if rows:
            study = Study(what, rows)
            show(study, what, starts, tables, 2 if chosen.fast else None, out, keep)
            if any(row["table"] == "vtrain-single" for row in rows) and "vtrain-single" in tables:
                shapes_again(study)
            print(f"{', '.join(what['tables'])}: {len(study.places)} constants, {study.model.runs} runs of ddlbench validate", file=sys.stderr)
    print(f"\n{time.monotonic() - begun:.0f} s in all")
    keep()


if __name__ == "__main__":
    main()
