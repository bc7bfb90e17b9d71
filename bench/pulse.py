"""Whether others slow this machine just now, by fixed work on each of its cores.

Where a machine is lent in parts, a neighbour that computes on the same core's other thread slows what computes by up to 1.4, as do two of our own cores that the host runs on one, and no counter of a guest tells: what is
stolen stays 0. Products of matrices that stay in cache feel it at once; what waits for memory hardly.
"""
import concurrent.futures
import os
import shutil
import statistics
import time

import torch

SECONDS = 0.03  # on each core
CALM = 0.06     # slower than the fastest that was seen


class Pulse:
    def __init__(self):
        torch.set_num_threads(1)
        self.a, self.b = torch.randn(256, 256), torch.randn(256, 256)
        self.best = float("inf")
        for _ in range(20):
            self.take()

    def work(self, core):
        os.sched_setaffinity(0, {core})  # of this thread
        took, end = [], time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            begun = time.perf_counter()
            torch.mm(self.a, self.b)
            took.append(time.perf_counter() - begun)
        return statistics.median(took)

    def take(self):
        """What the work takes on the slowest core while all have it, s."""
        cores = sorted(os.sched_getaffinity(0))
        with concurrent.futures.ThreadPoolExecutor(len(cores)) as threads:
            slowest = max(threads.map(self.work, cores))
        self.best = min(self.best, slowest)
        return slowest

    def slowed(self):
        return self.take() / self.best - 1

    def await_calm(self, most=20):
        """Until the machine is, for so many seconds at most."""
        end = time.monotonic() + most
        while (now := self.slowed()) > CALM and time.monotonic() < end:
            time.sleep(0.2)
        return now

    def undisturbed(self, body, tries, disturbed=lambda result: 0.0, files=()):
        """What `body` returned when the machine was least disturbed of at most so many tries, and how much it was: the slower pulse of before and after, or what `disturbed` says of the result. `files` are as that
        try left them."""
        kept = None
        copies = [file.with_suffix(".before") for file in files]
        for file, copy in zip(files, copies):
            shutil.copyfile(file, copy)
        for number in range(tries):
            if number > 0:
                for file, copy in zip(files, copies):
                    shutil.copyfile(copy, file)
            before = self.await_calm()
            result = body()
            much = max(before, self.slowed(), disturbed(result))
            if kept is None or much < kept[1]:
                kept = result, much, [file.read_bytes() for file in files]
            if much <= CALM:
                break
        for file, copy, text in zip(files, copies, kept[2]):
            file.write_bytes(text)
            copy.unlink()
        return kept[0], kept[1]
