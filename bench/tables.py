"""Where published tables lie. Of Python's own library alone: tests read it too."""
import csv
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = [ROOT / "machines/tables", *map(pathlib.Path, filter(None, [os.environ.get("DDLBENCH_TABLES")])), ROOT.parent / "shared/reference/runs"]


def first(file, folders):
    """Where a file is, or None."""
    return next((folder / file for folder in folders if (folder / file).is_file()), None)


def find(name):
    """Where a table is, or None: not all may be shipped."""
    return first(f"{name}.csv", FOLDERS)


def look_up_folders(*told):
    """Where look-ups may lie, which no table holds: in a folder that was told, in $DDLBENCH_TABLES, in the folder above either, in shared/reference beside this checkout."""
    asked = filter(None, [*told, os.environ.get("DDLBENCH_TABLES")])
    return [folder for each in map(pathlib.Path, asked) for folder in (each, each.parent)] + [ROOT.parent / "shared/reference"]


def rows_of(path):
    return list(csv.DictReader(line for line in path.read_text().splitlines() if not line.startswith("#")))
