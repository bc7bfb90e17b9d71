"""How far off a class of processors is (machines/cpu-*.json: shares of its peak by what a call would take at it) on this machine: what `probe compute` measures of networks, beside what `predict` says of the same on
one core of such a class with this core's peak and bandwidth.

usage: .deps/venv/bin/python bench/processors.py --peak 250e9 [--class cpu-avx512] [--budget 300ms]
--peak: FLOP/s of one core that computes alone, two multiply-adds a cycle of its widest vectors at the clock that it sustains. The bandwidth is `probe compute`'s triad of one thread.
Prints Markdown; build/bench/processors.json has the figures. On a quiet machine three minutes.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import tempfile

from common import BINARY, ROOT, machine, save

NETWORKS = [("lenet", "fashion-mnist", (8, 64)), ("mlp[hidden=256]", "fashion-mnist", (16, 128)), ("resnet18", "cifar10", (4, 32)), ("vgg11", "cifar10", (8, 32)), ("mobilenetv2", "imagenet", (2, 8)),
            ("resnet50", "imagenet", (1, 4)), ("gpt[hidden=256,layers=4,heads=4]", "language[length=129,vocabulary=8000]", (2, 8))]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peak", type=float, required=True)
    parser.add_argument("--class", dest="of", default="cpu-avx512")
    parser.add_argument("--budget", default="300ms")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured, core = pathlib.Path(folder, "measured.json"), pathlib.Path(folder, "core.json")
        for network, dataset, batches in NETWORKS:
            subprocess.run([BINARY, "probe", "compute", "--model", network, "--dataset", dataset, "--synthetic", "--batch", ",".join(map(str, batches)), "--budget", options.budget, "--machine", measured, "--quiet"], check=True,
                           stdout=subprocess.DEVNULL)
        profile = json.loads(measured.read_text())
        triad = next(entry["bytes_per_s"] for entry in profile["memory"] if (entry["what"], entry["threads"]) == ("triad", 1))
        described = json.loads((ROOT / "machines" / f"{options.of}.json").read_text())
        described["name"] = "core"
        described["device"].update(peak_flops={"fp32": options.peak}, memory_bandwidth=triad, multiprocessors=1)
        core.write_text(json.dumps(described))
        rows = []
        for entry in profile["compute"]:
            words = ["--model", entry["network"], "--dataset", entry["dataset"], "--synthetic", "--batch", str(entry["batch"]), "--strategy", "single", "--machine", str(core)]
            point = json.loads(subprocess.run([BINARY, "predict", *words, "--json"], capture_output=True, text=True, check=True).stdout)["points"][0]
            step, wall = point["step_ms"], entry["step"]["wall_ms"]
            rows.append({"network": entry["network"], "batch": entry["batch"], "measured_ms": wall, "predicted_ms": step["value"], "error_pct": 100 * (step["value"] / wall - 1), "inside": step["low"] <= wall <= step["high"]})
    print(f"one core of this machine, {options.peak / 1e9:.0f} GFLOP/s, {triad / 1e9:.1f} GB/s, as {options.of}\n\n| network | batch | step measured | predicted | off by |\n|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['network']} | {row['batch']} | {row['measured_ms']:.4g} ms | {row['predicted_ms']:.4g} ms | {row['error_pct']:+.0f} % |")
    errors, logs = [row["error_pct"] for row in rows], [math.log(row["measured_ms"] / row["predicted_ms"]) for row in rows]
    print(f"\nMAPE {statistics.mean(map(abs, errors)):.1f} %, bias {statistics.mean(errors):+.1f} %, rms of the logarithm {math.sqrt(statistics.mean(each * each for each in logs)):.2f}, {sum(row['inside'] for row in rows)} of {len(rows)} inside the interval")
    save("processors", {"machine": machine(), "peak": options.peak, "triad": triad, "class": options.of, "rows": rows})


if __name__ == "__main__":
    main()
