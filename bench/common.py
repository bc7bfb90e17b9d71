"""Shared by the benchmarks: interleaved runs of the binary, ratios with intervals, the machine."""
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = pathlib.Path(os.environ.get("DDLBENCH", ROOT / "ddlbench")).resolve()
FEW = 6  # rounds: from so many on the least and the most enclose the median in 19 of 20 cases
RESULTS = pathlib.Path(os.environ.get("DDLBENCH_BENCH_RESULTS", ROOT / "build" / "bench"))


def record(*arguments, environment=None):
    """One run's record. Fails loudly: a benchmark with a failed arm says nothing."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([BINARY, "run", "--json", "--store", "none", "--quiet", *map(str, arguments)], cwd=folder,
                              capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def interleaved(arms, rounds, measure):
    """Runs the arms in turn, A B … then … B A, so that drift of the machine hits all alike; a list per arm."""
    results = {name: [] for name in arms}
    for number in range(rounds):
        order = list(arms) if number % 2 == 0 else list(reversed(arms))
        for name in order:
            results[name].append(measure(arms[name]))
            print(f"  round {number + 1}/{rounds} {name}: {results[name][-1]:.4g}", file=sys.stderr)
    return results


def ratio(ours, theirs, seed=1):
    """Median of ours/theirs pair by pair, and its 95 % bootstrap interval; of fewer than six pairs the least and the most of them, which no resampling of so few makes 95 %."""
    pairs = [a / b for a, b in zip(ours, theirs)]
    if len(pairs) < FEW:
        return statistics.median(pairs), min(pairs), max(pairs)
    draw = random.Random(seed)
    medians = sorted(statistics.median(draw.choices(pairs, k=len(pairs))) for _ in range(2000))
    return statistics.median(pairs), medians[50], medians[1949]


def interval_words(rounds):
    """What ratio() of so many is: written above the table."""
    return "95 % intervals" if rounds >= FEW else f"the least and the most of {rounds} rounds"


def said(found):
    """Of ratio()."""
    middle, low, high = found
    return f"{middle:.3f} [{low:.3f} to {high:.3f}]"


def machine_line(here):
    """Of machine(): what a table was made on, above it."""
    cpu = here["environment"]["cpu"]
    return f"{cpu['model']}, {cpu['usable_cores']} cores; load average {os.getloadavg()[0]:.1f} at the end\n"


def table(title, unit, results, reference, higher_is_better=True):
    print(f"\n{title}")
    print(f"  {'':44} {unit:>12}   against {reference}")
    for name, values in results.items():
        print(f"  {name:44} {statistics.median(values):12.4g}   {said(ratio(values, results[reference]))}")
    print(f"  ({'more' if higher_is_better else 'less'} is better; medians of {len(next(iter(results.values())))} interleaved runs)")


def save(name, content):
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1))


def machine():
    environment = json.loads(subprocess.run([BINARY, "env", "--json"], capture_output=True, text=True, check=True).stdout)
    return environment
