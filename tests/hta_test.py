"""Holistic Trace Analysis reads our traces, and finds in them what our ledger says.

usage: hta_test.py PATH-OF-DDLBENCH PYTHON-WITH-HTA

Runs data and pipeline parallelism, exports each run with `--format hta`, lets HTA 0.5 analyse the folder in its own environment (.deps/traces, made by
tools/setup.sh), and holds its figures against the record's. What is computation, communication and idle is stated in docs/traces.md:

    computation    forward, backward, update                          kernels
    memory         copy                                               "Memcpy …": neither computation nor idle
    communication  from a meeting's last arrival on: the              "ncclKernel …"
                   communication stream, and the exposed part on the compute stream
    idle           load, wait, bubble, harness, residual              gaps, unless bytes of another message moved meanwhile

Two figures of the record are made for this comparison, idle_ms and communication_busy_ms; with overlapped_communication_ms and the ledger they are computed in C++
while the run goes on, from spans, not from the export. HTA's tables are rounded to 0.01 percentage points, its times are not.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = r"""
import json, sys, warnings
warnings.simplefilter("ignore")
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_dir=sys.argv[1])
breakdown = analysis.get_temporal_breakdown(visualize=False)
overlap = analysis.get_comm_comp_overlap(visualize=False)
print(json.dumps({"breakdown": breakdown.to_dict("records"), "overlap": overlap.to_dict("records")}))
"""
RUNS = {"data": "data[bucket=64KiB,first-bucket=16KiB]",
        "gpipe": "pipeline[schedule=gpipe,micro=4]",
        "1f1b": "pipeline[schedule=1f1b,micro=8]",
        "interleaved": "pipeline[schedule=interleaved-1f1b,micro=4]",
        "zb-h1": "pipeline[schedule=zb-h1,micro=4]",
        "pipedream": "pipeline[schedule=pipedream]",
        "sharded": "sharded[level=3,unit=1]",
        "local": "local[every=3]",
        "parameter server": "parameter-server",
        "tensor": "tensor",
        "asynchronous server": "parameter-server[async]",
        "looped": "pipeline[schedule=looped-bfs,micro=4]",
        "hybrid": "hybrid[data=2,pipeline=2]"}
WORKERS = {"hybrid": 4}
# HTA adds up some hundred differences of floating-point microseconds: far below a nanosecond each.
MICROSECONDS = 0.01
# Its percentages have two digits after the point.
POINTS = 0.005 + 1e-6


def analyse(python, folder, exact):
    # Whole microseconds are HTA's default for times with nanoseconds: it shortens every kernel to those within it.
    environment = dict(os.environ, HTA_DISABLE_NS_ROUNDING="1" if exact else "0")
    done = subprocess.run([python, "-c", PROGRAM, folder], env=environment, text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"hta_test: HTA could not read {folder}:\n{done.stderr[-3000:]}")
    result = json.loads(done.stdout.strip().splitlines()[-1])
    return {row["rank"]: row for row in result["breakdown"]}, {row["rank"]: row["comp_comm_overlap_pctg"] for row in result["overlap"]}


def expected(record, rank):
    """What the record says of a rank, over all measured steps: microseconds. Between steps, which no ledger has, is idle to HTA."""
    entry = record["ranks"][rank]
    assert entry["rank"] == rank
    scale = 1e3 * record["samples"]["measured_steps"]
    ledger = entry["ledger_ms"]
    steps = [s for s in record["trace_steps"] if s["rank"] == rank and s["step"] >= record["samples"]["warmup_steps"]]
    assert len(steps) == record["samples"]["measured_steps"], "the trace has every measured step: it is compared with the ledger of all of them"
    between = sum(b["begin_us"] - a["end_us"] for a, b in zip(steps, steps[1:]))
    wall = entry["wall_ms"] * scale + between
    idle = entry["idle_ms"] * scale + between
    compute = (ledger["forward"] + ledger["backward"] + ledger["update"]) * scale
    return {"wall": wall, "idle": idle, "compute": compute, "other": wall - idle - compute, "busy": entry["communication_busy_ms"] * scale,
            "overlapped": entry["overlapped_communication_ms"] * scale,
            "idle causes": sum(ledger[cause] for cause in ("load", "wait", "bubble", "harness", "residual")) * scale + between,
            "exposed": ledger["communication"] * scale}


def check(problems, what, got, wanted, tolerance):
    if not abs(got - wanted) <= tolerance:
        problems.append(f"{what}; got {got:.4f}, expected {wanted:.4f} within {tolerance:.4f}")


def compare(problems, name, record, exact, rounded, kernels):
    (breakdown, overlap), (coarse, _) = exact, rounded
    if sorted(breakdown) != list(range(len(record["ranks"]))):
        problems.append(f"{name}: HTA found the ranks {sorted(breakdown)}, expected {len(record['ranks'])}")
        return
    for rank, row in breakdown.items():
        ours = expected(record, rank)
        here = f"{name}, rank {rank}"
        check(problems, f"{here}: time, us", row["kernel_time(us)"], ours["wall"], MICROSECONDS)
        check(problems, f"{here}: idle, us", row["idle_time(us)"], ours["idle"], MICROSECONDS)
        check(problems, f"{here}: computation, us", row["compute_time(us)"], ours["compute"], MICROSECONDS)
        check(problems, f"{here}: neither, us", row["non_compute_time(us)"], ours["other"], MICROSECONDS)
        check(problems, f"{here}: idle, %", row["idle_time_pctg"], 100 * ours["idle"] / ours["wall"], POINTS)
        check(problems, f"{here}: computation, %", row["compute_time_pctg"], 100 * ours["compute"] / ours["wall"], POINTS)
        check(problems, f"{here}: communication that overlaps computation, %", overlap[rank], 100 * ours["overlapped"] / ours["busy"], POINTS)
        # A worker that waits for one message while another of its own moves is idle to the ledger, and not to HTA.
        beside = ours["busy"] - ours["overlapped"] - ours["exposed"]
        if not -MICROSECONDS <= ours["idle causes"] - ours["idle"] <= beside + MICROSECONDS:
            problems.append(f"{here}: idle causes exceed idle time by {ours['idle causes'] - ours['idle']:.2f} us, of which messages meanwhile explain at most {beside:.2f}")
        # As HTA is used without further ado: each kernel loses less than 2 us.
        check(problems, f"{here}: computation in whole microseconds", coarse[rank]["compute_time(us)"], ours["compute"], 2 * kernels[rank])
        if ours["busy"] <= 0 or ours["compute"] <= 0 or ours["idle"] <= 0:
            problems.append(f"{here}: nothing to compare; got {ours}")
        print(f"{here}: idle {row['idle_time_pctg']} %, computation {row['compute_time_pctg']} %, {overlap[rank]} % of communication beside it")


def main():
    binary, python = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    asked = subprocess.run([python, "-c", "from importlib.metadata import version; import hta.trace_analysis; print(version('HolisticTraceAnalysis'))"], text=True,
                           capture_output=True) if pathlib.Path(python).exists() else None
    if asked is None or asked.returncode:
        why = f"no such file: {python}" if asked is None else asked.stderr.strip().splitlines()[-1]
        sys.exit(f"hta_test: HolisticTraceAnalysis is missing ({why}); run tools/setup.sh, which needs PyPI once")
    if not asked.stdout.startswith("0.5."):
        sys.exit(f"hta_test: HolisticTraceAnalysis; got {asked.stdout.strip()}, expected 0.5")
    problems = []
    with tempfile.TemporaryDirectory(prefix="ddlbench-hta-") as folder:
        for name, strategy in RUNS.items():
            done = subprocess.run([binary, "run", "--model", "lenet", "--dataset", "fashion-mnist", "--synthetic", "--train-samples", "1280", "--test-samples", "64", "--epochs", "1",
                                   "--batch", "64", "--workers", str(WORKERS.get(name, 2)), "--strategy", strategy, "--trace", "all", "--json"], cwd=folder, text=True, capture_output=True)
            if done.returncode:
                sys.exit(f"hta_test: the run '{name}' failed:\n{done.stderr[-2000:]}")
            record = json.loads(done.stdout)
            traces = os.path.join(folder, name)
            subprocess.run([binary, "export", record["id"], "--format", "hta", "-o", traces, "--quiet"], cwd=folder, check=True)
            kernels = {rank: sum(event["ph"] == "X" for event in json.loads(pathlib.Path(traces, f"rank{rank}.json").read_text())["traceEvents"]) for rank in range(WORKERS.get(name, 2))}
            compare(problems, name, record, analyse(python, traces, True), analyse(python, traces, False), kernels)
    for problem in problems:
        print("hta_test:", problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


main()
