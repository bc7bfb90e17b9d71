"""Where published tables lie. Of Python's own library alone: tests read it too."""
import csv
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = [ROOT / "machines/tables", *map(pathlib.Path, filter(None, [os.environ.get("DDLBENCH_TABLES")])), ROOT.parent / "shared/reference/runs"]


def find(name):
    """Where a table is, or None: not all may be shipped."""
    return next((folder / f"{name}.csv" for folder in FOLDERS if (folder / f"{name}.csv").is_file()), None)


def rows_of(path):
    return list(csv.DictReader(line for line in path.read_text().splitlines() if not line.startswith("#")))
