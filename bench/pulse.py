"""How fast this machine computes just now, by fixed work on each of its cores.

Where a machine is lent in parts, a neighbour that computes on the same core's other thread slows what computes by up to 1.4, as do two of our own cores that the host runs on one, and no counter of a guest tells: what is
stolen may stay 0. That lasts for tenths of seconds or for hours. What shows it depends on the neighbour: one that multiplies slows products, one that moves memory slows what reads and writes caches, by up to 2.2, and products not at all. So the
work is some of both, in caches. What is to be compared is measured at the same pace: that of before and after is told, and what was measured at another is measured again. Until 2026-11-28 it was products alone: what tables of then say of how disturbed they were is what those felt.
"""
import concurrent.futures
import os
import statistics
import time

import torch

SECONDS = 0.03  # on each core
TAKES = 3
VALUES = 64 << 10  # 256 KiB, in a cache of the core
PASSES = 80     # over them: about as long as a product
CALM = 0.06     # two paces that differ by no more are the same


class Pulse:
    def __init__(self):
        torch.set_num_threads(1)
        self.a, self.b = torch.randn(256, 256), torch.randn(256, 256)
        self.values = {core: [torch.zeros(VALUES)] * PASSES for core in os.sched_getaffinity(0)}  # in one call: no core waits for another's interpreter
        for _ in range(10):
            self.take()

    def work(self, core):
        os.sched_setaffinity(0, {core})  # of this thread
        took, end = [], time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            begun = time.perf_counter()
            torch.mm(self.a, self.b)
            torch._foreach_add_(self.values[core], 1)
            took.append(time.perf_counter() - begun)
        return statistics.median(took)

    def take(self):
        """What the work takes on the slowest core while all have it, s; the median of some."""
        cores = sorted(os.sched_getaffinity(0))
        with concurrent.futures.ThreadPoolExecutor(len(cores)) as threads:
            return statistics.median(max(threads.map(self.work, cores)) for _ in range(TAKES))

    def await_pace(self, pace, most):
        """Until the machine goes at that pace, for so many seconds at most. Returns whether it does."""
        end = time.monotonic() + most
        while apart(self.take(), pace) > CALM:
            if time.monotonic() > end:
                return False
            time.sleep(0.2)
        return True


def apart(one, other):
    """By how much the slower of two paces is slower."""
    return max(one, other) / min(one, other) - 1


def stolen():
    """Jiffies that a hypervisor gave to others, and all, since the machine began."""
    with open("/proc/stat") as file:
        counts = list(map(int, file.readline().split()[1:9]))
    return counts[7], sum(counts)
