"""Published tables as `ddlbench validate` predicts them, with their rows or the product's constants changed.

Constants are what machines/*.json, machines/stacks/*.json and machines/libraries/*.json say. The binary looks for each in ./machines first (docs/machine.md), so other constants are a folder with changed copies to run in.
"""
import copy
import csv
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy

from common import BINARY, ROOT
from tables import find, rows_of

MACHINES = ROOT / "machines"


def table(name):
    """Its rows, each with its table's name; None where it is not to be had."""
    path = find(name)
    return path and [{**row, "table": name} for row in rows_of(path)]


def document(name):
    """A file of machines/, "stacks/nvidia"."""
    return json.loads((MACHINES / f"{name}.json").read_text())


def at(content, path):
    for key in path.split("."):
        content = content[key]
    return content


def changed(changes):
    """Files by name with what `changes`, {(file, path): value}, says of them; a value of None takes the term away."""
    files = {}
    for (name, path), value in changes.items():
        content = files.setdefault(name, copy.deepcopy(document(name)))
        *above, key = path.split(".")
        if value is None:
            at(content, ".".join(above)).pop(key) if above else content.pop(key)
        elif above:
            at(content, ".".join(above))[key] = value
        else:
            content[key] = value
    return files


def validate(rows, changes=None, words=()):
    """`ddlbench validate --json` of these rows under changed constants. A row that is skipped ends it: figures are of all rows."""
    with tempfile.TemporaryDirectory(prefix="ddlbench-published-") as folder:
        path = pathlib.Path(folder) / "rows.csv"
        columns = [column for column in dict.fromkeys(key for row in rows for key in row) if column != "table"]
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, restval="", extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)
        for name, content in changed(changes or {}).items():
            target = pathlib.Path(folder) / "machines" / f"{name}.json"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(json.dumps(content))
        done = subprocess.run([BINARY, "validate", path, "--json", "--quiet", *words], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"ddlbench validate ended with {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def errors_pct(predicted, measured):
    return 100 * (numpy.asarray(predicted) / numpy.asarray(measured) - 1)


def kendall(a, b):
    """Tau-b."""
    a, b = (numpy.sign(numpy.subtract.outer(each, each)) for each in (numpy.asarray(a, float), numpy.asarray(b, float)))
    return float((a * b).sum() / math.sqrt((a * a).sum() * (b * b).sum()))


#: what somebody would choose a way for (predict/validate/validate.cpp, problem_of())
PROBLEM = ("model", "hidden", "ffn", "layers", "heads", "seq", "vocab", "image", "device", "devices", "precision", "data", "global_batch")


def regret(rows, predicted, measured):
    """By how much slower the way that is predicted to be the fastest is than the fastest, %, on the mean over problems of which these rows have several ways; None where none has."""
    problems = {}
    for row, each, real in zip(rows, predicted, measured):
        seconds = (lambda value: value) if row.get("measured_ms") else (lambda rate: 1 / rate)
        problems.setdefault(tuple(row.get(column) or "" for column in PROBLEM), []).append((seconds(each), seconds(real)))
    lost = [100 * (min(ways, key=lambda way: way[0])[1] / min(real for _, real in ways) - 1) for ways in problems.values() if len(ways) > 1]
    return sum(lost) / len(lost) if lost else None


def figures(predicted, measured):
    """As `validate` sums rows up."""
    errors = errors_pct(predicted, measured)
    return {"rows": len(errors), "mape": float(abs(errors).mean()), "max": float(abs(errors).max()), "bias": float(errors.mean()), "tau": kendall(predicted, measured) if len(errors) > 1 else None}
