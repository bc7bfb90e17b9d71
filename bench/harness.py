"""The harness's own overhead: a null workload that waits 10 ms a step, one worker and two.

Goal: at most 1 % of a step in the harness's own spans and the residual. The whole step is printed beside it: what it has
over 10 ms is the null network's own forward and backward, which LibTorch computes, and communication.
"""
import json
import statistics
import subprocess
import sys

from common import BINARY, save

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
results = {}
for arguments in (["--workers", "1"], ["--workers", "2", "--transport", "shm"], ["--workers", "2", "--transport", "tcp"]):
    overheads, steps = [], []
    for _ in range(ROUNDS):
        done = subprocess.run([BINARY, "selftest", "--json", "--steps", "300", *arguments], capture_output=True, text=True)
        if done.returncode not in (0, 1):
            sys.exit(done.stderr)
        report = json.loads(done.stdout)
        overheads.append(report["overhead_percent"])
        steps.append(report["step_ms"])
    name = " ".join(arguments)
    results[name] = {"overhead_percent": overheads, "step_ms": steps}
    print(f"null workload, 10 ms a step, {name}: harness {statistics.median(overheads):.3f} % of a step "
          f"[{min(overheads):.3f} to {max(overheads):.3f}], whole step {statistics.median(steps):.3f} ms")
save("harness", results)
