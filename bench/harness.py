"""The harness's own overhead: a null workload that waits 10 ms a step, one worker and two.

Goal: at most 1 % of a 10 ms step. Two ways of seeing it, in one interleaved run:
  spans   the harness's own spans and what no span explains, as the ledger has them
  whole   the whole step of one worker against the same network in a bare LibTorch loop (src/ddl/train/bare_bench.cpp:
          one batch, no loader, trace or record); what both have over 10 ms is the null network itself, in LibTorch
With two workers the whole step also holds a real all-reduce, so only the spans are the harness's.
"""
import json
import statistics
import subprocess
import sys

from common import BINARY, ROOT, ratio, save

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 7
STEPS = "300"
BARE = BINARY.with_name("bare_bench")
if not BARE.exists():
    sys.exit(f"{BARE}: no such program; build it with ninja -C {ROOT / 'build' / 'release'} bare_bench")


def bare(_):
    return {"step_ms": float(subprocess.run([BARE, STEPS], capture_output=True, text=True, check=True).stdout)}


def selftest(arguments):
    done = subprocess.run([BINARY, "selftest", "--json", "--quiet", "--steps", STEPS, *arguments], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr)
    report = json.loads(done.stdout)
    return {"step_ms": report["step_ms"], "overhead_percent": report["overhead_percent"]}


arms = {"bare LibTorch loop": None, "--workers 1": ["--workers", "1"], "--workers 2 --transport shm": ["--workers", "2"],
        "--workers 2 --transport tcp": ["--workers", "2", "--transport", "tcp"]}
results = {name: [] for name in arms}
for number in range(ROUNDS):
    for name in list(arms) if number % 2 == 0 else list(reversed(arms)):
        results[name].append(bare(None) if arms[name] is None else selftest(arms[name]))
print(f"null workload, 10 ms a step, medians of {ROUNDS} interleaved runs of {STEPS} steps")
for name, runs in results.items():
    step = statistics.median(run["step_ms"] for run in runs)
    if arms[name] is None:
        print(f"  {name:30} whole step {step:.3f} ms")
        continue
    overheads = [run["overhead_percent"] for run in runs]
    print(f"  {name:30} whole step {step:.3f} ms   harness {statistics.median(overheads):.3f} % of a step "
          f"[{min(overheads):.3f} to {max(overheads):.3f}]")
middle, low, high = ratio([run["step_ms"] for run in results["--workers 1"]], [run["step_ms"] for run in results["bare LibTorch loop"]])
print(f"  one worker's whole step is {100 * (middle - 1):.2f} % [{100 * (low - 1):.2f} to {100 * (high - 1):.2f}] over the bare loop's")
save("harness", results)
