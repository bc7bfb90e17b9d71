"""All-reduce over tcp between hosts of a test fabric, against the bound that its wires set.

fp32, sum, one rank per host; rounds in turn over all arms. The bound is the ring's, 2 (P - 1) / P of the bytes through each
host's link at the rate that is left to payload, without latency (all_reduce_bound() in fabric_description.h); the share is
bound / time. All hosts' kernels share this machine's cores: at 10 Gbps it is those that set the pace on two cores. Takes root.

usage: fabric.py [ROUNDS [BYTES…]]
"""
import statistics
import subprocess
import sys

from common import BINARY, interval_words, ratio, save

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
SIZES = [int(size) for size in sys.argv[2:]] or [64 << 10, 1 << 20, 32 << 20]
FABRICS = ["hosts=4,bandwidth=1Gbps", "hosts=4,bandwidth=1Gbps,latency=100us", "hosts=2,bandwidth=1Gbps,latency=100us", "hosts=4,bandwidth=10Gbps,latency=20us"]
BENCH = BINARY.parent / "collective_bench"

arms = {f"{fabric} {algorithm}": (fabric, algorithm) for fabric in FABRICS for algorithm in ("ring", "auto")}
times = {name: {size: [] for size in SIZES} for name in arms}
bounds = {name: {} for name in arms}
for number in range(ROUNDS):
    for name in list(arms) if number % 2 == 0 else list(reversed(arms)):
        fabric, algorithm = arms[name]
        done = subprocess.run([BENCH, "transport=tcp", f"fabric={fabric}", f"algorithm={algorithm}", *map(str, SIZES)], text=True, capture_output=True)
        if done.returncode != 0:
            sys.exit(f"{name}: ended with {done.returncode}: {done.stderr}")
        for line in done.stdout.splitlines():
            fields = line.split(",")
            times[name][int(fields[4])].append(float(fields[5]))
            bounds[name][int(fields[4])] = float(fields[8])
        print(f"  round {number + 1}/{ROUNDS} {name}: {[round(values[-1]) for values in times[name].values()]}", file=sys.stderr)

print(f"all-reduce over tcp on a test fabric, fp32, medians of {ROUNDS} rounds in turn; share of the bound with {interval_words(ROUNDS)}")
print(f"{'':48}{'bytes':>10}{'ms':>10}{'bound':>10}   share")
for name in arms:
    for size in SIZES:
        middle, low, high = ratio([bounds[name][size]] * ROUNDS, times[name][size])
        print(f"{name:48}{size:>10}{statistics.median(times[name][size]) / 1e3:>10.3f}{bounds[name][size] / 1e3:>10.3f}   {middle:.3f} [{low:.3f} to {high:.3f}]")
save("fabric", {"times_us": {name: {str(size): values for size, values in by_size.items()} for name, by_size in times.items()}, "bounds_us": bounds})
