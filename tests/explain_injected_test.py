"""`ddlbench explain` of runs that something was done to from outside. Alone on the machine: tests beside it would be one more thing.

usage: explain_injected_test.py PATH-OF-DDLBENCH [unittest arguments]
"""
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time
import unittest

from explain_test import BINARY, QUICK, Case


class Injected(Case):
    """What was done to a run from outside, and how much of it."""

    def stopped_now_and_then(self, seconds, between, steps):
        """A run of two workers that wait 10 and 20 ms a step, of which now one, now the other is stopped for so long; and how often."""
        process = subprocess.Popen([BINARY, "run", *map(str, QUICK), "--workers", "2", "--model", "null[ms=10,backward=2]", "--steps", str(steps), "--trace", "all", "--json"], cwd=self.folder, env=self.environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        workers, stops = [], 0
        while process.poll() is None:
            time.sleep(between)
            if len(workers) < 2:
                workers = sorted(map(int, pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()))
                continue
            try:
                os.kill(workers[stops % 2], signal.SIGSTOP)
                time.sleep(seconds)
                os.kill(workers[stops % 2], signal.SIGCONT)
            except ProcessLookupError:
                break
            stops += 1
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)
        return json.loads(output), stops

    def test_stops_are_jitter(self):
        """A stop of 60 ms puts the end of a wait of 10 or 20 ms off by 40 at least."""
        record, stops = self.stopped_now_and_then(0.06, 0.15, 120)
        self.assertGreater(stops, 10)
        document = self.explained(record["id"])
        self.check_sums(document)
        jitter = self.cause(document, "jitter")
        self.assertEqual(document["loss"]["causes"][0]["cause"], "jitter", document["loss"]["causes"])
        self.assertIn("steps that take now longer, now shorter", document["words"])
        # Between what was done to it, of which a part was before the first step, and all that its steps took beyond their waits; most of what the mean has more than the median.
        self.assertGreater(jitter["without"]["gain_ms"], 0.5e3 * 0.04 * stops / 120)
        self.assertLess(jitter["without"]["gain_ms"], document["loss"]["step_ms"] - 29)
        measured = record["step_ms"]["samples"][record["samples"]["warmup_steps"]:]
        self.assertGreater(jitter["without"]["gain_ms"], 0.75 * (statistics.mean(measured) - statistics.median(measured)))

    def on_two_cores(self, *arguments):
        cores = sorted(os.sched_getaffinity(0))[:2]
        done = subprocess.run([BINARY, *map(str, arguments), "--json"], cwd=self.folder, capture_output=True, text=True, timeout=300, env=self.environment, preexec_fn=lambda: os.sched_setaffinity(0, cores))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "two workers at once take two cores")
    def test_twice_as_many_workers_as_cores_are_contention(self):
        """Four workers on two cores compute for twice as long as on four. Whatever else has these cores at the time is computing that takes longer than it did: then once more."""
        for tries_left in (2, 1, 0):
            try:
                return self.contention_of_four_on_two()
            except AssertionError:
                if tries_left == 0:
                    raise

    def contention_of_four_on_two(self):
        self.on_two_cores("probe", "compute", "--model", "lenet", "--dataset", "fashion-mnist", "--batch", "128", "--optimizer", "sgd", "--compression", "fp16", "--budget", "100ms")
        job = ["run", "--model", "lenet", "--dataset", "fashion-mnist", *QUICK, "--steps", 16]
        self.on_two_cores(*job, "--batch", 512, "--workers", 1)
        crowded = self.on_two_cores(*job, "--batch", 512, "--workers", 4)
        document = self.on_two_cores("explain", crowded["id"])
        self.check_sums(document)
        self.assertNotIn("contention", document["loss"]["not_known"])
        contention = self.cause(document, "contention")
        # Others on these cores make steps unlike each other; of what the run does to itself it is the most.
        causes = [cause["cause"] for cause in document["loss"]["causes"] if cause["cause"] != "jitter"]
        self.assertEqual(causes[0], "contention", document["loss"]["causes"])
        self.assertEqual(contention["words"], "cores and memory that workers and their collectives share")
        # Half of what they compute, or more where others' memory is in the way by the profile.
        computing = document["ledger_ms"]["forward"] + document["ledger_ms"]["backward"]
        self.assertGreater(contention["without"]["gain_ms"], 0.4 * computing, document)
        self.assertLess(contention["without"]["gain_ms"], 0.75 * computing, document)
        self.assertGreater(contention["lost"], 0.5, contention)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
