"""Emulated workers through the binary: their computation is waits of a profile's length, all else is real.

usage: emulated_test.py PATH-OF-DDLBENCH [unittest arguments]
"""
import json
import math
import os
import pathlib
import signal
import statistics
import sys
import threading
import time
import unittest

from strategy_forms import FORMS, cut_by_flops
from training_test import Case, alive, descendants, run

JOB = ["--model", "lenet", "--dataset", "fashion-mnist", "--synthetic", "--train-samples", 480, "--test-samples", 48, "--batch", 48, "--epochs", 1]


class Sleeper(threading.Thread):
    """How late whoever sleeps is woken here meanwhile, us: what else runs on these cores makes waits late, whoever waits."""

    def __init__(self):
        super().__init__(daemon=True)
        self.over, self.late = threading.Event(), []

    def run(self):
        while not self.over.is_set():
            due = time.monotonic() + 0.01
            time.sleep(0.01)
            self.late.append(1e6 * (time.monotonic() - due))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()

    def median(self):
        return statistics.median(self.late)


class EmulatedCase(Case):
    def check(self, record, workers):
        self.assertEqual(record["state"], "ok", record["reason"])
        for field in ("loss", "accuracy", "parameters_digest"):
            self.assertIsNone(record[field], field)
        self.assertIn("not evaluated", " ".join(record["messages"]))
        self.assertEqual(len(record["ranks"]), workers)
        for rank in record["ranks"]:
            self.assertTrue(rank["device"].startswith("emulated:"))
            told = rank["emulation"]
            self.assertGreater(told["compute_ms"], 0)
            self.assertLessEqual(told["late_us"]["median"], told["late_us"]["p95"])
            self.assertLessEqual(told["late_us"]["p95"], told["late_us"]["max"] + 1e-6)
            self.assertTrue(rank["memory_bytes"]["planned"])
            planned = [role["holds"] for role in record["plan"]["roles"] if role["first"] <= rank["rank"] < role["first"] + role["count"]][0]
            self.assertEqual(rank["peak_memory_bytes"], sum(planned.values()))


class Emulated(EmulatedCase):
    def traffic(self, form, workers, steps):
        """Bytes that each rank sends in so many steps more: what is gathered before and after them, a digest or a model to evaluate, is not among them."""
        sent = []
        for count in (steps, 2 * steps):
            # Within an epoch: at its end real workers tell of their model.
            record = self.record("--strategy", form, "--workers", workers, *[960 if word == 480 else word for word in JOB[:-2]], "--steps", count, "--no-evaluate")
            self.assertEqual(record["state"], "ok", record["reason"])
            sent.append([rank["bytes_sent"] for rank in record["ranks"]])
        return [b - a for a, b in zip(*sent)]

    def test_every_form_runs_and_moves_what_a_real_run_moves(self):
        for form, workers in FORMS.items():
            with self.subTest(form):
                cut = cut_by_flops(form)
                self.check(self.record("--strategy", form, "--workers", f"emulated:v100:{workers}", *JOB), workers)
                if "balance" in form:
                    continue  # a measured machine's stages are others
                self.assertEqual(self.traffic(cut, f"emulated:v100:{workers}", 6), self.traffic(cut, f"cpu:{workers}", 6))

    def test_computing_takes_what_the_profile_says(self):
        """The ledger's forward, backward, update and copy are the waits that the profile asks for, and what the record says they were late."""
        for form, workers in (("single", 1), ("data", 2), ("pipeline[schedule=1f1b,micro=4]", 2), ("pipeline[schedule=zb-h1,micro=4]", 2), ("sharded[level=2]", 2)):
            with self.subTest(form):
                record = self.record("--strategy", form, "--workers", f"emulated:k80[slow=40]:{workers}", *JOB[:-2], "--epochs", 4)
                self.check(record, workers)
                steps = record["samples"]["steps"]
                for rank in record["ranks"]:
                    told, ledger = rank["emulation"], rank["ledger_ms"]
                    self.assertGreater(told["compute_ms"], 5)
                    computed = ledger["forward"] + ledger["backward"] + ledger["update"]
                    # Spans are of the measured steps, the sums of all: means agree but for the first steps.
                    self.assertAlmostEqual(computed / told["taken_ms"], 1, delta=0.15)
                    self.assertAlmostEqual(told["taken_ms"] / told["compute_ms"] - 1, told["late_share"], delta=1e-6)
                    self.assertGreater(computed, 0.85 * told["compute_ms"])
                    self.assertGreater(told["waits"], steps)

    def test_a_profile_measured_here_is_waited_for(self):
        """Layers as `probe compute` found them just now, by workers that wait as long: what they are asked for is the profile's sum, and what steps take is that, on a machine that others use, too."""
        profile = pathlib.Path(self.folder) / "measured.json"
        done = run("probe", "compute", "--model", "lenet", "--dataset", "fashion-mnist", "--batch", "24,48", "--optimizer", "sgd", "--compression", "fp16", "--budget", "100ms", "--machine", profile, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        entries = {entry["batch"]: entry for entry in json.loads(profile.read_text())["compute"]}
        correction = statistics.median(entry["correction"] for entry in entries.values())
        update = statistics.median(entry["update_us"] for entry in entries.values()) / 1e3
        for form, workers in (("single", 1), ("data", 2)):
            with self.subTest(form):
                with Sleeper() as sleeper:
                    record = self.record("--strategy", form, "--workers", f"emulated:{profile}[slow=20]:{workers}", *JOB[:-2], "--epochs", 2)
                self.check(record, workers)
                entry = entries[48 // workers]
                asked = 20 * (correction * (entry["forward_ms"] + entry["backward_ms"]) + update)
                steps = record["step_ms"]["samples"][record["samples"]["warmup_steps"]:]
                # A step after one whose wait ended late is shorter by as much: the next wait was due.
                self.assertGreater(statistics.mean(steps), 0.97 * asked)
                for rank in record["ranks"]:
                    told, late = rank["emulation"], rank["emulation"]["late_us"]
                    computed = sum(rank["ledger_ms"][cause] for cause in ("forward", "backward", "update", "copy"))
                    print(f"{form}: asked for {told['compute_ms']:.2f} ms a step, computed {computed:.2f}; late, us: {late}, sleepers {sleeper.median():.0f}", file=sys.stderr)
                    # Of data parallel workers copies into buckets besides.
                    self.assertGreater(told["compute_ms"], 0.99 * asked)
                    self.assertLess(told["compute_ms"], 1.01 * asked if workers == 1 else 1.1 * asked)
                    self.assertGreater(computed, 0.97 * told["compute_ms"])
                    # The error of the waits: half of them end within a millisecond of when they should, unless whoever sleeps here is woken later.
                    self.assertLess(late["median"], max(1000, 2 * sleeper.median()))
                    if sleeper.median() < 500:
                        self.assertLess(computed, 1.25 * told["compute_ms"])
                        self.assertLess(told["late_share"], 0.25)
        self.expect_the_device_that_is_meant(profile, correction)
        # Whoever runs it sees the error, as the record has it.
        done = run("run", "--strategy", "single", "--workers", f"emulated:{profile}:1", *JOB, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"emulated: 1 worker waited \d+ times in place of computing, up to [0-9.]+ ms a step; computing took -?[0-9.]+ % longer than the profile says at most; waits ended [0-9.e+-]+ us late \(p95\)")

    def test_a_slow_worker_is_waited_for(self):
        equal = self.record("--strategy", "data", "--workers", "emulated:k80[slow=20]:2", *JOB)
        uneven = self.record("--strategy", "data", "--workers", "emulated:k80[slow=20]:1,emulated:k80[slow=60]:1", *JOB)
        self.assertEqual(uneven["config"]["workers"], "emulated:k80[slow=20]:1,emulated:k80[slow=60]:1")
        self.assertAlmostEqual(uneven["ranks"][1]["emulation"]["compute_ms"] / uneven["ranks"][0]["emulation"]["compute_ms"], 3, delta=0.01)
        self.assertGreater(uneven["step_ms"]["median"], 1.8 * equal["step_ms"]["median"])
        waited = uneven["ranks"][0]["ledger_ms"]
        self.assertGreater(waited["wait"] + waited["communication"], uneven["ranks"][0]["emulation"]["compute_ms"])

    def test_real_and_emulated_workers_side_by_side(self):
        record = self.record("--strategy", "data", "--workers", "emulated:v100:2,cpu:1", *JOB)
        self.assertEqual(record["state"], "ok", record["reason"])
        self.assertIsNone(record["loss"])
        self.assertEqual([rank["emulation"] is None for rank in record["ranks"]], [False, False, True])

    def test_stages_are_cut_by_the_profile(self):
        record = self.record("--strategy", "pipeline[micro=4]", "--workers", "emulated:v100:2", *JOB)
        layers = record["measured_layers"]
        self.assertEqual((layers["sorts"], layers["took_s"], layers["samples"]), (0, 0, 12))
        # What only looks at a value otherwise takes nothing there.
        self.assertEqual([layer["name"] for layer in layers["layers"] if layer["forward_ms"] <= 0], ["flatten"])

    def test_a_killed_worker_is_named(self):
        process = self.start("--workers", "emulated:k80[slow=40]:4")
        until = time.monotonic() + 60
        while len(victims := sorted(descendants(process.pid))) < 4 and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(1)
        os.kill(victims[2], signal.SIGKILL)
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, errors)
        record = json.loads(output)
        self.assertEqual(record["state"], "failed")
        self.assertIn("rank 2 ", record["reason"])
        self.assertIn("signal 9", record["reason"])
        self.assertFalse(any(alive(pid) for pid in victims))

    def test_what_does_not_fit_the_device_is_out_of_memory(self):
        machine = json.loads((pathlib.Path(__file__).resolve().parent.parent / "machines" / "k80.json").read_text())
        machine["device"]["memory_bytes"] = 100_000
        path = pathlib.Path(self.folder) / "small.json"
        path.write_text(json.dumps(machine))
        done = run("run", "--workers", f"emulated:{path}:2", *JOB, cwd=self.folder)
        self.assertEqual(done.returncode, 2, done.stderr)
        for word in ("out of memory", "planned to hold", "there is 97.7 KiB"):
            self.assertIn(word, done.stderr)

    def expect_the_device_that_is_meant(self, profile, correction):
        """A profile that has a processor's layers and a GPU's, ten times as fast here, is asked for one of them; one of a GPU alone has the GPU's memory."""
        machine = json.loads(profile.read_text())
        on_gpu = [{**entry, "device": "cuda", "graphs": None, "correction": entry["correction"] / 10} for entry in machine["compute"]]
        for part in ("compute", "optimizer", "memory", "launch"):
            of_gpu = on_gpu if part == "compute" else [{**entry, "device": "cuda"} for entry in machine[part] if entry.get("threads", 1) == 1]
            machine[part] += of_gpu
        machine["launch"][-1]["memory_bytes"] = 10**10
        both, alone = pathlib.Path(self.folder) / "both.json", pathlib.Path(self.folder) / "gpu.json"
        both.write_text(json.dumps(machine))
        alone.write_text(json.dumps({**machine, "compute": on_gpu}))
        done = run("run", "--workers", f"emulated:{both}:1", *JOB, cwd=self.folder)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("has layers of cpu and cuda; got no device, expected one of them, as in", done.stderr)
        asked = {}
        for name, workers in (("cpu", f"emulated:{both}[device=cpu,slow=20]:1"), ("cuda", f"emulated:{both}[device=cuda,slow=20]:1"), ("alone", f"emulated:{alone}[slow=20]:1")):
            record = self.record("--strategy", "single", "--workers", workers, *JOB)
            self.check(record, 1)
            asked[name] = record["ranks"][0]["emulation"]["compute_ms"]
        print(f"asked for {asked} ms a step", file=sys.stderr)
        self.assertLess(asked["cuda"], 0.5 * asked["cpu"])
        self.assertAlmostEqual(asked["cuda"], asked["alone"], delta=0.01 * asked["cuda"])
        machine["launch"][-1]["memory_bytes"] = 10**5
        alone.write_text(json.dumps({**machine, "compute": on_gpu}))
        done = run("run", "--workers", f"emulated:{alone}:1", *JOB, cwd=self.folder)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("out of memory", done.stderr)

    def test_servers_wait_for_their_updates(self):
        record = self.record("--strategy", "parameter-server", "--workers", "emulated:k80[slow=40]:2", *JOB)
        self.check(record, 2)
        told = record["ranks"][0]["emulation"]["server"]
        self.assertGreater(told["waits"], 0)
        self.assertGreater(told["compute_ms"], 0)
        self.assertIsNone(record["ranks"][1]["emulation"]["server"])

    def test_a_profile_is_the_one_whose_name_was_typed(self):
        """Whatever name is written in it."""
        folder = pathlib.Path(self.folder) / "machines"
        folder.mkdir()
        machine = json.loads((pathlib.Path(__file__).resolve().parent.parent / "machines" / "v100.json").read_text())
        machine["device"] = {**machine["device"], "memory_bytes": 10**5}
        (folder / "my-v100.json").write_text(json.dumps(machine))
        done = run("run", "--workers", "emulated:my-v100:2", *JOB, cwd=self.folder)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("out of memory: rank 0 on emulated:my-v100", done.stderr)

    def test_bad_words(self):
        lacking = pathlib.Path(self.folder) / "lacking.json"
        machine = json.loads((pathlib.Path(__file__).resolve().parent.parent / "machines" / "k80.json").read_text())
        del machine["device"]["memory_bandwidth"]
        lacking.write_text(json.dumps(machine))
        for workers, words in (("emulated:v101:2", ["did you mean 'v100'?"]), ("emulated", ["no profile"]), ("emulated:v100:0", ["out of range"]), ("emulated:v100[fast=2]:2", ["fast", "slow"]),
                               ("emulated:v100[slow=0]:2", ["out of range"]), (f"emulated:{lacking}:2", ["memory_bandwidth"]),
                               ("emulated:v100[threads=2]:2", ["v100", "datasheet", "got threads=2, expected none"]), ("emulated:v100[device=cuda]:2", ["datasheet", "got device=cuda, expected none"])):
            with self.subTest(workers):
                done = run("run", "--workers", workers, *JOB, cwd=self.folder)
                self.assertEqual(done.returncode, 2, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)
        done = run("run", "--workers", "emulated:v100:2", "--precision", "bf16", *JOB, cwd=self.folder)
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("no peak of precision bf16", done.stderr)

    def test_predictions_need_of_this_machine_its_wires_alone(self):
        machine = pathlib.Path(os.environ["DDLBENCH_MACHINE"])
        done = run("probe", "comm", "--transport", "shm", "--ranks", "2,4", "--sizes", "1KiB,256KiB", "--collective", "all-reduce,point-to-point", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(machine.exists())
        # Computing is nearly all of the step, and the fastest step is asked for: what other tests take of these cores, wires feel first.
        arguments = ["--strategy", "data", "--workers", "emulated:k80[slow=200]:4", *JOB]
        done = run("predict", *arguments, "--json", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        point = document["points"][0]
        # What is not a datasheet's is not told as one, and that nothing else of this host is known is.
        self.assertEqual(document["source"], "wires")
        self.assertTrue([words for words in point["beyond"] if words.startswith("of this host its wires alone were measured") and "probe compute" in words], point["beyond"])
        self.assertGreater(point["step_ms"]["high"] / point["step_ms"]["value"], math.exp(1.9 * math.hypot(0.05, 0.05)) - 1e-9)
        self.assertNotIn("from its datasheet", run("predict", *arguments, cwd=self.folder).stderr)
        # Speed-up is over the fastest of workers that are unlike, whoever is named first.
        alone = {words: json.loads(run("predict", "--strategy", strategy, "--workers", words, *JOB, "--json", cwd=self.folder).stdout)["one_worker_ms"]
                 for strategy, words in (("single", "emulated:v100:1"), ("data", "emulated:v100:1,emulated:k80:1"), ("data", "emulated:k80:1,emulated:v100:1"))}
        self.assertEqual(len(set(alone.values())), 1, alone)
        record = self.record(*arguments)
        self.check(record, 4)
        measured = min(record["step_ms"]["samples"][record["samples"]["warmup_steps"]:])
        error = point["step_ms"]["value"] / measured - 1
        print(f"predicted {point['step_ms']['value']:.2f} ms, measured {measured:.2f} ms at best: {100 * error:+.1f} %", file=sys.stderr)
        self.assertLess(abs(error), 0.15)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
