"""Every strategy through the binary: trains, evaluates one model on all ranks, stops when it is asked to, and refuses what it cannot have. deaths_test.py kills its workers.

usage: strategies_test.py PATH-OF-DDLBENCH [unittest arguments]
"""
import json
import os
import random
import signal
import subprocess
import sys
import time
import unittest

from strategy_forms import FORMS, in_process
from training_test import BINARY, QUICK, Case, alive, descendants, run

WORKERS = 3
JOB = ["--model", "lenet", "--dataset", "fashion-mnist", "--synthetic", "--train-samples", 960, "--test-samples", 96, "--batch", 48, "--epochs", 2]
# Exact ones end with what one worker ends with, but for rounding.
INEXACT = ("schedule=pipedream", "local", "async", "stale")
# Each worker's gradient is applied by itself: three steps where the others make one.
SMALL_STEPS = ("async", "stale")


class Strategies(Case):
    def test_each_trains_one_model(self):
        expected, in_threads = None, 0
        for form, workers in FORMS.items():
            with self.subTest(form):
                small = ["--learning-rate", 0.05 / WORKERS] if any(word in form for word in SMALL_STEPS) else []
                record = self.record("--strategy", form, "--workers", workers, *small, *JOB)
                self.assertEqual(record["state"], "ok")
                losses = record["loss"]["epochs"]
                self.assertEqual(len(losses), 2)
                self.assertLess(losses[1], losses[0])
                expected = expected or losses
                if not any(word in form for word in INEXACT):
                    for ours, theirs in zip(losses, expected):
                        self.assertAlmostEqual(ours, theirs, delta=1e-4)
                self.assertEqual([rank["rank"] for rank in record["ranks"]], list(range(workers)))
                for rank in record["ranks"]:
                    ledger = rank["ledger_ms"]
                    self.assertLess(ledger["residual"], 0.5 * sum(ledger.values()), ledger)
                if in_process(form):
                    in_threads += 1
                    self.expect_threads_of_one_process(form, record)
        self.assertGreater(in_threads, 1)

    def expect_threads_of_one_process(self, form, record):
        self.assertEqual(len({rank["pid"] for rank in record["ranks"]}), 1)
        self.assertEqual(record["config"]["transport"], "inproc")
        # Worker 0 alone has what the optimizer keeps where it alone updates.
        kept = [rank["memory_bytes"]["optimizer"] > 0 for rank in record["ranks"]]
        self.assertEqual(kept, [True] + [form.endswith("mirrored]")] * (WORKERS - 1))

    def test_an_interrupt_ends_asynchronous_pipelines_at_once(self):
        """Workers that are ahead of others stop after the same step."""
        for form, workers in (("pipeline[schedule=pipedream]", 2), ("pipeline[schedule=pipedream-2bw,micro=4]", 3), ("pipeline[schedule=pipedream,replicas=2/1]", 3)):
            with self.subTest(form):
                process = subprocess.Popen([BINARY, "run", "--json", "--quiet", "--synthetic", "--model", "lenet", "--dataset", "fashion-mnist", "--train-samples", "20000", "--test-samples", "16",
                                            "--batch", "48", "--epochs", "1000", "--no-evaluate", "--store", "none", "--workers", str(workers), "--strategy", form],
                                           cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                self.addCleanup(process.kill)
                self.workers(process, workers)
                process.send_signal(signal.SIGINT)
                begin = time.monotonic()
                out, _ = process.communicate(timeout=60)
                self.assertLess(time.monotonic() - begin, 15)  # 30 s is how long the coordinator has patience
                self.assertEqual(json.loads(out)["state"], "interrupted")

    def test_a_layer_that_takes_long_has_a_stage_of_its_own(self):
        """By FLOPs the linear layer is the network's all; by time the layer that waits is."""
        job = ["--model", "null[ms=15]", "--synthetic", "--train-samples", 64, "--test-samples", 32, "--batch", 16, "--workers", 2, "--steps", 4]
        for form in ("pipeline[micro=2]", "model"):
            with self.subTest(form):
                record = self.record("--strategy", form, *job)
                self.assertEqual([stage["layers"] for stage in record["stages"]], [3, 1])
                self.assertEqual([stage["ranks"] for stage in record["stages"]], [[0], [1]])
                layers = {layer["name"]: layer for layer in record["measured_layers"]["layers"]}
                self.assertGreaterEqual(layers["wait"]["forward_ms"], 15)
                self.assertLess(layers["fc"]["forward_ms"], 15)
                self.assertEqual(record["measured_layers"]["samples"], 8 if form.startswith("pipeline") else 16)
        by_flops = self.record("--strategy", "pipeline[micro=2,balance=flops]", *job)
        self.assertEqual([stage["layers"] for stage in by_flops["stages"]], [2, 2])
        self.assertIsNone(by_flops["measured_layers"])

    def test_layers_that_cannot_be_measured_are_cut_by_flops(self):
        for sent in (signal.SIGKILL, signal.SIGINT):
            with self.subTest(sent):
                process = subprocess.Popen([BINARY, "run", "--json", "--model", "null[ms=2000]", "--strategy", "model", "--synthetic", "--train-samples", "64",
                                            "--test-samples", "32", "--batch", "4", "--workers", "2", "--steps", "1", "--no-evaluate"], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.addCleanup(process.kill)
                until = time.monotonic() + 30
                while not (measuring := descendants(process.pid)) and time.monotonic() < until:
                    time.sleep(0.02)
                time.sleep(0.3)
                self.assertEqual(len(measuring), 1)
                os.kill(measuring[0] if sent == signal.SIGKILL else process.pid, sent)
                output, errors = process.communicate(timeout=60)
                record = json.loads(output)
                self.assertEqual(record["state"], "ok" if sent == signal.SIGKILL else "interrupted", errors)
                self.assertIsNone(record["measured_layers"])
                self.assertEqual([stage["layers"] for stage in record["stages"]], [2, 2])
                self.assertIn("signal 9" if sent == signal.SIGKILL else "interrupted", " ".join(record["messages"]))
                self.assertFalse(alive(measuring[0]))

    def test_staleness_is_told_and_bounded(self):
        for form, servers in [("parameter-server[stale=1,servers=2]", 2), ("parameter-server[async]", 1)]:
            with self.subTest(form):
                record = self.record("--strategy", form, "--workers", WORKERS, "--optimizer", "adam", *JOB)
                for rank in record["ranks"]:
                    self.assertEqual(rank["staleness"] is not None, rank["rank"] < servers)
                    if rank["rank"] < servers:
                        self.assertGreater(rank["staleness"]["updates"], 0)
                        for by in ("by_steps", "by_updates"):
                            self.assertEqual(sum(count for _, count in rank["staleness"][by]), rank["staleness"]["updates"])
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

    def test_numbers_that_do_not_go_together_are_refused_with_those_that_would(self):
        for form, workers, words in [("pipeline[micro=4]", 64, ["stages", "64"]), ("pipeline[stages=3/5,micro=4]", 2, ["8", "expected"]),
                                     ("pipeline[micro=100]", 2, ["micro", "64"]), ("pipeline[schedule=interleaved-1f1b,micro=5]", 2, ["multiple", "2"]),
                                     ("pipeline[schedule=zbv,chunks=3]", 2, ["2"]), ("pipeline[schedule=zbv]", 7, ["7 workers of 2 stages each", "at most 6 workers"]), ("pipeline[schedule=1f1c]", 2, ["1f1b"]), ("sharded[level=4]", 2, ["1 to 3"]),
                                     ("pipeline[replicas=2/2]", 3, ["4 workers", "add up to 3"]), ("pipeline[replicas=2/1,chunks=2]", 3, ["chunks", "expected 1"]),
                                     ("pipeline[replicas=1/3,micro=2]", 4, ["3 micro-batches"]), ("pipeline[balance=pipedream,machines=2/2]", 3, ["product is 3"]),
                                     ("tensor[split=heads]", 3, ["lenet", "channels", "features"]), ("tensor[split=hieght]", 2, ["height"]), ("hybrid[data=2,pipeline=2]", 3, ["4 for 3 workers", "divides 3"]),
                                     ("hybrid[pipeline=2,data=3]", 4, ["6 for 4 workers", "expected data=2"]), ("hybrid[pipeline=2,sharded=2,level=3]", 4, ["level=3", "expected level=1"]),
                                     ("local[every=0]", 2, ["every"]), ("single", 2, ["one worker"]),
                                     ("parameter-server[servers=3]", 2, ["3 servers", "at most 2"]), ("parameter-server[async,stale=2]", 2, ["one"])]:
            with self.subTest(form):
                done = run("run", "--strategy", form, "--workers", workers, *QUICK, cwd=self.folder)
                self.assertEqual(done.returncode, 2, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)

    def test_norms_of_parameters_in_pieces_are_those_of_the_whole(self):
        for optimizer in ("lars[trust=0.02]", "lamb"):
            with self.subTest(optimizer):
                words = ["--optimizer", optimizer, "--precision", "fp64", "--steps", 6, "--no-evaluate"]
                single, pieces = (self.record("--strategy", strategy, "--workers", workers, *words, *QUICK) for strategy, workers in (("single", 1), ("tensor", 2)))
                for a, b in zip(single["loss"]["steps"]["value"], pieces["loss"]["steps"]["value"]):
                    self.assertAlmostEqual(a, b, delta=1e-7)

    def test_what_a_strategy_cannot_have_is_refused(self):
        for arguments, words in [(["--strategy", "parameter-server", "--clip", 1], ["clip 1", "whole gradient", "no clip"]),
                                 (["--strategy", "parameter-server[async]", "--clip", 1], ["clip 1", "whole gradient"]),
                                 (["--strategy", "parameter-server[stale=2]", "--precision", "fp16"], ["fp16", "whole gradient", "bf16"]),
                                 (["--strategy", "parameter-server", "--collective", "ring"], ["messages", "got ring with parameter-server", "expected auto"]),
                                 (["--strategy", "data[in-process=parallel]", "--transport", "shm"], ["one process", "shm", "expected transport inproc"]),
                                 (["--strategy", "data[in-process=mirrored]", "--transport", "tcp"], ["one process", "tcp", "expected transport inproc"]),
                                 (["--strategy", "data", "--transport", "inproc"], ["workers are processes", "in-process"]),
                                 (["--strategy", "data[in-process=maybe]"], ["maybe", "off, mirrored, parallel"]),
                                 (["--strategy", "data[in-process=parallel,compress=int8]", "--transport", "inproc"], ["compress=int8", "share memory", "no compress"]),
                                 (["--strategy", "pipeline[schedule=pipedream]", "--clip", 1], ["got clip 1 with schedule=pipedream", "clip 0", "1f1b"]),
                                 (["--strategy", "pipeline[schedule=pipedream]", "--precision", "fp16"], ["got precision fp16", "bf16"])]:
            with self.subTest(arguments):
                done = run("run", *arguments, "--workers", 2, *QUICK, cwd=self.folder)
                self.assertEqual(done.returncode, 6 if "unsupported" in done.stderr else 2, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
