"""Parameter servers beside the bandwidth of their transport, measured in the same run.

  alone      server_bench: one server and two workers; each pushes a shard of 25 MiB and pulls it back, updated, while nothing is computed. A message
             of as many bytes from one rank to another stands before each of them.
  training   `parameter-server` with an MLP of many parameters and few samples: what a worker that has no server in its process moved, over the time in
             which it moved it; beside `ddlbench probe comm`, point-to-point, 32 MiB, before and after.
The share is of the message's bandwidth: bytes pushed and pulled in a second, over those of a message. Above 1 it can be where memory is shared: a server
reads gradients where they lie, and only what it answers is copied.
"""
import json
import re
import statistics
import subprocess

from common import BINARY, ROOT
from networks import images, median_interval
from strategy_arms import interleave, ours_where_known, rounds_of

LINE = re.compile(r"(sync|async)\s+message\s+([\d.]+) ms,\s+([\d.]+) GB/s; push and pull with the update\s+([\d.]+) ms")
MLP = {"model": "mlp", "options": {"hidden": "2048", "layers": "4"}, "dataset": "mnist", "shape": images(1, 28, 10), "batch": 4, "steps": 20, "train_samples": 400}
CASES = {"shm": "shm", "tcp": "tcp"}  # transports
TRAINING = {"sync": "parameter-server[sync]", "async": "parameter-server[async]"}
MIB = 25


def alone(transport, steps):
    program = BINARY.with_name("server_bench")
    if not program.exists():
        return f"{program} is not there; build it with ninja -C {ROOT / 'build' / 'release'} server_bench"

    def measure():
        done = subprocess.run([program, str(MIB), str(steps), transport], capture_output=True, text=True, check=True)
        found = {kind: (float(message), float(both)) for kind, message, _, both in LINE.findall(done.stdout)}
        if set(found) != {"sync", "async"}:
            raise SystemExit(f"server_bench printed no line of sync and async; got {done.stdout!r}")
        return {"step_ms": [both for _, both in found.values()], **{kind: {"message_ms": message, "step_ms": both, "share": 2 * message / both} for kind, (message, both) in found.items()}}

    return measure


def probe(transport):
    """GB/s of a message."""
    done = subprocess.run([BINARY, "probe", "comm", "--transport", transport, "--collective", "point-to-point", "--sizes", "32MiB", "--machine", "none", "--json", "--quiet"],
                          capture_output=True, text=True, check=True)
    row, = json.loads(done.stdout)["results"]
    return row["bytes"] / row["time_us"]["median"] * 1e-3


def training(transport, strategy, steps):
    arm = ours_where_known(MLP, strategy, steps=steps, extra=("--trace", "recent", "--transport", transport))
    if isinstance(arm, str):
        return arm

    def measure():
        before = probe(transport)
        result = arm()
        after = probe(transport)
        ranks = result.pop("record")["ranks"]
        # Servers are in the processes of the first workers: the last has none. What is sent once, before and after the steps, counts to them here.
        last = ranks[-1]
        moved = (last["bytes_sent"] + last["bytes_received"]) / (len(result["step_ms"]) + 2)
        speed = moved / (last["communication_busy_ms"] * 1e6)
        return {**result, "bytes_a_step": moved, "busy_ms": last["communication_busy_ms"], "gb_per_s": speed, "message_gb_per_s": [before, after], "share": speed / statistics.mean([before, after])}

    return measure


def run(name, rounds, steps=None):
    transport = CASES[name]
    arms = {"alone": alone(transport, 3 * (steps or 20))}
    arms |= {f"training, {kind}": training(transport, strategy, steps or MLP["steps"]) for kind, strategy in TRAINING.items()}
    runs, missing = interleave(name, arms, rounds)
    return {"case": name, "mib": MIB, "mlp": MLP, "runs": runs, "missing": missing}


def cells(values, digits="{:.2f}"):
    middle, low, high = median_interval(values)
    return f"{digits.format(middle)} [{digits.format(low)} to {digits.format(high)}]"


def show(result):
    print(f"\nparameter server over {result['case']}, two workers; medians of {rounds_of(result)} runs with 95 % intervals\n\n"
          "| | a message, GB/s | push and pull with the update, GB/s | share |\n|---|---|---|---|")
    for arm, word in result["missing"].items():
        print(f"| {arm} | not measured: {word} | | |")
    for arm, runs in result["runs"].items():
        if arm != "alone":
            print(f"| {arm} | {cells([speed for run in runs for speed in run['message_gb_per_s']])} | {cells([run['gb_per_s'] for run in runs])} | {cells([run['share'] for run in runs])} |")
            continue
        for kind in ("sync", "async"):
            gb = result["mib"] * 2**20 * 1e-6
            print(f"| alone, {kind} | {cells([gb / run[kind]['message_ms'] for run in runs])} | {cells([2 * gb / run[kind]['step_ms'] for run in runs])} | {cells([run[kind]['share'] for run in runs])} |")
