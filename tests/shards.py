"""Runs a gtest program in several processes at once, each a share of its tests: those that wait, for what takes a second, most of the time.

usage: shards.py HOW-MANY PROGRAM [gtest arguments]
"""
import os
import subprocess
import sys
import tempfile

count, program = int(sys.argv[1]), sys.argv[2:]
with tempfile.TemporaryDirectory(prefix="ddlbench-test-") as folder:
    shards = []
    for number in range(count):
        output = open(os.path.join(folder, str(number)), "w+")
        shards.append((subprocess.Popen(program, env={**os.environ, "GTEST_TOTAL_SHARDS": str(count), "GTEST_SHARD_INDEX": str(number)}, stdout=output, stderr=subprocess.STDOUT), output))
    codes = [process.wait() for process, _ in shards]
    for number, (_, output) in enumerate(shards):
        output.seek(0)
        print(f"share {number + 1} of {count}: exit {codes[number]}\n{output.read()}")
sys.exit(next((code if code > 0 else 1 for code in codes if code != 0), 0))
