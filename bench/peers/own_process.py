"""What a process knows of itself: memory and CPU time. No framework is imported here, so that peers of any can say it in one way."""
import pathlib
import time


def _status(key):
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"[own_process] /proc/self/status has no {key}")


def peak_memory():
    """VmHWM, bytes."""
    return _status("VmHWM")


def resident_memory():
    """VmRSS, bytes."""
    return _status("VmRSS")


def reset_peak_memory():
    """VmHWM begins anew, so that start-up does not count; as ours does before the first step."""
    pathlib.Path("/proc/self/clear_refs").write_text("5")


class StepClock:
    """Wall and CPU time of steps, ms; CPU time is user and system of all threads. The first `warm_up` do not count.

    with clock.step(): …
    """

    def __init__(self, warm_up):
        self.left, self.wall_ms, self.cpu_ms = warm_up, [], []

    def step(self):
        return self

    def __enter__(self):
        self.cpu, self.wall = time.process_time(), time.perf_counter()

    def __exit__(self, *failure):
        wall, cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu
        if self.left > 0:
            self.left -= 1
            return
        self.wall_ms.append(wall * 1e3)
        self.cpu_ms.append(cpu * 1e3)


def group(ranks):
    """Of what each rank told ({wall_ms, cpu_ms, peak, …}): a step is the slowest rank's, its CPU time that of all, memory each one's."""
    return {"step_ms": [max(times) for times in zip(*(rank["wall_ms"] for rank in ranks))], "cpu_ms": [sum(times) for times in zip(*(rank["cpu_ms"] for rank in ranks))],
            "peak_memory_bytes": [rank["peak"] for rank in ranks]}


def same_weights(ranks):
    """Raises where ranks that trained on different samples do not end with one network, or where nothing was trained.
    Each tells `before` and `after`, sums of the absolute weights in double precision."""
    after = {rank["after"] for rank in ranks}
    if len(after) != 1:
        raise RuntimeError(f"ranks end with different weights: their absolute sums are {sorted(after)}, expected one")
    if any(rank["before"] == rank["after"] for rank in ranks):
        raise RuntimeError(f"weights did not change in training: their absolute sum is {after.pop()} before and after")
