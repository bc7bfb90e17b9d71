"""Says which tests of the last ctest run were left out, and why: ctest counts a program that skips some of its tests as passed.

usage: skipped.py BUILD-FOLDER
"""
import collections
import pathlib
import re
import sys


def skipped(log):
    """(program, test, why) of Python's unittest and of Google Test."""
    program = "?"
    for line in log.splitlines():
        if begun := re.match(r"\d+/\d+ Test(?:ing)?: (\S+)", line):
            program = begun[1]
        elif told := re.match(r"(?:(\S+) \(.*\)|(.*)) \.\.\. skipped (['\"])(.*)\3$", line):
            yield program, told[1] or told[2], told[4]
        elif told := re.match(r"\[  SKIPPED \] (\S+) \(\d+ ms\)$", line):
            yield program, told[1], "its output says why"


def main():
    log = pathlib.Path(sys.argv[1]) / "Testing/Temporary/LastTest.log"
    found = collections.defaultdict(list)
    for program, test, why in skipped(log.read_text(errors="replace")):
        found[program, why].append(test)
    if found:
        print(f"{sum(map(len, found.values()))} tests were left out on this machine:")
    for (program, why), tests in sorted(found.items()):
        print(f"  {program}: {', '.join(tests)}: {why}")


if __name__ == "__main__":
    main()
