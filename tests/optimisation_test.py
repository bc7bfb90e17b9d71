"""End to end through the binary: optimizers, schedules, accumulation, clipping, precision, and how bad runs end.

usage: optimisation_test.py PATH-OF-DDLBENCH [unittest arguments]
"""
import math
import pathlib
import re
import resource
import signal
import subprocess
import sys
import unittest

from probe_case import no_fabric
from training_test import BINARY, QUICK, Case, json, os, run


def losses(record):
    return record["loss"]["steps"]["value"]


class Optimisation(Case):
    def test_every_optimizer_learns(self):
        rates = {"sgd": 0.05, "sgd[nesterov]": 0.03, "adam": 0.002, "adamw": 0.002, "lars[trust=0.02]": 0.3, "lamb": 0.01}
        for optimizer, rate in rates.items():
            # Steps of plain gradients take longer to get there.
            epochs = 4 if optimizer.startswith("sgd") else 2
            with self.subTest(optimizer):
                # At a rate that stays they go up and down to the end, each processor's rounding in its own way.
                schedule = ["--learning-rate-schedule", "cosine"] if optimizer.startswith("sgd") else []
                record = self.record("--synthetic", "--train-samples", 6400, "--test-samples", 500, "--model", "lenet", "--batch", 64,
                                     "--epochs", epochs, "--workers", 2, "--optimizer", optimizer, "--learning-rate", rate, *schedule)
                self.assertEqual(record["state"], "ok", record["reason"])
                self.assertEqual(record["config"]["optimizer"], "sgd[nesterov=on]" if "nesterov" in optimizer else optimizer)
                self.assertGreater(record["accuracy"]["top1"], 0.7)
                self.assertGreater(record["accuracy"]["top5"], record["accuracy"]["top1"])
                tensors = 2 if optimizer[:2] in ("ad", "la") and optimizer[:4] != "lars" else 1
                for rank in record["ranks"]:
                    self.assertEqual(rank["memory_bytes"]["optimizer"], tensors * rank["memory_bytes"]["parameters"])

    def test_accumulation_is_the_big_batch(self):
        # Its last batch is ragged: 640 samples in batches of 512.
        words = ["--synthetic", "--train-samples", 640, "--test-samples", 20, "--batch", 512, "--epochs", 3, "--precision", "fp64", "--no-evaluate"]
        whole, cut = (self.record(*words, "--workers", 2, "--accumulate", n) for n in (1, 5))
        for a, b in zip(losses(whole), losses(cut)):
            self.assertAlmostEqual(a, b, delta=1e-12)
        for rank in (0, 1):
            self.assertLess(cut["ranks"][rank]["memory_bytes"]["activations"], whole["ranks"][rank]["memory_bytes"]["activations"] / 2)

    def test_recomputation_changes_memory_alone(self):
        words = ["--synthetic", "--train-samples", 64, "--test-samples", 20, "--model", "resnet18", "--batch", 32, "--steps", 2, "--no-evaluate"]
        plain, again = self.record(*words), self.record(*words, "--recompute")
        self.assertEqual(plain["parameters_digest"], again["parameters_digest"])
        kept = [record["ranks"][0]["memory_bytes"]["activations"] for record in (plain, again)]
        self.assertLess(kept[1], 0.7 * kept[0])

    def test_a_schedule_moves_the_learning_rate(self):
        # Of ten steps only the first has a learning rate.
        words = [*QUICK, "--momentum", 0, "--learning-rate-schedule", "step[every=1,factor=0]"]
        one, ten = (self.record(*words, "--steps", n)["parameters_digest"] for n in (1, 10))
        self.assertEqual(one, ten)
        moving = self.record(*QUICK, "--momentum", 0, "--steps", 10, "--learning-rate-schedule", "inverse-sqrt[warmup=5]")
        self.assertNotEqual(moving["parameters_digest"], ten)
        self.assertEqual(moving["config"]["learning_rate_schedule"], "inverse-sqrt[warmup=5]")

    def test_clipping_is_counted(self):
        self.assertIsNone(self.record(*QUICK, "--steps", 5)["clipped_steps"])
        self.assertEqual(self.record(*QUICK, "--steps", 5, "--workers", 2, "--clip", 1e-4)["clipped_steps"], 5)
        self.assertEqual(self.record(*QUICK, "--steps", 5, "--workers", 2, "--clip", 1e4)["clipped_steps"], 0)

    def test_label_smoothing_raises_the_least_loss(self):
        plain, smooth = (self.record(*QUICK, "--steps", 1, "--label-smoothing", e)["loss"]["first"] for e in (0, 0.1))
        self.assertNotEqual(plain, smooth)
        # Spread over all ten classes nothing is learnt, and nothing can be better than log 10.
        self.assertGreaterEqual(self.record(*QUICK, "--steps", 1, "--label-smoothing", 1)["loss"]["first"], math.log(10))


class Buckets(Case):
    """--bucket auto: sizes, and overlap, are tried in the first steps, all train, and the best is taken."""
    MODEL = ["--model", "mlp[hidden=512,layers=4]", "--workers", "2", "--batch", "32", "--synthetic", "--train-samples", "500", "--test-samples", "16", "--no-evaluate"]  # 4.8 MB of gradients: 1 MiB, or all in one

    def test_a_size_is_found_and_changes_no_bit(self):
        tuned, plain = self.record("--bucket", "auto", "--steps", 200, *self.MODEL), self.record("--steps", 200, *self.MODEL)
        told = tuned["bucket_tuning"]
        whole = 4 * tuned["model"]["parameters"]
        # Of every 16 steps the last has fewer samples, and does not count.
        short = (told["steps"] + 1) // 16
        self.assertEqual([(way["bytes"], way["overlap"]) for way in told["sizes"]], [(whole, True), (1 << 20, True), (whole, False)])
        self.assertEqual(told["steps"], 3 * sum(way["turns"] for way in told["sizes"]) + short)
        self.assertTrue(18 <= told["steps"] - short <= 50, told)
        self.assertTrue(all(way["step_ms"] > 0 and way["turns"] >= 2 for way in told["sizes"]))
        taken = next(way for way in told["sizes"] if (way["bytes"], way["overlap"]) == (told["taken"], told["overlap"]))
        if taken is not told["sizes"][0]:
            self.assertEqual(taken["turns"], told["sizes"][0]["turns"], "it was in the race to the end")
            self.assertLess(taken["over_standard"], 0.99)
        self.assertGreaterEqual(tuned["samples"]["warmup_steps"], told["steps"] + 1)
        # A bucket is closed as soon as it holds its limit, the first at 1 MiB.
        self.assertEqual(len(tuned["buckets"]), 5 if told["taken"] == 1 << 20 else 2)
        # A sum of two is the same in any bucket.
        self.assertEqual(tuned["parameters_digest"], plain["parameters_digest"])
        self.assertIsNone(plain["bucket_tuning"])
        # The plan that is recorded is the one that ran.
        reductions = [task for task in tuned["plan"]["roles"][0]["tasks"] if task["kind"] == "collective"]
        self.assertEqual(len(reductions), len(tuned["buckets"]))
        self.assertEqual(all("after" in task for task in reductions), not told["overlap"], "after backward, or once their gradients are complete")

    @unittest.skipIf(no_fabric(), no_fabric())
    def test_pieces_over_a_slow_wire_and_all_in_one_where_messages_are_late(self):
        """What the right answer is, is known: pieces travel while backward computes, and each of them waits for a message once more."""
        words = ["--synthetic", "--test-samples", 16, "--no-evaluate", "--bucket", "auto", "--steps", 160, "--transport", "tcp"]  # 39 may be tried: more than one round
        # 9 MB of gradients are 90 ms on their way, backward about as long: of workers that sleep as long as that computes, which others' work here leaves alone.
        narrow = self.record("--model", "mlp[hidden=512,layers=8]", "--train-samples", 2048, "--batch", 512, "--fabric", "hosts=2,bandwidth=800Mbps", "--workers", "emulated:v100[slow=100]:2", *words)["bucket_tuning"]
        pieces, within = next((way["over_standard"], way["turns"]) for way in narrow["sizes"] if (way["bytes"], way["overlap"]) == (1 << 20, True))
        self.assertEqual((narrow["taken"], narrow["overlap"]), (1 << 20, True), narrow)
        self.assertLess(pieces, 0.92, narrow)
        self.assertEqual(within, narrow["sizes"][0]["turns"], "it was in the race to the end")
        after = next(way["over_standard"] for way in narrow["sizes"] if not way["overlap"])
        self.assertGreater(after, pieces + 0.05, "overlap is what pieces are for")
        # Five messages to and fro instead of two.
        late = self.record("--model", "mlp[hidden=512,layers=4]", "--train-samples", 512, "--batch", 32, "--fabric", "hosts=2,latency=20ms", "--workers", 2, *words)["bucket_tuning"]
        pieces, turns = next((way["over_standard"], way["turns"]) for way in late["sizes"] if way["bytes"] == 1 << 20)
        self.assertGreater(late["taken"], 1 << 20, late)
        self.assertGreater(pieces, 1.5, late)
        self.assertEqual(turns, 2, "it left the race after its first round, though there was time for another")

    def test_threads_of_one_process_find_theirs(self):
        record = self.record("--strategy", "data[bucket=auto,in-process=mirrored]", "--steps", 80, *self.MODEL)
        told = record["bucket_tuning"]
        self.assertEqual([way["overlap"] for way in told["sizes"]], [False, False, True], "whose own is after backward")
        self.assertGreaterEqual(told["steps"], 18)
        self.assertEqual(record["parameters_digest"], self.record("--strategy", "data[in-process=mirrored]", "--steps", 80, *self.MODEL)["parameters_digest"])

    def test_overlap_that_is_said_is_not_tried(self):
        for word in ("on", "off"):
            told = self.record("--strategy", f"data[bucket=auto,overlap={word}]", "--steps", 60, *self.MODEL)["bucket_tuning"]
            self.assertEqual(({way["overlap"] for way in told["sizes"]}, told["overlap"], len(told["sizes"])), ({word == "on"}, word == "on", 2))
            self.assertEqual(told["steps"], 12)

    def test_a_short_run_tries_nothing(self):
        told = self.record("--strategy", "data[bucket=auto]", "--steps", 10, *self.MODEL)["bucket_tuning"]
        self.assertEqual((told["steps"], told["taken"]), (0, max(size["bytes"] for size in told["sizes"])))

    def test_what_cannot_be_cut_anew_is_refused(self):
        done = run("run", "--strategy", "data[compress=fp16]", "--bucket", "auto", "--steps", 10, *self.MODEL, cwd=self.folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn("got bucket=auto with compress=fp16, expected a size", done.stderr)


class Precision(Case):
    def test_half_precision_reaches_the_accuracy_of_single(self):
        """The real Fashion-MNIST: within one point of fp32, with the same number of steps."""
        accuracy = {}
        for precision in ("fp32", "bf16", "fp16"):
            record = self.record("--model", "lenet", "--batch", 64, "--epochs", 1, "--workers", 2, "--learning-rate", 0.03,
                                 "--learning-rate-schedule", "cosine", "--precision", precision, "--store", "none")
            self.assertEqual(record["state"], "ok", record["reason"])
            accuracy[precision] = record["accuracy"]["top1"]
            said = record["precision"]
            self.assertEqual((said["compute"], said["parameters"], said["gradients"]), (precision, "fp32", "fp32"))
            self.assertEqual(said["updates"] + said["skipped_steps"], record["samples"]["steps"])
            self.assertEqual(said["loss_scale"] is None, precision != "fp16")
            for rank in record["ranks"]:
                # What is reduced are fp32 gradients.
                self.assertEqual(rank["memory_bytes"]["buckets"] // 4096, 61707 * 4 // 4096)
        self.assertGreater(accuracy["fp32"], 0.85)
        for precision in ("bf16", "fp16"):
            self.assertAlmostEqual(accuracy[precision], accuracy["fp32"], delta=0.01, msg=str(accuracy))

    def refused(self, *arguments, words, code=6):
        done = run("run", *QUICK, "--steps", 2, *arguments, cwd=self.folder)
        self.assertEqual(done.returncode, code, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_what_cannot_be_done_is_refused(self):
        self.refused("--precision", "tf32", words=["unsupported", "tensor cores"])
        self.refused("--precision", "fp16", "--workers", 2, "--strategy", "data[compress=top-k]", words=["unsupported", "overflow"])
        self.refused("--optimizer", "adan", words=["--optimizer", "did you mean 'adam'"], code=2)
        self.refused("--optimizer", "adam[beta1=2]", words=["--optimizer", "beta1"], code=2)
        self.refused("--learning-rate-schedule", "cosin", words=["--learning-rate-schedule", "did you mean 'cosine'"], code=2)
        self.refused("--accumulate", 65, words=["--accumulate", "65"], code=2)

    def test_the_peer_refuses_what_it_does_not_do(self):
        for arguments in (["--precision", "bf16"], ["--optimizer", "adam"], ["--accumulate", 2], ["--clip", 1], ["--label-smoothing", 0.1],
                          ["--recompute"], ["--learning-rate-schedule", "constant[warmup=3]"]):
            with self.subTest(arguments[0]):
                self.refused("--subject", "torch-ddp", *arguments, words=["unsupported", "this subject trains only"])


class BadEnds(Case):
    def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_its_steps(self):
        for workers in (1, 2):
            record = self.record(*QUICK, "--steps", 10, "--workers", workers, "--learning-rate", 1e5, code=1)
            self.assertEqual(record["state"], "failed")
            self.assertRegex(record["reason"], r"loss is not finite at step \d+")
            step = int(record["reason"].split("at step ")[1].split(";")[0])
            self.assertGreater(step, 0)
            self.assertEqual(record["samples"]["steps"], step)
            for value in losses(record):
                self.assertTrue(math.isfinite(value))

    def test_too_little_memory_ends_the_run_with_the_ledger(self):
        def limited():
            resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
        words = ["--synthetic", "--train-samples", 4000, "--test-samples", 10, "--model", "resnet18", "--batch", 4000, "--steps", 1, "--no-evaluate"]
        done = subprocess.run([BINARY, "run", "--json", *map(str, words)], cwd=self.folder, capture_output=True, text=True, timeout=600, preexec_fn=limited,
                              env=os.environ)
        self.assertEqual(done.returncode, 1, done.stderr)
        record = json.loads(done.stdout)
        self.assertEqual(record["state"], "failed")
        for word in ("out of memory", "more", "parameters 42.7 MiB", "gradients 0 B", "optimizer 42.6 MiB", "activations"):
            self.assertIn(word, record["reason"])
        self.assertEqual(record["ranks"][0]["memory_bytes"]["optimizer"], 4 * 11172810)
        self.assertGreater(record["ranks"][0]["memory_bytes"]["activations"], 1 << 28)

    def test_too_little_memory_for_a_worker_to_begin_with_ends_the_run_with_the_planned_ledger(self):
        def limited():
            resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
        words = ["--synthetic", "--train-samples", 40, "--test-samples", 10, "--model", "mlp[hidden=30000,layers=3]", "--batch", 4, "--steps", 1, "--memory-limit", "1000GB"]
        done = subprocess.run([BINARY, "run", "--json", *map(str, words)], cwd=self.folder, capture_output=True, text=True, timeout=600, preexec_fn=limited,
                              env=os.environ)
        self.assertEqual(done.returncode, 1, done.stderr)
        record = json.loads(done.stdout)
        parameters = record["model"]["parameters"] * 4
        self.assertGreater(parameters, 3 << 30)
        for word in ("out of memory: no ", "parameters ", "optimizer ", "planned for a step; there was too little before the first one"):
            self.assertIn(word, record["reason"])
        self.assertEqual(record["ranks"][0]["memory_bytes"]["parameters"], parameters)
        self.assertEqual(record["ranks"][0]["memory_bytes"]["optimizer"], parameters)

    def test_a_plan_that_does_not_fit_is_refused_before_it_runs(self):
        words = ["--synthetic", "--train-samples", 1000, "--test-samples", 10, "--model", "resnet18", "--dataset", "cifar10", "--steps", 1, "--no-evaluate"]
        # The same job, within its limit by a strategy that holds less.
        for strategy, code in [("data", 2), ("pipeline[schedule=1f1b,micro=8]", 0)]:
            done = run("run", "--json", *words, "--batch", 64, "--workers", 2, "--strategy", strategy, "--optimizer", "adam", "--memory-limit", "280MB", cwd=self.folder)
            self.assertEqual(done.returncode, code, done.stderr)
        done = run("run", *words, "--batch", 64, "--workers", 2, "--memory-limit", "64MiB", cwd=self.folder)
        self.assertEqual(done.returncode, 2, done.stderr)
        for word in ("memory-limit", "worker holds ", "parameters 42.6 MiB", "buckets", "activations", "more than the limit of 64 MiB", "a smaller batch"):
            self.assertIn(word, done.stderr)
        # What the machine has is the limit of those that say none: of one worker, and of all together.
        total = 1024 * int(re.search(r"MemTotal: *(\d+)", pathlib.Path("/proc/meminfo").read_text()).group(1))
        # Hidden units of an MLP whose worker holds about six tenths of that: parameters, momentum and gradients' buckets.
        each = math.isqrt(total * 6 // 10 // 4 // 3)
        for hidden, workers, word in [(2 * each, 1, "more than the limit of"), (each, 2, "2 workers hold ")]:
            done = run("run", "--dataset", "cifar10", "--synthetic", "--train-samples", 40, "--test-samples", 10, "--model", f"mlp[hidden={hidden},layers=2]", "--batch", 4, "--steps", 1,
                       "--workers", workers, cwd=self.folder)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(word, done.stderr)

    def test_a_loss_that_is_not_finite_on_the_test_set_ends_the_run(self):
        record = self.record(*QUICK, "--steps", 2, "--learning-rate", 1e5, code=1)
        self.assertEqual(record["state"], "failed")
        self.assertIn("loss is not finite on the test set after step 1", record["reason"])
        self.assertEqual(record["samples"]["steps"], 2)

    def test_a_rank_that_is_killed_where_the_kernel_lacked_no_memory_is_not_said_to_have(self):
        running = subprocess.Popen([BINARY, "run", "--json", *QUICK, "--steps", "100000"], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        worker = None
        while worker is None:
            children = pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
            worker = int(children[0]) if children else None
        os.kill(worker, signal.SIGKILL)
        out, _ = running.communicate(timeout=60)
        reason = json.loads(out)["reason"]
        self.assertIn("signal 9", reason)
        self.assertNotIn("lack of memory", reason)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
