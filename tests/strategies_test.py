"""Every strategy through the binary: trains, evaluates one model on all ranks, and ends as `failed` with the rank named when a worker is killed.

usage: strategies_test.py PATH-OF-DDLBENCH [unittest arguments]
"""
import json
import os
import random
import signal
import sys
import time
import unittest

from training_test import QUICK, Case, alive, descendants, listening_ports, run

WORKERS = 3
FORMS = ["data", "model", "pipeline[schedule=gpipe,micro=6]", "pipeline[schedule=1f1b,micro=6,recompute=always]", "pipeline[schedule=interleaved-1f1b,micro=6]",
         "pipeline[schedule=looped-bfs,micro=4,chunks=2]", "pipeline[schedule=zb-h1,micro=6]", "pipeline[schedule=zbv,micro=6]", "pipeline[schedule=dualpipev,micro=6]",
         "pipeline[schedule=pipedream]", "pipeline[schedule=pipedream-2bw,micro=4]", "sharded[level=1]", "sharded[level=2]", "sharded[level=3,unit=1]",
         "local[every=3]", "local[every=2,average=gossip]", "parameter-server[servers=2]", "parameter-server[async]", "parameter-server[stale=2,servers=2]"]
# Their workers are threads of one process.
THREADS = ["data[in-process=parallel]", "data[in-process=mirrored]"]
JOB = ["--model", "lenet", "--dataset", "fashion-mnist", "--synthetic", "--train-samples", 960, "--test-samples", 96, "--batch", 48, "--workers", WORKERS, "--epochs", 2]
# Exact ones end with what `data` ends with, but for rounding.
INEXACT = ("pipedream", "local", "async", "stale")
# Each worker's gradient is applied by itself: three steps where the others make one.
SMALL_STEPS = ("async", "stale")


class Strategies(Case):
    def test_each_trains_one_model(self):
        expected = None
        for form in FORMS + THREADS:
            with self.subTest(form):
                small = ["--learning-rate", 0.05 / WORKERS] if any(word in form for word in SMALL_STEPS) else []
                record = self.record("--strategy", form, *small, *JOB)
                self.assertEqual(record["state"], "ok")
                losses = record["loss"]["epochs"]
                self.assertEqual(len(losses), 2)
                self.assertLess(losses[1], losses[0])
                expected = expected or losses
                if not any(word in form for word in INEXACT):
                    for ours, theirs in zip(losses, expected):
                        self.assertAlmostEqual(ours, theirs, delta=1e-4)
                self.assertEqual([rank["rank"] for rank in record["ranks"]], list(range(WORKERS)))
                for rank in record["ranks"]:
                    ledger = rank["ledger_ms"]
                    self.assertLess(ledger["residual"], 0.5 * sum(ledger.values()), ledger)

    def test_staleness_is_told_and_bounded(self):
        for form, servers in [("parameter-server[stale=1,servers=2]", 2), ("parameter-server[async]", 1)]:
            with self.subTest(form):
                record = self.record("--strategy", form, "--optimizer", "adam", *JOB)
                for rank in record["ranks"]:
                    self.assertEqual(rank["staleness"] is not None, rank["rank"] < servers)
                    if rank["rank"] < servers:
                        self.assertGreater(rank["staleness"]["updates"], 0)
                        if "stale" in form:
                            self.assertLessEqual(rank["staleness"]["largest_steps"], 1)
                # What the optimizer keeps, two tensors for each parameter, is with the servers alone, and so is a second copy of the parameters.
                kept = sum(rank["memory_bytes"]["optimizer"] for rank in record["ranks"])
                self.assertEqual(kept, 2 * 4 * record["model"]["parameters"])
                self.assertEqual(sum(rank["memory_bytes"]["parameters"] for rank in record["ranks"]), (WORKERS + 1) * 4 * record["model"]["parameters"])
                self.assertEqual([bucket["algorithm"] for bucket in record["buckets"]], [f"server {number}" for number in range(servers)])

    def test_workers_that_are_apart_stop_together(self):
        for form in ["parameter-server[async]", "parameter-server[async,servers=2]", "parameter-server[stale=4]"] * 2:  # twice, since moments are random
            with self.subTest(form):
                process = self.start("--workers", WORKERS, "--strategy", form, "--learning-rate", 0.002)
                late = max(self.workers(process, WORKERS))
                time.sleep(random.uniform(0, 0.3))
                # It hears of it in the middle of an epoch, while the others wait for it at the end.
                os.kill(late, signal.SIGSTOP)
                time.sleep(0.7)
                process.send_signal(signal.SIGINT)
                time.sleep(0.3)
                os.kill(late, signal.SIGCONT)
                output, errors = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 130, errors)
                record = json.loads(output)
                self.assertEqual(record["state"], "interrupted")
                # All came to a good end, with one model.
                for rank in record["ranks"]:
                    self.assertIsNotNone(rank.get("bytes_sent"), rank["rank"])
                self.assertIsNotNone(record["parameters_digest"])

    def test_threads_of_one_process(self):
        for form in THREADS:
            with self.subTest(form):
                record = self.record("--strategy", form, *JOB)
                self.assertEqual(len({rank["pid"] for rank in record["ranks"]}), 1)
                self.assertEqual(record["config"]["transport"], "inproc")
                # Worker 0 alone has what the optimizer keeps where it alone updates.
                kept = [rank["memory_bytes"]["optimizer"] > 0 for rank in record["ranks"]]
                self.assertEqual(kept, [True] + [form.endswith("mirrored]")] * (WORKERS - 1))
                process = self.start("--workers", WORKERS, "--strategy", form)
                victim, = self.workers(process, 1)
                os.kill(victim, signal.SIGKILL)
                output, errors = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 1, errors)
                record = json.loads(output)
                self.assertEqual(record["state"], "failed")
                self.assertIn("rank 0", record["reason"])
                self.assertIn("signal 9", record["reason"])
                self.assertGreater(record["samples"]["steps"], 0)
                self.assertEqual(descendants(process.pid), [])

    def test_a_killed_worker_is_named(self):
        for number, form in enumerate(FORMS):
            with self.subTest(form):
                process = self.start("--workers", WORKERS, "--strategy", form)
                victims = sorted(self.workers(process, WORKERS))
                rank = number % WORKERS
                # At whatever it does then.
                time.sleep(random.uniform(0, 0.3))
                os.kill(victims[rank], signal.SIGKILL)
                killed = time.monotonic()
                output, errors = process.communicate(timeout=60)
                # To notice, to end the others and to write the record: under a second, but for a machine that is busy.
                self.assertLess(time.monotonic() - killed, 10.0, errors)
                self.assertEqual(process.returncode, 1, errors)
                record = json.loads(output)
                self.assertEqual(record["state"], "failed")
                self.assertIn(f"rank {rank}", record["reason"])
                self.assertIn("signal 9", record["reason"])
                self.assertGreater(record["samples"]["steps"], 0)
                self.assertFalse([pid for pid in victims if alive(pid)])
                self.assertEqual(descendants(process.pid), [])
                self.assertEqual(set(os.listdir("/dev/shm")) - self.shm_before, set())
                self.assertEqual(listening_ports() - self.ports_before, set())

    def test_numbers_that_do_not_go_together_are_refused_with_those_that_would(self):
        for form, workers, words in [("pipeline[micro=4]", 64, ["stages", "64"]), ("pipeline[stages=3/5,micro=4]", 2, ["8", "expected"]),
                                     ("pipeline[micro=100]", 2, ["micro", "64"]), ("pipeline[schedule=interleaved-1f1b,micro=5]", 2, ["multiple", "2"]),
                                     ("pipeline[schedule=zbv,chunks=3]", 2, ["2"]), ("pipeline[schedule=1f1c]", 2, ["1f1b"]), ("sharded[level=4]", 2, ["1 to 3"]),
                                     ("local[every=0]", 2, ["every"]), ("single", 2, ["one worker"]),
                                     ("parameter-server[servers=3]", 2, ["3 servers", "at most 2"]), ("parameter-server[async,stale=2]", 2, ["one"])]:
            with self.subTest(form):
                done = run("run", "--strategy", form, "--workers", workers, *QUICK, cwd=self.folder)
                self.assertEqual(done.returncode, 2, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)

    def test_what_a_strategy_cannot_have_is_refused(self):
        for arguments, words in [(["--strategy", "parameter-server", "--clip", 1], ["clip 1", "whole gradient", "no clip"]),
                                 (["--strategy", "parameter-server[async]", "--clip", 1], ["clip 1", "whole gradient"]),
                                 (["--strategy", "parameter-server[stale=2]", "--precision", "fp16"], ["fp16", "whole gradient", "bf16"]),
                                 (["--strategy", "data[in-process=parallel]", "--transport", "shm"], ["one process", "shm", "expected transport inproc"]),
                                 (["--strategy", "data[in-process=mirrored]", "--transport", "tcp"], ["one process", "tcp", "expected transport inproc"]),
                                 (["--strategy", "data", "--transport", "inproc"], ["workers are processes", "in-process"]),
                                 (["--strategy", "data[in-process=maybe]"], ["maybe", "off, mirrored, parallel"])]:
            with self.subTest(arguments):
                done = run("run", *arguments, "--workers", 2, *QUICK, cwd=self.folder)
                self.assertEqual(done.returncode, 6 if "unsupported" in done.stderr else 2, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
