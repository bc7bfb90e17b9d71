"""Fails on an include that points upward: src/ddl/<layer> may include its own layer and those below it.

Also holds where LibTorch may be included, and tries itself on made-up violations.
"""
import pathlib
import re
import sys
import tempfile
import unittest

# Lowest first. Layers within one group must not include each other unless the list of exceptions says so.
LAYERS = [["core"], ["measure"], ["plan", "transport"], ["collective"], ["data"], ["nn"], ["strategy"],
          ["predict", "probe"], ["train"], ["subject"], ["lab"], ["report"], ["cli"]]
TORCH = {"nn", "train"}
# report reads records, nothing of what made them, and names causes.
ONLY = {"report": {"core", "measure"}, "subject": {"core", "measure", "data"}}
INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^">]+)[">]')
TORCH_HEADER = re.compile(r"^(ATen|torch|c10|caffe2)/")

OPENS = re.compile(r"^namespace ([\w:]+) \{")
TYPE = re.compile(r"^(?:struct|class|union|enum class|enum)\s+(?:alignas\([^)]*\)\s+)?(\w+)\b(?!::)[^;]*\{")

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "src" / "ddl"


# Loaded at run time: what links the layer links none of this.
MODULES = {"transport/gloo/module.cpp"}


def level_of(layer):
    for level, group in enumerate(LAYERS):
        if layer in group:
            return level
    return None


def findings(source):
    found = []
    for path in sorted(source.rglob("*")):
        if path.suffix not in {".h", ".cpp", ".cu"}:
            continue
        layer = path.relative_to(source).parts[0]
        if level_of(layer) is None:
            found.append(f"{path}: folder '{layer}' is not a layer; expected one of {sum(LAYERS, [])}")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            name = match.group(1)
            if TORCH_HEADER.match(name) and layer not in TORCH and path.relative_to(source).as_posix() not in MODULES:
                found.append(f"{path}:{number}: layer '{layer}' includes LibTorch ({name}); only {sorted(TORCH)} may")
            if '"' in line and not name.startswith("ddl/") and not name.startswith("hwy/"):
                found.append(f"{path}:{number}: includes '{name}'; expected our own headers as \"ddl/LAYER/…\"")
            if not name.startswith("ddl/"):
                continue
            other = name.split("/")[1]
            upward = level_of(other) is None or level_of(other) > level_of(layer)
            beside = other != layer and level_of(other) == level_of(layer)
            barred = other != layer and layer in ONLY and other not in ONLY[layer]
            if upward or beside or barred:
                found.append(f"{path}:{number}: layer '{layer}' includes '{name}', which is not below it")
    return found


def named_twice(source):
    """Types that two headers define by one name. A program that has both is not sound, and no compiler says so: what is generated for the one, as std::vector's members, is taken for the other."""
    homes = {}
    for path in sorted(source.rglob("*.h")):
        namespace = ""
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if match := OPENS.match(line):
                namespace = match.group(1)
            elif match := TYPE.match(line):
                homes.setdefault(f"{namespace}::{match.group(1)}", []).append(f"{path.relative_to(source)}:{number}")
    return {name: where for name, where in homes.items() if len({each.split(":")[0] for each in where}) > 1}


class Layers(unittest.TestCase):
    def test_every_include_points_down(self):
        self.assertGreater(len(list(SOURCE.rglob("*.cpp"))), 50)
        self.assertEqual(findings(SOURCE), [])

    def test_no_two_headers_define_the_same_name(self):
        self.assertEqual(named_twice(SOURCE), {})

    def test_a_name_that_is_there_twice_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            for file, text in [("a.h", "namespace ddl {\nstruct Cost {\n};\nstruct Later;\n}\n"), ("b.h", "namespace ddl {\nclass Cost final : public Base {\n};\nstruct Later {\n};\n}\n"),
                               ("c.h", "namespace ddl::testing {\nstruct Cost {\n};\n}\n")]:
                (pathlib.Path(folder) / file).write_text(text)
            self.assertEqual(named_twice(pathlib.Path(folder)), {"ddl::Cost": ["a.h:2", "b.h:2"]})

    def test_it_can_fail(self):
        for file, line in [("core/a.h", '#include "ddl/train/job.h"'), ("plan/a.cpp", '#include "ddl/transport/transport.h"'),
                           ("lab/a.cpp", "#include <ATen/ATen.h>"), ("report/a.cpp", '#include "ddl/lab/run.h"'),
                           ("core/b.h", '#include "../train/job.h"'), ("misc/a.h", "")]:
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / file
                path.parent.mkdir()
                path.write_text(line + "\n")
                self.assertEqual(len(findings(pathlib.Path(folder))), 1, file)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
