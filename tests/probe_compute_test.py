"""End to end through the binary: what networks take, layer by layer, and the machine profile that comes of it.

usage: probe_compute_test.py PATH-OF-DDLBENCH PATH-OF-MEASURED_DUMP [unittest arguments]
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

import probe_case

BINARY = pathlib.Path(sys.argv[1]).resolve()
DUMP = pathlib.Path(sys.argv[2]).resolve()
PARTS = ("compute", "optimizer", "memory", "compression", "contention", "jitter", "launch")
TINY = ["--budget", "20ms"]


class Case(probe_case.Case):
    command = [BINARY, "probe", "compute"]

    def profile(self):
        return json.loads(self.machine.read_text())

    def dump(self, *arguments, code=0):
        done = subprocess.run([DUMP, self.machine, *map(str, arguments)], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout) if code == 0 else done.stderr


class MemoryAlone(Case):
    command = [BINARY, "probe", "memory"]

    def test_is_measured_and_kept_beside_the_rest(self):
        document = self.document(*TINY)
        self.assertEqual((document["kind"], document["state"], document["compute"]), ("memory", "ok", []))
        self.assertEqual({(entry["what"], entry["threads"]) for entry in document["memory"]}, {("copy", 1), ("triad", 1), ("triad", len(os.sched_getaffinity(0)))})
        for entry in document["memory"]:
            self.assertGreater(entry["bytes_per_s"], 1e8)
        profile = self.profile()
        self.assertEqual(profile["memory"], document["memory"])
        if len(os.sched_getaffinity(0)) > 1:
            self.assertEqual({(entry["what"], entry["load"]) for entry in profile["contention"]}, {("workers", "compute"), ("workers", "memory")})
        self.assertIn("--model: is of networks", self.run_it("--model", "lenet", code=2).stderr)


class Devices(Case):
    def test_where_there_is_none_it_is_said(self):
        self.assertIn("--device: unknown choice; got 'gpu' (did you mean 'cpu'?), expected one of: cpu cuda", self.run_it("--device", "gpu", code=2).stderr)
        kinds = {kind["name"]: kind for kind in json.loads(subprocess.run([BINARY, "list", "devices", "--json"], capture_output=True, text=True, check=True).stdout)["items"]}
        if kinds["cuda"]["available"]:
            document = self.document("--device", "cuda", "--model", "mlp", "--batch", "8", *TINY)
            self.assertEqual([(entry["device"], entry["clock"]) for entry in document["compute"]], [("cuda", "device")])
            self.assertEqual({entry["what"] for entry in document["memory"]}, {"triad", "copy", "download", "upload"})
            self.assertGreater(document["launch"][0]["memory_bytes"], 1e9)
        else:
            self.assertIn("--device: unsupported: no device 'cuda': " + kinds["cuda"]["reason"][:60], self.run_it("--device", "cuda", code=6).stderr)


class Measuring(Case):
    def test_what_is_left_of_layers_that_are_split_is_measured_too(self):
        document = self.document("--model", "lenet,mlp[hidden=64,layers=2]", "--batch", "4", "--parts", "tensor:2,tensor[split=height]:2", *TINY, code=4)
        self.assertEqual(document["state"], "partial")
        self.assertEqual([each["what"] for each in document["failed"]], ["mlp[hidden=64,layers=2] on fashion-mnist, batch 4, fp32, parts of tensor[split=height] with 2 workers"])
        lenet, mlp = document["compute"]
        self.assertEqual([(part["strategy"], part["workers"]) for part in lenet["parts"] + mlp["parts"]], [("tensor", 2), ("tensor[split=height]", 2), ("tensor", 2)])
        whole = {row["sort"] for row in lenet["layers"]}
        for part in lenet["parts"]:
            self.assertTrue(part["layers"])
            for row in part["layers"]:
                self.assertNotIn(row["sort"], whole)
                self.assertGreater(row["forward_us"], 0)
        if len(os.sched_getaffinity(0)) > 1:
            # What passes take in the training of such parts, over what these take alone.
            trained = [(entry["network"], entry.get("strategy")) for entry in document["contention"] if entry["what"] == "steps" and entry["workers"] == 2]
            self.assertCountEqual(trained, [("lenet", None), ("lenet", "tensor"), ("lenet", "tensor[split=height]"), ("mlp[hidden=64,layers=2]", None), ("mlp[hidden=64,layers=2]", "tensor")])
            for entry in document["contention"]:
                self.assertTrue("strategy" not in entry or 0.1 < entry["slowdown"] < 20, entry)
        half = [row for row in lenet["parts"][1]["layers"] if row["family"] == "conv2d 5x5"]
        self.assertEqual(len(half), 2, half)
        self.assertIn("--parts: got 'tensor'", self.run_it("--parts", "tensor", code=2).stderr)

    def test_everything_is_measured_and_a_step_is_the_sum_of_its_layers(self):
        document = self.document("--model", "lenet,gpt[hidden=32,layers=1,heads=2]", "--batch", "2,8", *TINY)
        self.assertEqual((document["schema"], document["kind"], document["state"], document["failed"]), ("ddlbench.probe/1", "compute", "ok", []))
        self.assertEqual(document["machine"], str(self.machine))
        profile = self.profile()
        self.assertEqual(profile["schema"], "ddlbench.machine/1")
        self.assertEqual(profile["communication"], [])
        for part in PARTS:
            self.assertEqual([{key: value for key, value in entry.items() if key != "history"} for entry in profile[part]], document[part])
            key = {"compute": "pass_ms", "contention": "slowdown"}.get(part)
            for entry in profile[part]:
                self.assertEqual([each[key] for each in entry["history"]] if key else entry.get("history"), [entry[key]] if key else None)
        self.assertEqual([(entry["network"], entry["dataset"], entry["batch"]) for entry in profile["compute"]],
                         [("lenet", "fashion-mnist", 2), ("lenet", "fashion-mnist", 8), ("gpt[heads=2,hidden=32,layers=1]", "language", 2), ("gpt[heads=2,hidden=32,layers=1]", "language", 8)])
        for entry in profile["compute"]:
            self.assertEqual((entry["device"], entry["threads"], entry["precision"], entry["kernels"], entry["clock"]), ("cpu", 1, "fp32", "fast", "core"))
            self.assertGreaterEqual(entry["passes"], 5)
            for direction, parts in (("forward_ms", ["forward_us"]), ("backward_ms", ["backward_input_us", "backward_weight_us"])):
                summed = sum(row["count"] * (row[part] or 0) for row in entry["layers"] for part in parts)
                self.assertAlmostEqual(summed / 1e3, entry[direction], delta=1e-3 * entry[direction])
            # The parts of a pass are the pass, and the pass is the product's own step.
            whole = entry["forward_ms"] + entry["backward_ms"] + (entry["copy_us"] + entry["update_us"]) / 1e3
            self.assertAlmostEqual(whole / entry["pass_ms"], 1, delta=0.05)
            self.assertTrue(0.5 < entry["correction"] < 2, entry["correction"])
            self.assertGreater(entry["step"]["wall_ms"], 0)
        lenet = {row["sort"]: row for row in profile["compute"][0]["layers"]}
        first = lenet["conv2d[kernel=5x5,padding=2x2] (1x28x28) -> 6x28x28 own 6x1x5x5 own 6"]
        self.assertIsNone(first["backward_input_us"], "nobody wants the gradient of an image")
        self.assertGreater(first["backward_weight_us"], 0)
        second = lenet["conv2d[kernel=5x5] (6x14x14 learning) -> 16x10x10 own 16x6x5x5 own 16"]
        self.assertGreater(second["backward_input_us"], 0)
        self.assertGreater(second["backward_weight_us"], 0)
        self.assertIn("loss (10)", lenet)
        self.assertEqual({entry["optimizer"] for entry in profile["optimizer"]}, {"sgd", "adam"})
        self.assertEqual({entry["what"] for entry in profile["memory"]}, {"triad", "copy"})
        self.assertEqual({entry["compression"] for entry in profile["compression"]}, {"fp16", "bf16", "int8", "top-k", "random-k", "power-sgd"})
        for entry in profile["compression"]:
            self.assertGreater(entry["call_us"], 0)
            self.assertTrue(0 <= entry["own_us"] <= entry["call_us"], entry)
        self.assertGreater(profile["launch"][0]["forward_us"], 0)
        self.assertGreater(profile["launch"][0]["harness_us"], 0)
        self.assertGreater(profile["launch"][0]["emulated_us"], 0)
        self.assertGreater(profile["launch"][0]["emulated_step_ms"], 10)
        if len(os.sched_getaffinity(0)) > 1:
            self.assertEqual({entry["what"] for entry in profile["contention"]}, {"workers", "steps", "collective"})
            self.assertEqual({entry.get("transport") for entry in profile["contention"]}, {None, "shm", "tcp"})
            for entry in profile["contention"]:
                # Ratios, whatever else runs here; what makes one of times is held by company_figures_test.cpp.
                self.assertTrue(0.2 < entry["slowdown"] < 10, entry)
                self.assertEqual("collective_slowdown" in entry, entry["what"] == "collective")
                # Of steps in training, and beside it of workers that only compute at once: two measurements, which are never just the same.
                self.assertEqual("without_exchange" in entry, entry["what"] == "steps")
                self.assertNotEqual(entry.get("without_exchange"), entry["slowdown"])
                self.assertTrue(0.1 < entry.get("collective_slowdown", 1) < 20, entry)
            cores = document["environment"]["cpu"]["usable_cores"]
            self.assertEqual({entry["workers"] for entry in profile["jitter"]}, {2**doublings for doublings in range(cores.bit_length())})
            for entry in profile["jitter"]:
                self.assertLessEqual(entry["median_ms"], entry["p95_ms"])
                self.assertLessEqual(entry["p95_ms"], entry["p99_ms"])
                self.assertEqual(entry["correlation"] is None, entry["workers"] == 1)
                self.assertTrue(entry["brief"] is None or (0 <= entry["brief"] <= 1 and entry["workers"] > 1), entry)
        # What consumers read of it.
        known = [entry for entry in profile["compute"] if entry["network"] == "lenet"]
        correction = statistics.median(entry["correction"] for entry in known)
        for entry in known:
            dumped = self.dump("lenet", "fashion-mnist", entry["batch"])
            self.assertAlmostEqual(dumped["forward_ms"], entry["forward_ms"] * correction, delta=1e-3 * dumped["forward_ms"])
            self.assertAlmostEqual(dumped["backward_input_ms"] + dumped["backward_weight_ms"], entry["backward_ms"] * correction, delta=1e-3 * entry["backward_ms"] * correction)
            self.assertEqual((dumped["fitted"], dumped["extrapolated"]), (0, 0))
        between = self.dump("lenet", "fashion-mnist", 5)
        low, high = sorted(entry["forward_ms"] * correction for entry in known)
        self.assertAlmostEqual(between["forward_ms"], (low + high) / 2, delta=1e-3 * high)
        beyond = self.dump("lenet", "fashion-mnist", 64)
        self.assertAlmostEqual(beyond["extrapolated"], 1)
        self.assertGreater(beyond["uncertainty"], between["uncertainty"])
        # Layers of other shapes are priced by their families; families that were not measured are asked for.
        self.assertEqual(self.dump("gpt[hidden=48,layers=2,heads=2]", "language", 8)["extrapolated"], 0)
        self.assertGreater(self.dump("gpt[hidden=48,layers=2,heads=2]", "language", 8)["fitted"], 0.5)
        self.assertIn("run ddlbench probe compute --model resnet18", self.dump("resnet18", "cifar10", 8, code=1))
        self.assertIn("--precision bf16", self.dump("lenet", "fashion-mnist", 8, "bf16", code=1))

    def test_later_measurements_take_earlier_ones_places_and_all_else_is_kept(self):
        # As an older version wrote it, and with what somebody added.
        self.document("--model", "mlp[hidden=16]", "--batch", "2", *TINY)
        profile = self.profile()
        first = profile["compute"][0]["measured"]
        for part in PARTS:
            del profile[part]
        profile["notes"] = "kept"
        profile["communication"] = [{"transport": "tcp", "ranks": 2, "memory": "own", "measured": first, "rounds": [], "one_shot": [], "best": []}]
        self.machine.write_text(json.dumps(profile))
        self.document("--model", "mlp[hidden=16]", "--batch", "2,4", *TINY)
        self.document("--model", "mlp[hidden=16]", "--batch", "4", "--precision", "bf16", "--optimizer", "adam", *TINY)
        before = self.profile()
        self.assertEqual((before["notes"], len(before["communication"])), ("kept", 1))
        self.assertEqual([(entry["batch"], entry["precision"]) for entry in before["compute"]], [(2, "fp32"), (4, "fp32"), (4, "bf16")])
        self.document("--model", "mlp[hidden=16]", "--batch", "2,4", *TINY)
        after = self.profile()
        for part in PARTS:
            self.assertEqual(len(after[part]), len(before[part]), part)
        for number in (0, 1):
            self.assertNotEqual(after["compute"][number]["measured"], before["compute"][number]["measured"])
        self.assertEqual(after["compute"][2], before["compute"][2])
        # That of another machine is not written over, nor is one that cannot be read.
        after["cpu"]["model"] = "Another"
        self.machine.write_text(json.dumps(after))
        self.assertIn("another machine", self.run_it("--model", "mlp[hidden=16]", "--batch", "2", *TINY, code=2).stderr)
        self.assertEqual(self.profile(), after)
        self.machine.write_text("{")
        self.run_it("--model", "mlp[hidden=16]", "--batch", "2", *TINY, code=1)
        self.assertEqual(self.machine.read_text(), "{")

    def test_what_cannot_be_is_refused_before_anything_is_measured(self):
        # No processor computes in tf32.
        self.assertIn("tf32", self.run_it("--model", "mlp[hidden=16]", "--batch", "2", "--precision", "fp32,tf32", *TINY, code=6).stderr)
        self.assertFalse(self.machine.exists())

    def test_a_killed_process_is_named_and_no_profile_is_written(self):
        self.environment["DDLBENCH_TEST_DEATH"] = "0:0:measure"
        document = self.document("--model", "mlp[hidden=16]", "--batch", "2", *TINY, code=1)
        self.assertEqual((document["state"], document["compute"]), ("failed", []))
        self.assertIn("mlp[hidden=16] on fashion-mnist, batch 2, fp32", document["failed"][0]["what"])
        self.assertIn("signal 9", document["failed"][0]["reason"])
        self.assertFalse(self.machine.exists())

    def test_bad_words(self):
        for words, said in ((["--model", "lenett"], "did you mean 'lenet'?"), (["--model", "lenet", "--dataset", "language"], "none of the data sets"), (["--model", "lenet[x=1]"], "x"),
                            (["--batch", "0"], "--batch"), (["--precision", "fp23"], "--precision"), (["--optimizer", "sgdd"], "sgd"), (["--threads", "0"], "--threads"),
                            (["--kernels", "slow"], "--kernels"), (["--budget", "12"], "--budget"), (["--dataset", "cifar10"], "--dataset")):
            with self.subTest(words=words):
                done = self.run_it(*words, code=2)
                self.assertEqual(done.stdout, "")
                self.assertIn(said, done.stderr)
        self.assertFalse(self.machine.exists())

    def test_an_interrupt_ends_it_and_writes_no_profile(self):
        process = subprocess.Popen([BINARY, "probe", "compute", "--json", "--model", "smallcnn", "--budget", "3s"], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=self.environment)
        self.addCleanup(process.kill)
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, errors)
        self.assertEqual(json.loads(output)["state"], "interrupted")
        self.assertFalse(self.machine.exists())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
