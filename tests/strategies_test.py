"""Every strategy through the binary: trains, evaluates one model on all ranks, and ends as `failed` with the rank named when a worker is killed.

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

from training_test import BINARY, QUICK, Case, alive, descendants, listening_ports, run, shared_memory

WORKERS = 3
FORMS = ["data", "model", "pipeline[schedule=gpipe,micro=6]", "pipeline[schedule=1f1b,micro=6,recompute=always]", "pipeline[schedule=interleaved-1f1b,micro=6]",
         "pipeline[schedule=looped-bfs,micro=4,chunks=2]", "pipeline[schedule=zb-h1,micro=6]", "pipeline[schedule=zbv,micro=6]", "pipeline[schedule=dualpipev,micro=6]",
         "pipeline[schedule=pipedream]", "pipeline[schedule=pipedream-2bw,micro=4]", "sharded[level=1]", "sharded[level=2]", "sharded[level=3,unit=1]",
         "local[every=3]", "local[every=2,average=gossip]", "pipeline[replicas=2/1,micro=6]", "pipeline[schedule=gpipe,replicas=1/2,micro=4]", "pipeline[balance=pipedream,micro=6]",
         "parameter-server[servers=2]", "parameter-server[async]", "parameter-server[stale=2,servers=2]", "tensor", "tensor[split=height]", "hybrid[pipeline=2,tensor=2,micro=4]",
         "hybrid[data=2,sharded=2]", "hybrid[pipeline=2,sharded=2,micro=4]"]
# Their workers are threads of one process.
THREADS = ["data[in-process=parallel]", "data[in-process=mirrored]"]
JOB = ["--model", "lenet", "--dataset", "fashion-mnist", "--synthetic", "--train-samples", 960, "--test-samples", 96, "--batch", 48, "--epochs", 2]
# Exact ones end with what `data` ends with, but for rounding.
INEXACT = ("schedule=pipedream", "local", "async", "stale")
# Each worker's gradient is applied by itself: three steps where the others make one.
SMALL_STEPS = ("async", "stale")


def workers_of(form):
    """Meshes have four places."""
    return 4 if form.startswith("hybrid") else WORKERS


class Strategies(Case):
    def test_each_trains_one_model(self):
        expected = None
        for form in FORMS + THREADS:
            with self.subTest(form):
                small = ["--learning-rate", 0.05 / WORKERS] if any(word in form for word in SMALL_STEPS) else []
                record = self.record("--strategy", form, "--workers", workers_of(form), *small, *JOB)
                self.assertEqual(record["state"], "ok")
                losses = record["loss"]["epochs"]
                self.assertEqual(len(losses), 2)
                self.assertLess(losses[1], losses[0])
                expected = expected or losses
                if not any(word in form for word in INEXACT):
                    for ours, theirs in zip(losses, expected):
                        self.assertAlmostEqual(ours, theirs, delta=1e-4)
                self.assertEqual([rank["rank"] for rank in record["ranks"]], list(range(workers_of(form))))
                for rank in record["ranks"]:
                    ledger = rank["ledger_ms"]
                    self.assertLess(ledger["residual"], 0.5 * sum(ledger.values()), ledger)

    def test_an_interrupt_ends_asynchronous_pipelines_at_once(self):
        """Workers that are ahead of others stop after the same step."""
        for form, workers in (("pipeline[schedule=pipedream]", 2), ("pipeline[schedule=pipedream-2bw,micro=4]", 3), ("pipeline[schedule=pipedream,replicas=2/1]", 3)):
            with self.subTest(form):
                process = subprocess.Popen([BINARY, "run", "--json", "--quiet", "--synthetic", "--model", "lenet", "--dataset", "fashion-mnist", "--train-samples", "20000", "--test-samples", "16",
                                            "--batch", "48", "--epochs", "1000", "--no-evaluate", "--store", "none", "--workers", str(workers), "--strategy", form],
                                           cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                time.sleep(4)
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
                record = self.record("--strategy", form, "--workers", WORKERS, *JOB)
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
                process = self.start("--workers", workers_of(form), "--strategy", form)
                victims = sorted(self.workers(process, workers_of(form)))
                rank = number % workers_of(form)
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
                self.assertEqual(shared_memory() - self.shm_before, set())
                self.assertEqual(listening_ports() - self.ports_before, set())

    def test_a_worker_that_dies_in_any_phase_is_named(self):
        """Killed as it begins a task of each kind, or the exchange of each cargo, that the strategy has; over memory and over a wire."""
        phases = {"data": ["load", "forward", "backward", "gradients", "update"],
                  "model": ["forward", "activations", "activation gradients"],
                  "pipeline[schedule=1f1b,micro=4]": ["forward", "backward", "send", "receive", "control", "update"],
                  "pipeline[schedule=zbv,micro=4]": ["backward-input", "backward-weight"],
                  "pipeline[schedule=pipedream]": ["forward", "send", "control"],
                  "pipeline[schedule=gpipe,replicas=1/2,micro=4]": ["forward", "gradients"],
                  "tensor": ["activations", "backward", "activation gradients", "control"],
                  "sharded": ["parameters", "forward", "release", "gradients", "update"],
                  "sharded[level=1]": ["gradients", "parameters"],
                  "hybrid[pipeline=2,tensor=2,micro=4]": ["activations", "send", "activation gradients", "update"],
                  "hybrid[data=2,sharded=2]": ["parameters", "gradients"],
                  "local[every=2]": ["update", "parameters"],
                  "local[every=2,average=gossip]": ["send", "average"],
                  "parameter-server": ["gradients", "backward", "parameters"],
                  "parameter-server[async]": ["gradients", "parameters"],
                  "parameter-server[stale=2,servers=2]": ["forward", "parameters"]}
        cases = [(form, phase) for form, all_of_form in phases.items() for phase in all_of_form]
        for number, (form, phase) in enumerate(cases):
            transport = ("shm", "tcp")[number % 2]
            rank = number % workers_of(form)
            with self.subTest(f"{form} {phase} {transport}"):
                done = run("run", "--json", "--strategy", form, "--workers", workers_of(form), "--transport", transport, *QUICK, "--epochs", 100000, "--no-evaluate", cwd=self.folder,
                           env={"DDLBENCH_TEST_DEATH": f"{rank}:5:{phase}"})
                self.assertEqual(done.returncode, 1, done.stderr)
                record = json.loads(done.stdout)
                self.assertEqual(record["state"], "failed")
                self.assertIn(f"rank {rank}", record["reason"])
                self.assertIn("signal 9", record["reason"])
                self.assertEqual(shared_memory() - self.shm_before, set())

    def test_numbers_that_do_not_go_together_are_refused_with_those_that_would(self):
        for form, workers, words in [("pipeline[micro=4]", 64, ["stages", "64"]), ("pipeline[stages=3/5,micro=4]", 2, ["8", "expected"]),
                                     ("pipeline[micro=100]", 2, ["micro", "64"]), ("pipeline[schedule=interleaved-1f1b,micro=5]", 2, ["multiple", "2"]),
                                     ("pipeline[schedule=zbv,chunks=3]", 2, ["2"]), ("pipeline[schedule=1f1c]", 2, ["1f1b"]), ("sharded[level=4]", 2, ["1 to 3"]),
                                     ("pipeline[replicas=2/2]", 3, ["4 workers", "add up to 3"]), ("pipeline[replicas=2/1,chunks=2]", 3, ["chunks", "expected 1"]),
                                     ("pipeline[replicas=1/3,micro=2]", 4, ["3 micro-batches"]), ("pipeline[balance=pipedream,machines=2/2]", 3, ["product is 3"]),
                                     ("tensor[split=heads]", 3, ["lenet", "channels", "features"]), ("tensor[split=hieght]", 2, ["height"]), ("hybrid[data=2,pipeline=2]", 3, ["4 for 3 workers", "divides 3"]),
                                     ("hybrid[pipeline=2,data=3]", 4, ["6 for 4 workers", "expected data=2"]),
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
