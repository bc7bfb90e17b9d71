"""End to end through the binary: predictions that are made before runs, and of studies that are not run.

usage: predictions_test.py PATH-OF-DDLBENCH [unittest arguments]
"""
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import unittest

import probe_case

BINARY = pathlib.Path(sys.argv[1]).resolve()
ROOT = pathlib.Path(__file__).resolve().parent.parent
PARTS = {"step_ms", "low", "high", "error_pct", "measured_ms", "engine", "machine", "ledger_ms", "memory_bytes", "links", "waited", "beyond", "reason"}
QUICK = "run --model mlp[hidden=64] --dataset fashion-mnist --synthetic --train-samples 256 --test-samples 16 --no-evaluate --batch 16 --store none".split()
TWO_CORES = len(os.sched_getaffinity(0)) > 1


class Case(probe_case.Case):
    command = [BINARY]
    calibrated = {}  # profiles by the words that they were measured with

    def calibrate(self, *words):
        """This machine's profile, measured once for all tests."""
        self.assertFalse(self.machine.exists(), "what is kept for others has nothing else in it")
        if words not in self.calibrated:
            self.measure(*words)
            self.calibrated[words] = self.machine.read_text()
        self.machine.parent.mkdir(exist_ok=True)
        self.machine.write_text(self.calibrated[words])

    def measure(self, *words):
        self.run_it("probe", "compute", "--model", "mlp[hidden=64]", "--batch", "8,16", "--budget", "50ms", *words)
        self.run_it("probe", "comm", "--transport", "shm", "--ranks", 2, "--sizes", "64B,4KiB,256KiB", "--budget", "2ms")

    def prediction(self, *words):
        record = self.document(*QUICK, *words)
        self.assertEqual(record["state"], "ok")
        self.assertEqual(set(record["prediction"]), PARTS)
        return record["prediction"], record

    def refused(self, reason, *words):
        """The run goes on, and its record says why nothing was predicted."""
        prediction, _ = self.prediction(*words)
        self.assertIn(reason, prediction["reason"])
        self.assertEqual({part for part in PARTS if prediction[part] is not None}, {"reason"})


class Runs(Case):
    def test_without_a_profile_the_reason_says_what_measures_one(self):
        self.refused("ddlbench probe compute", "--steps", 6)

    def test_steps_of_other_subjects_are_not_predicted(self):
        record = self.document("run", "--model", "lenet", *QUICK[3:], "--steps", 6, "--subject", "torch-ddp")
        self.assertEqual((record["state"], record["prediction"]["step_ms"]), ("ok", None), record["reason"])
        self.assertIn("only ddlbench's own steps are predicted, not torch-ddp's", record["prediction"]["reason"])

    def test_a_profile_that_is_of_no_use_ends_no_run(self):
        self.machine.parent.mkdir()
        self.machine.write_text("{")
        self.refused(str(self.machine), "--steps", 6)
        self.machine.write_text(json.dumps({"schema": "ddlbench.machine/1", "cpu": {"model": "Another", "usable_cores": 2}, "communication": [], "compute": [{}]}))
        self.refused("another machine", "--steps", 6)

    def test_one_worker_is_predicted_before_and_judged_after(self):
        self.calibrate()
        prediction, record = self.prediction("--steps", 200)
        self.assertIsNone(prediction["reason"])
        self.assertEqual(prediction["machine"], str(self.machine))
        self.assertLess(prediction["low"], prediction["step_ms"])
        self.assertLess(prediction["step_ms"], prediction["high"])
        self.assertAlmostEqual(sum(prediction["ledger_ms"].values()), prediction["step_ms"], delta=0.01 * prediction["step_ms"])
        self.assertGreater(prediction["memory_bytes"], 64 * 784 * 4)
        measured = record["step_ms"]["samples"][record["samples"]["warmup_steps"]:]
        self.assertAlmostEqual(prediction["measured_ms"], statistics.median(measured), delta=2e-3)
        self.assertAlmostEqual(prediction["error_pct"], 100 * (prediction["step_ms"] / prediction["measured_ms"] - 1), places=6)
        # Wide: this machine may be busy with anything.
        self.assertLess(abs(prediction["error_pct"]), 80)
        done = self.run_it(*QUICK, "--steps", 20)
        self.assertRegex(done.stderr, r"predicted [\d.,]+ ms \([\d.,]+ to [\d.,]+\), measured [\d.,]+ ms: [+-]\d+\.\d %")
        self.assertRegex(done.stderr, r"predicted +peak memory")

    @unittest.skipUnless(TWO_CORES, "two workers need two cores")
    def test_two_workers_rounds_and_what_was_not_measured(self):
        self.calibrate()
        prediction, _ = self.prediction("--steps", 40, "--workers", 2)
        self.assertEqual(prediction["engine"], "simulated")
        self.assertGreater(prediction["error_pct"], -90)
        # One step of four has the averages: the median over rounds, not over steps.
        prediction, record = self.prediction("--steps", 43, "--workers", 2, "--strategy", "local[every=4]")
        measured = record["step_ms"]["samples"][record["samples"]["warmup_steps"]:]
        rounds = [statistics.mean(measured[first:first + 4]) for first in range(0, len(measured) - 3, 4)]
        self.assertAlmostEqual(prediction["measured_ms"], statistics.median(rounds), delta=2e-3)
        self.refused("probe comm --transport tcp", "--steps", 6, "--workers", 2, "--transport", "tcp")
        self.refused("--precision bf16", "--steps", 6, "--precision", "bf16")
        self.refused("probe compute --compression top-k[ratio=0.3]", "--steps", 6, "--workers", 2, "--strategy", "data[compress=top-k[ratio=0.3]]")
        plain, _ = self.prediction("--steps", 20, "--workers", 2)
        prediction, record = self.prediction("--steps", 20, "--workers", 2, "--strategy", "data[compress=power-sgd]")
        self.assertGreater(prediction["step_ms"], plain["step_ms"], "over shared memory nothing pays")
        self.assertGreater(prediction["memory_bytes"], plain["memory_bytes"], "what was not sent is kept")

    def test_of_sizes_of_buckets_that_a_run_tries_the_fastest_is_predicted(self):
        words = "predict --model vgg11 --dataset cifar10 --synthetic --batch 64 --workers 8 --devices-per-node 2 --machine v100-16gb".split()
        point = lambda strategy: self.document(*words, "--strategy", strategy)["points"][0]
        found = point("data[bucket=auto]")
        tried = {size: point(f"data[bucket={size}B]") for size in (1 << 20, 6 << 20, 25 << 20, found["bucket_bytes"])}
        self.assertEqual((found["step_ms"], found["bucket_overlap"]), (tried[found["bucket_bytes"]]["step_ms"], True))
        self.assertEqual(len({one["step_ms"]["value"] for one in tried.values()}), len(tried), "sizes make a difference")
        tried["after backward"] = point("data[overlap=off]")
        for way, one in tried.items():
            self.assertLessEqual(found["step_ms"]["value"], one["step_ms"]["value"] / (1 if way == 25 << 20 else 0.99), way)
            self.assertEqual((one["bucket_bytes"], one["bucket_overlap"]), (None, None))
        self.assertIs(point("data[bucket=auto,overlap=off]")["bucket_overlap"], False)
        self.assertIsNone(self.document(*[word if word != "8" else "1" for word in words], "--strategy", "data[bucket=auto]")["points"][0]["bucket_bytes"], "one alone exchanges nothing")
        self.assertRegex(self.run_it(*words, "--strategy", "data[bucket=auto]").stderr, "8 workers: bucket=auto is predicted to take .*iB, (during|after) backward")
        self.assertIn("got bucket=auto with compress=fp16, expected a size", self.run_it(*words, "--strategy", "data[bucket=auto,compress=fp16]", code=2).stderr, "as by a run")

    def test_memory_is_that_of_the_machine_that_was_measured(self):
        self.calibrate()
        predict = [word for word in QUICK[1:] if word not in ("--store", "none")]
        profile = json.loads(self.machine.read_text())
        total = int(next(line.split()[1] for line in pathlib.Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))) * 1024
        self.assertTrue(0 < profile["device"]["memory_bytes"] <= total, profile["device"])
        there = self.document("predict", *predict, "--workers", 2)["points"][0]
        self.assertEqual((there["fits"], there["beyond"]), (True, []))
        # Workers of a host share what it has: that is enough for one and a half.
        profile["device"]["memory_bytes"] = int(1.5 * there["memory_total_bytes"])
        self.machine.write_text(json.dumps(profile))
        self.assertFalse(self.document("predict", *predict, "--workers", 2)["points"][0]["fits"])
        self.assertTrue(self.document("predict", *predict, "--workers", 2, "--devices-per-node", 1)["points"][0]["fits"])
        self.assertIn("), more than there is", self.run_it("predict", *predict, "--workers", 2).stdout)
        # Just enough for what is planned is not enough for what it may come to.
        for share, surely in ((1.02, False), (1.2, True)):
            profile["device"]["memory_bytes"] = int(2 * share * there["memory_total_bytes"])
            self.machine.write_text(json.dumps(profile))
            point = self.document("predict", *predict, "--workers", 2)["points"][0]
            self.assertEqual((point["fits"], point["fits_surely"]), (True, surely))
            self.assertTrue(point["memory_interval_bytes"]["low"] < point["memory_total_bytes"] < point["memory_interval_bytes"]["high"], point)
            self.assertEqual("), maybe more than there is" in self.run_it("predict", *predict, "--workers", 2).stdout, not surely)
        # Of older profiles nobody knows.
        del profile["device"]
        self.machine.write_text(json.dumps(profile))
        point = self.document("predict", *predict, "--workers", 2)["points"][0]
        self.assertTrue(point["fits"])
        self.assertIn("the profile does not say how much memory there is", " ".join(point["beyond"]))

    def test_profiles_of_a_machine_are_merged(self):
        both = self.folder / "both.json"
        for part, words in {"compute": ["compute", "--model", "mlp[hidden=64]", "--batch", "8,16", "--budget", "50ms"], "comm": ["comm", "--transport", "shm", "--ranks", 2, "--sizes", "64B,4KiB,256KiB", "--budget", "2ms"]}.items():
            self.run_it("probe", *words, "--machine", f"{part}.json")
        done = self.document("probe", "merge", "compute.json", "comm.json", "--machine", both)
        profile = json.loads(both.read_text())
        self.assertEqual(profile, done["profile"])
        self.assertEqual((done["files"][0]["entries"], done["files"][1]["entries"] > 0), (0, True), "it began with the first")
        self.assertEqual(len(profile["compute"]), 2)
        self.assertTrue(profile["communication"])
        # What needs both is told of both.
        words = [word for word in QUICK[1:] if word not in ("--store", "none")]
        self.assertIn("was not measured", self.run_it("predict", *words, "--workers", 2, "--machine", "compute.json", code=2).stderr)
        self.assertIn("step_ms", self.document("predict", *words, "--workers", 2, "--machine", both)["points"][0])
        # Of the same the later stays, whichever is given last.
        earlier = json.loads(pathlib.Path(self.folder, "compute.json").read_text())
        for entry in earlier["compute"]:
            entry["measured"], entry["pass_ms"] = "2020-01-01T00:00:00.000Z", 99
        pathlib.Path(self.folder, "earlier.json").write_text(json.dumps(earlier))
        self.run_it("probe", "merge", "earlier.json", "--machine", both)
        self.assertNotIn(99, [entry["pass_ms"] for entry in json.loads(both.read_text())["compute"]])
        other = {**earlier, "cpu": {"model": "Another", "usable_cores": 2}}
        pathlib.Path(self.folder, "other.json").write_text(json.dumps(other))
        refused = self.run_it("probe", "merge", "other.json", "--machine", both, code=2)
        self.assertIn("other.json", refused.stderr)
        self.assertIn("Another", refused.stderr)

    @unittest.skipUnless(TWO_CORES, "two workers need two cores")
    def test_stages_that_are_cut_by_time_move_what_is_predicted(self):
        self.calibrate()
        prediction, record = self.prediction("--steps", 8, "--workers", 2, "--strategy", "pipeline[micro=4]")
        # As predicted, and not measured anew.
        self.assertEqual(record["measured_layers"]["from"], str(self.machine))
        self.assertEqual((record["measured_layers"]["sorts"], record["measured_layers"]["took_s"]), (0, 0))
        # Told where, both do the same.
        cut = "/".join(str(stage["layers"]) for stage in record["stages"])
        counted = []
        for steps in (20, 28):
            told, run = self.prediction("--steps", steps, "--workers", 2, "--strategy", f"pipeline[micro=4,stages={cut}]")
            counted.append([(rank["bytes_sent"], rank["bytes_received"]) for rank in run["ranks"]])
        self.assertEqual(told["links"]["pairs"], prediction["links"]["pairs"])
        for rank, ((sent, _), (all_sent, _)) in enumerate(zip(*counted)):
            self.assertEqual(sum(pair["bytes"] for pair in prediction["links"]["pairs"] if pair["from"] == rank), (all_sent - sent) / 8)

    @unittest.skipUnless(TWO_CORES, "two workers need two cores")
    def test_bytes_of_links_are_those_that_a_run_counts(self):
        self.calibrate("--precision", "fp32,bf16")
        self.run_it("probe", "comm", "--transport", "inproc", "--ranks", 2, "--sizes", "64B,4KiB,256KiB", "--budget", "2ms")
        narrow = ("--precision", "bf16")
        for strategy, workers, *more in (("data", 2), ("data[bucket=100KiB,first-bucket=10KiB]", 3, "--collective", "ring"), ("sharded[level=2]", 2), ("local[every=4]", 2), ("sharded[level=3]", 2), ("sharded[level=3]", 3), ("tensor", 2),
                                         ("hybrid[data=2,tensor=2]", 4), ("hybrid[data=2,pipeline=2,micro=2]", 4), ("data[compress=fp16]", 2), ("data[compress=int8]", 3), ("data[compress=top-k]", 2), ("data[compress=power-sgd]", 2),
                                         ("parameter-server[servers=1]", 2), ("data", 2, *narrow), ("tensor", 2, *narrow), ("pipeline[micro=2,stages=2/4]", 2, *narrow), ("hybrid[data=2,tensor=2]", 4, *narrow),
                                         ("hybrid[data=2,pipeline=2,micro=2]", 4, *narrow), ("data[in-process=parallel]", 2, *narrow), ("data[in-process=parallel]", 2)):
            words = ["--workers", workers, "--strategy", strategy, *more]
            counted = []
            # Both end one epoch of 16 steps and then the run: what is gathered there, for the digest of parameters that lie in parts, is no step's.
            for steps in (20, 28):
                prediction, record = self.prediction("--steps", steps, *words)
                self.assertIsNone(prediction["reason"])
                counted.append([(rank["bytes_sent"], rank["bytes_received"]) for rank in record["ranks"]])
            pairs = prediction["links"]["pairs"]
            # Not in it: words that go before messages of servers.
            words_before = 128 if strategy.startswith("parameter-server") else 0
            self.assertAlmostEqual(sum(pair["bytes"] for pair in pairs), sum(all_sent - sent for (sent, _), (all_sent, _) in zip(*counted)) / 8, delta=words_before, msg=strategy)
            for rank, ((sent, received), (all_sent, all_received)) in enumerate(zip(*counted)):
                # Of what three do not divide some ranks have an element more; of which buckets depends on the order in which backward was through, which a run takes from its first step.
                self.assertAlmostEqual(sum(pair["bytes"] for pair in pairs if pair["from"] == rank), (all_sent - sent) / 8, delta=64 + words_before, msg=(strategy, rank))
                self.assertAlmostEqual(sum(pair["bytes"] for pair in pairs if pair["to"] == rank), (all_received - received) / 8, delta=64 + words_before, msg=(strategy, rank))
            links = prediction["links"]["links"]
            self.assertEqual([link["link"] for link in links], ["inside host 0"])
            self.assertEqual(links[0]["sent_bytes"], sum(pair["bytes"] for pair in pairs))
            self.assertEqual(prediction["links"]["busiest"], links[0])
            self.assertAlmostEqual(links[0]["full"], links[0]["busiest_bytes"] / links[0]["bytes_per_s"] / prediction["step_ms"] * 1e3, places=9)
            predict = [word for word in QUICK[1:] if word not in ("--store", "none")]
            point = self.document("predict", *predict, *words)["points"][0]
            self.assertEqual(point["links"]["pairs"], pairs)
            self.assertRegex(self.run_it("predict", *predict, *words).stderr, r"busiest link: inside host 0, .* a step the busier way, \d+ % full")

    @unittest.skipIf(probe_case.no_fabric(), probe_case.no_fabric())
    def test_bytes_of_hosts_wires_are_those_of_ranks_that_they_join(self):
        """Over a test network, by an algorithm that knows of hosts and by one that does not."""
        self.calibrate()
        self.run_it("probe", "comm", "--transport", "tcp", "--ranks", "2,4", "--sizes", "64B,4KiB,256KiB", "--budget", "2ms")
        crossing = {}
        for collective in ("hierarchical", "ring"):
            counted = []
            for steps in (20, 28):
                prediction, record = self.prediction("--steps", steps, "--workers", 4, "--transport", "tcp", "--fabric", "hosts=2,bandwidth=1Gbps", "--collective", collective)
                self.assertIsNone(prediction["reason"])
                counted.append([(rank["bytes_sent"], rank["bytes_received"]) for rank in record["ranks"]])
            pairs = prediction["links"]["pairs"]
            for rank, ((sent, received), (all_sent, all_received)) in enumerate(zip(*counted)):
                self.assertAlmostEqual(sum(pair["bytes"] for pair in pairs if pair["from"] == rank), (all_sent - sent) / 8, delta=64, msg=(collective, rank))
                self.assertAlmostEqual(sum(pair["bytes"] for pair in pairs if pair["to"] == rank), (all_received - received) / 8, delta=64, msg=(collective, rank))
            links = {link["link"]: link for link in prediction["links"]["links"]}
            self.assertEqual(set(links), {"inside host 0", "inside host 1", "wires of host 0", "wires of host 1"})
            for host in (0, 1):
                here = {2 * host, 2 * host + 1}
                leaves, comes, stays = (sum(pair["bytes"] for pair in pairs if (pair["from"] in here, pair["to"] in here) == way) for way in ((True, False), (False, True), (True, True)))
                wires = links[f"wires of host {host}"]
                self.assertEqual((wires["sent_bytes"], wires["received_bytes"], wires["busiest_bytes"], links[f"inside host {host}"]["sent_bytes"]), (leaves, comes, max(leaves, comes), stays))
            crossing[collective] = links["wires of host 0"]["sent_bytes"]
        # Between hosts one rank's gradients, in place of the ring's 3/2 of them.
        self.assertAlmostEqual(crossing["ring"] / crossing["hierarchical"], 1.5, delta=0.01)

    def test_a_profile_that_was_measured_beside_other_work_widens_intervals_and_says_so(self):
        self.calibrate()
        widths = []
        for waited in (0, 0.3):
            profile = json.loads(self.machine.read_text())
            for entry in profile["compute"]:
                entry["waited"] = waited
            self.machine.write_text(json.dumps(profile))
            prediction, _ = self.prediction("--steps", 6)
            self.assertEqual(prediction["waited"], waited)
            widths.append(prediction["high"] / prediction["low"])
        self.assertGreater(widths[1], widths[0])
        self.assertIn("others had the cores 30 % of the time", self.run_it(*QUICK, "--steps", 6).stderr)
        predict = [word for word in QUICK[1:] if word not in ("--store", "none")]
        self.assertIn("others had the cores 30 % of the time", self.run_it("predict", *predict).stderr)

    def test_a_loader_that_was_found_at_another_pace_widens_intervals_of_steps_that_wait_for_it(self):
        self.calibrate()
        profile = json.loads(self.machine.read_text())
        predict = [word for word in QUICK[1:] if word not in ("--store", "none")]

        def step(*loaders):
            """With batches that took so many times as long in as many measurements as a step without."""
            entries = []
            for number, times in enumerate(loaders):
                entries += [entry | {"loader_us": entry["pass_ms"] * 1e3 * times, "step": entry["step"] | {"wall_ms": 0}} | ({"network": "lenet"} if number else {}) for entry in profile["compute"]]
            self.machine.write_text(json.dumps(profile | {"compute": entries}))
            return self.document("predict", *predict)["points"][0]["step_ms"]

        wide = lambda step: step["high"] / step["low"]
        ready, ready_apart = step(0.1, 0.1), step(0.05, 0.2)
        self.assertAlmostEqual(wide(ready_apart), wide(ready), delta=0.05 * wide(ready), msg="nobody waits for it")
        # A step has more than its pass: loaders that take several times as long as both.
        waits, apart = step(6, 6), step(3, 12)
        self.assertGreater(waits["value"], 2 * ready["value"])
        self.assertGreater(apart["high"] / apart["value"], 1.5 * waits["high"] / waits["value"])
        # The rest of the step is there however fast it is.
        self.assertGreater(apart["low"], 0.9 * ready["low"])
        self.assertLess(apart["low"], 0.8 * waits["low"])
        threads = self.document("predict", *predict, "--loader", 4)["points"][0]
        self.assertIn("a loader of 4 threads was not measured", " ".join(threads["beyond"]))
        # Of one thread it was measured; and of one reader of a storage.
        relative = lambda point: point["step_ms"]["high"] / point["step_ms"]["value"]
        step(24, 24)
        one, four = (self.document("predict", *predict, "--loader", count)["points"][0] for count in (1, 4))
        self.assertGreater(relative(four), 1.05 * relative(one))
        self.assertGreater(wide(step(6)), wide(waits), "of what was measured once nobody knows")

    def test_a_study_keeps_them_and_its_page_has_them(self):
        self.calibrate()
        study = self.folder / "small.yaml"
        study.write_text("study: small\nbase: {dataset: fashion-mnist, synthetic: true, train_samples: 256, test_samples: 16, evaluate: false, batch: 16, steps: 20, store: small.db}\n"
                         "matrix:\n  - [{model: 'mlp[hidden=64]'}, {model: lenet}]\n")
        done = self.run_it("sweep", study, "--report", "small.html")
        self.assertEqual(done.stderr.count("predicted "), 2, done.stderr)  # a heading of the table, a sentence
        page = (self.folder / "small.html").read_text()
        self.assertIn('<section id="prediction"', page)
        document = self.document("sweep", study, "--predict-only", code=4)
        self.assertEqual((document["schema"], document["study"], document["source"]), ("ddlbench.predict/1", "small", "measured"))
        known, unknown = document["points"]
        self.assertEqual((known["case"], unknown["case"]), ("mlp[hidden=64], 1 worker", "lenet, 1 worker"))
        self.assertGreater(known["step_ms"]["value"], 0)
        self.assertIn("probe compute --model lenet", unknown["reason"])
        self.assertEqual(set(unknown) - {"reason"}, set(known) - {"reason", "waited", "beyond", "bucket_bytes", "bucket_overlap"}, "the same fields, null")
        self.assertIsNone(unknown["step_ms"])


class Datasheets(Case):
    """Predictions by a datasheet alone: how its devices are joined, what they have room for, and how far from what it was held against they are."""
    RESNET = "predict --model resnet50 --dataset imagenet --synthetic --precision fp32".split()
    SMALL = "--model lenet --dataset fashion-mnist --synthetic".split()

    def point(self, *words):
        return self.document(*words)["points"][0]

    def wide(self, point):
        return point["step_ms"]["high"] / point["step_ms"]["low"]

    def test_a_machine_s_layout_is_told_in_brackets(self):
        at = lambda machine: self.point(*self.RESNET, "--batch", 1024, "--workers", 16, "--machine", machine)
        own, two = at("v100-32gb"), at("v100-32gb[devices_per_node=8]")
        self.assertEqual([link["link"] for link in own["links"]["links"]], ["inside node 0"])
        self.assertGreater(len(two["links"]["links"]), 1)
        self.assertEqual(two, self.point(*self.RESNET, "--batch", 1024, "--workers", 16, "--machine", "v100-32gb", "--devices-per-node", 8))
        self.assertEqual(two["beyond"], [])
        thin = at("v100-32gb[devices_per_node=8,link_inter=1Gbps]")
        self.assertGreater(thin["step_ms"]["value"], 2 * two["step_ms"]["value"], "51 MB of gradients over 1 Gb/s")
        self.assertRegex(" ".join(thin["beyond"]), r"wires between nodes, of each device: 0\.01562 GB/s, not the 6\.25 of the profile of v100-32gb: the interval is wider for it")
        self.assertGreater(self.wide(thin), self.wide(two))
        self.assertEqual(at("v100-32gb[nodes=2,devices_per_node=8]")["step_ms"], two["step_ms"])
        refused = self.run_it(*self.RESNET, "--batch", 1024, "--workers", 16, "--machine", "v100-32gb[nodes=1,devices_per_node=8]", code=2)
        self.assertIn("got 16 workers, expected at most 8 (1 nodes of 8)", refused.stderr)
        self.assertIn("expected one of: nodes devices_per_node link_intra link_inter", self.run_it(*self.RESNET, "--batch", 64, "--machine", "v100-32gb[wires=2]", code=2).stderr)

    def test_workers_of_a_gpu_s_datasheet_are_such_gpus_whatever_computes_here(self):
        words = [*self.RESNET[:-1], "bf16", "--batch", 64, "--machine", "h100-80gb", "--workers"]
        here, there = self.point(*words, 2), self.point(*words, "cuda:2")
        self.assertEqual(here, there)
        # Their kernels keep more than ours of a processor, which put batch norm and what follows into one.
        on_processor = self.point(*words[:-3], "--machine", "cpu-amx", "--workers", 2)
        self.assertGreater(here["memory_bytes"]["activations"], 1.04 * on_processor["memory_bytes"]["activations"])
        advised = self.document("advise", *words[1:], 2, "--strategy", "data", "--budget", "2s")["points"]
        self.assertIn(here["memory_total_bytes"], [point["memory_total_bytes"] for point in advised])

    def test_no_link_is_fuller_than_the_step_is_long(self):
        # Workers of one role that lie unlike: on and off their server's node, groups that straddle a node.
        for strategy, workers, machines in (("parameter-server", 6, ("v100-16gb[devices_per_node={}]", 1, 2, 3, 5, 6)), ("parameter-server[servers=2]", 6, ("v100-16gb[devices_per_node={}]", 2, 3)), ("hybrid[data=2,tensor=3]", 6, ("a100-80gb[devices_per_node={}]", 4)),
                                            ("hybrid[data=2,level=1,sharded=2]", 4, ("v100-16gb[devices_per_node={}]", 3)), ("hybrid[data=2,sharded=3]", 6, ("k80[devices_per_node={}]", 4)), ("data", 6, ("k80[devices_per_node={}]", 4)),
                                            ("hybrid[data=3,pipeline=2,micro=4]", 6, ("v100-16gb[devices_per_node={}]", 2, 4)), ("pipeline[micro=4]", 6, ("v100-16gb[devices_per_node={}]", 4))):
            for per_node in machines[1:]:
                machine = machines[0].format(per_node)
                with self.subTest(strategy=strategy, machine=machine):
                    thin, thinner = (self.point(*self.RESNET, "--batch", 96, "--workers", workers, "--strategy", strategy, "--machine", f"{machine[:-1]},link_inter={wires}]") for wires in ("10Gbps", "1Gbps"))
                    closed = self.point(*self.RESNET, "--batch", 96, "--workers", workers, "--strategy", strategy, "--machine", f"{machine[:-1]},link_inter=1Gbps]", "--engine", "closed")
                    for point in (thin, thinner, closed):
                        self.assertLess(point["links"]["busiest"]["full"], 1.001)
                    if per_node < workers:
                        self.assertGreater(thinner["step_ms"]["value"], 2 * thin["step_ms"]["value"], "wires of a tenth")
        # A layout is the same however it is told, and a message has no less than a device's part of the wires.
        words = [*self.RESNET, "--batch", 96, "--workers", 4, "--strategy", "pipeline[micro=4]", "--machine"]
        self.assertEqual(self.point(*words, "v100-32gb[devices_per_node=1]")["step_ms"], self.point(*words, "v100-32gb", "--devices-per-node", 1)["step_ms"])
        self.assertEqual(self.point(*words, "v100-32gb[devices_per_node=1]")["step_ms"], self.point(*words, "v100-32gb[devices_per_node=1,link_inter=50Gbps]")["step_ms"])
        # Of unlike workers both engines know where they are; and a server's messages are one after the other whoever stands for whom.
        words = [*self.RESNET, "--batch", 96, "--strategy", "parameter-server", "--machine", "v100-16gb[devices_per_node=2,link_inter=1Gbps]", "--workers"]
        unlike = [self.point(*words, "emulated:k80,emulated:v100-16gb:5", "--engine", engine) for engine in ("simulated", "closed")]
        for point in unlike:
            self.assertLess(point["links"]["busiest"]["full"], 1.001, point["engine"])
        self.assertAlmostEqual(unlike[0]["step_ms"]["value"] / self.point(*words, 6)["step_ms"]["value"], 1, delta=0.15)
        wide = [*self.RESNET, "--batch", 96, "--workers", 16, "--strategy", "parameter-server[servers=4]", "--machine", "v100-16gb[devices_per_node=4,link_inter=4x100Gbps]", "--engine"]
        simulated, closed = (self.point(*wide, engine)["step_ms"]["value"] for engine in ("simulated", "closed"))
        self.assertAlmostEqual(simulated / closed, 1, delta=0.3)
        self.assertIn("no closed form of unlike workers", self.run_it(*self.RESNET, "--batch", 96, "--workers", 6, "--strategy", "parameter-server[async]", "--machine", "v100-16gb[devices_per_node=5]", "--engine", "closed", code=2).stderr)
        # Who steps by himself is as fast as his own way to the server: nobody knows how full wires are in a step of all.
        busiest = self.point(*self.RESNET, "--batch", 96, "--workers", 6, "--strategy", "parameter-server[async]", "--machine", "v100-16gb[devices_per_node=2,link_inter=1Gbps]")["links"]["busiest"]
        self.assertEqual((busiest["bytes_per_s"], busiest["full"]), (None, None))

    def test_a_layout_is_of_advice_and_of_tables_too(self):
        best = lambda machine: self.document("advise", "--model", "vgg11", "--dataset", "cifar10", "--synthetic", "--batch", 512, "--workers", 8, "--precision", "fp16", "--machine", machine, "--budget", "2s")["points"][0]
        self.assertLess(best("v100-32gb")["step_ms"]["value"], best("v100-32gb[devices_per_node=1,link_inter=1Gbps]")["step_ms"]["value"])
        rows = lambda machine: self.document("validate", "megatron-sc21", "--machine", machine)["rows"]
        for fast, slow in zip(rows("a100-80gb"), rows("a100-80gb[link_inter=10Gbps]")):
            self.assertLess(fast["predicted"], slow["predicted"], "fewer bytes a second, longer steps")
        measured = self.folder / "measured.json"
        measured.write_text(json.dumps({"schema": "ddlbench.machine/1", "cpu": {"model": "a", "usable_cores": 2}, "communication": [], "compute": [{"network": "lenet", "batch": 8, "correction": 1, "step": {"load_ms": 0, "copy_ms": 0}, "loader_us": 1, "layers": []}]}))
        self.assertIn("was measured, and how its workers are joined with it", self.run_it(*self.RESNET, "--batch", 64, "--machine", f"{measured}[nodes=2]", code=6).stderr)

    def test_more_devices_than_any_it_was_held_against_widen_the_interval(self):
        some, many, most = (self.point(*self.RESNET, "--batch", 32 * workers, "--workers", workers, "--machine", "v100-32gb") for workers in (64, 1024, 16384))
        self.assertEqual(some["beyond"], [])
        self.assertIn("1024 devices are more than any whose measured steps this was held against, 64", " ".join(many["beyond"]))
        self.assertLess(self.wide(some), self.wide(many))
        self.assertLess(self.wide(many), self.wide(most))

    def test_what_no_measured_step_had_widens_the_interval(self):
        known = self.point(*self.RESNET, "--batch", 256, "--workers", 8, "--machine", "v100-16gb")
        self.assertEqual(known["beyond"], [])
        for words, told in ((("--batch", 256, "--workers", 8, "--machine", "rtx-3090"), "no measured step of rtx-3090 was held against its profile"),
                            (("--batch", 65536, "--workers", 8, "--machine", "v100-16gb"), "8192 samples in a pass are more than in any measured step that this was held against, 512"),
                            (("--batch", 8, "--workers", 8, "--machine", "v100-16gb"), "1 samples in a pass are fewer than in any measured step that this was held against, 14"),
                            (("--batch", 256, "--workers", 8, "--machine", "v100-16gb", "--strategy", "data[compress=power-sgd]"), "what power-sgd takes on a GPU was not measured"),
                            (("--batch", 256, "--workers", 8, "--machine", "a100-80gb"), "no measured step of a100-80gb in fp32 was held against its profile that was of a network with convolutions"),
                            (("--batch", 256, "--workers", 8, "--machine", "v100-16gb", "--precision", "fp16"), "no measured step of v100-16gb in fp16 was held against its profile that was of a network with convolutions")):
            found = self.point(*(self.RESNET[:-2] if "--precision" in words else self.RESNET), *words)
            self.assertTrue(any(each.startswith(told) for each in found["beyond"]), (told, found["beyond"]))
            self.assertGreater(self.wide(found), self.wide(known), told)
        gpt = self.point("predict", "--model", "gpt[hidden=512,layers=4,heads=16]", "--dataset", "language", "--synthetic", "--batch", 16, "--workers", 16, "--strategy", "tensor", "--machine", "a100-80gb")
        self.assertTrue(any(each.startswith("no measured step had layers split over 16 devices, 8 of which share a node") for each in gpt["beyond"]), gpt["beyond"])

    def test_networks_unlike_those_that_were_held_against_are_told(self):
        shape = ("--synthetic", "--batch", 128, "--workers", 4)
        vgg = ("predict", "--model", "vgg16", "--dataset", "imagenet", *shape)
        known = self.point(*vgg, "--machine", "v100-16gb")
        self.assertEqual(known["beyond"], [])
        for words, told in ((("--model", "captioner", "--dataset", "captions", *shape), "no measured step that this was held against had an LSTM"),
                            (("--model", "mobilenetv2", "--dataset", "imagenet", *shape), "no measured step that this was held against had convolutions in groups"),
                            (("--model", "transformer", "--dataset", "translation", *shape), "no measured step that this was held against had attention to another sequence"),
                            (("--model", "vgg16", "--dataset", "imagenet[size=448]", *shape), "448 pixels on a side of an image are more than any measured step had that this was held against, 299")):
            found = self.point("predict", *words, "--machine", "v100-16gb")
            self.assertTrue(any(each.startswith(told) for each in found["beyond"]), (told, found["beyond"]))
            self.assertGreater(self.wide(found), self.wide(known), told)
        layers = self.point("predict", "--model", "mlp[hidden=4096,layers=8]", "--dataset", "mnist", "--synthetic", "--batch", 64, "--machine", "a100-80gb")
        self.assertIn("no measured step that this was held against was of a network without convolutions and attention", " ".join(layers["beyond"]))
        # LeNet's took .40 ms on an H100 where it was said to take half of that.
        short = self.point("predict", "--model", "lenet", "--dataset", "mnist", "--synthetic", "--batch", 64, "--machine", "h100-80gb")
        self.assertRegex(" ".join(short["beyond"]), r"a step of 0\.[12]\d* ms has no upload of a batch in it, and nobody who waits for its end, which took about 0\.15 ms on an H100")
        self.assertLess(short["step_ms"]["low"], 0.40)
        self.assertGreater(short["step_ms"]["high"], 0.40)
        text = lambda model, dataset="language": self.point("predict", "--model", model, "--dataset", dataset, "--synthetic", "--batch", 8, "--machine", "a100-80gb", "--precision", "bf16")
        usual, narrow, wide, many = (text(*each) for each in (["gpt[hidden=1024,layers=12,heads=8]"], ["gpt[hidden=256,layers=12,heads=8]"], ["gpt[hidden=32768,layers=1,heads=8]"], ["gpt[hidden=1024,layers=12,heads=8]", "language[vocabulary=512000]"]))
        self.assertEqual(usual["beyond"], [])
        for found, told in ((narrow, "256 values of a place are fewer than any measured step had that this was held against, 768"), (wide, "32768 values of a place are more than any measured step had"), (many, "512000 words of a vocabulary are more than any measured step had that this was held against, 256000")):
            self.assertIn(told, " ".join(found["beyond"]))
            self.assertGreater(self.wide(found), self.wide(usual), told)
        long = self.point("predict", "--model", "gpt[hidden=512,layers=2,heads=8]", "--dataset", "language[length=8193]", "--synthetic", "--batch", 1, "--machine", "a100-80gb")
        self.assertIn("8192 places of a sequence are more than any measured step had that this was held against, 4096", " ".join(long["beyond"]))
        split = self.point("predict", "--model", "gpt[hidden=512,layers=2,heads=8]", "--dataset", "language", "--synthetic", "--batch", 16, "--workers", 4, "--strategy", "tensor[split=sequence]", "--machine", "a100-80gb")
        self.assertFalse(any("another sequence" in each for each in split["beyond"]), split["beyond"])
        on_processor = self.point("predict", "--model", "mobilenetv2", "--dataset", "imagenet", "--synthetic", "--batch", 8, "--machine", "cpu-avx512")
        self.assertFalse(any("in groups" in each for each in on_processor["beyond"]), "such a processor was held against it")

    def test_processors_of_other_classes_are_told(self):
        words = ("predict", "--model", "resnet18", "--dataset", "cifar10", "--synthetic", "--batch", 16, "--workers", 2)
        held, other, narrow = (self.point(*words, *more) for more in (("--machine", "cpu-avx512"), ("--machine", "cpu-avx2"), ("--machine", "cpu-amx", "--precision", "bf16")))
        self.assertTrue(any(each.startswith("steps of one core alone, not of a whole cpu-avx512, were held against its profile") for each in held["beyond"]), held["beyond"])
        self.assertTrue(any(each.startswith("no measured step of cpu-avx2 in fp32 was held") for each in other["beyond"]), other["beyond"])
        self.assertTrue(any(each.startswith("no measured step of cpu-amx in bf16 was held") for each in narrow["beyond"]), narrow["beyond"])
        self.assertFalse(any("samples in a pass" in each for each in held["beyond"]), "as many were")

    def test_a_limit_of_memory_is_what_there_is(self):
        words = ("--model", "resnet50", "--dataset", "imagenet", "--synthetic", "--batch", 256, "--workers", 2, "--machine", "v100-16gb")
        self.assertTrue(self.point("predict", *words)["fits"])
        self.assertFalse(self.point("predict", *words, "--memory-limit", "1GB")["fits"])
        told = self.document("advise", *words, "--memory-limit", "9GB", "--budget", "3s")
        self.assertTrue(told["points"])
        for point in told["points"]:
            self.assertTrue(point["memory_total_bytes"] <= 9e9 or not point["fits"], point)

    def test_clipping_reads_all_gradients(self):
        words = ("predict", "--model", "vgg11", "--dataset", "cifar10", "--synthetic", "--batch", 32, "--machine", "v100-16gb")
        plain, clipped = (self.point(*words, *more)["ledger_ms"] for more in ((), ("--clip", 1)))
        self.assertAlmostEqual(clipped["update"] / plain["update"], 6 / 5, delta=0.01, msg="SGD with momentum: five passes, and one more")
        self.assertAlmostEqual(clipped["forward"], plain["forward"], delta=1e-4 * plain["forward"])

    def test_exchanges_at_once_within_a_node(self):
        """Of several devices on one bus each exchange is priced as if alone there; NVLink is each device's own."""
        def told(machine, strategy):
            point = self.document("predict", "--model", "resnet50", "--dataset", "imagenet", "--synthetic", "--batch", 64, "--workers", 4, "--strategy", strategy, "--machine", machine)["points"][0]
            return "messages or collectives of several devices at once within a node have its " in " ".join(point["beyond"])

        self.assertTrue(told("v100", "pipeline"))
        self.assertTrue(told("v100", "hybrid[data=2,sharded=2]"))
        self.assertFalse(told("v100", "data"))
        self.assertFalse(told("a100-80gb", "pipeline"))

    def test_what_is_of_transports_here_says_that_it_is_left_out(self):
        plain = self.point(*self.RESNET, "--batch", 256, "--workers", 4, "--machine", "v100-32gb")
        point = self.point(*self.RESNET, "--batch", 256, "--workers", 4, "--machine", "v100-32gb", "--collective", "ring", "--transport", "tcp", "--fabric", "hosts=2,bandwidth=1Gbps")
        self.assertEqual(point["step_ms"], plain["step_ms"])
        self.assertIn("collectives as nccl does them there: collective=ring is of transports here, and left out", point["beyond"])
        self.assertTrue(any("fabric" in words and "link_inter" in words for words in point["beyond"]), point["beyond"])

    def test_a_datasheet_is_of_whole_devices_of_one_kind(self):
        for workers, machine in (("cpu[threads=2]:2", "cpu-avx512"), ("2", "cpu-avx2")):
            beyond = self.point(*self.RESNET[:-2], "--batch", 256, "--workers", workers, "--machine", machine)["beyond"]
            self.assertTrue(any(f"each worker is taken for a whole {machine}" in words for words in beyond), beyond)
        for workers, machine, words in (("cuda:1,cpu:1", "a100-80gb", "workers of cpu and cuda, expected one kind, or emulated:PROFILE for each"), ("cuda:1", "cpu-avx512", "cpu-avx512 is a processor; got workers of cuda")):
            found = self.run_it(*self.RESNET, "--batch", 256, "--workers", workers, "--machine", machine, code=None)
            self.assertIn(words, found.stderr + found.stdout)

    def test_unlike_workers_wait_for_the_slowest_by_both_engines(self):
        def step(engine, workers, strategy, code=0):
            words = ("predict", *self.SMALL, "--batch", 64, "--workers", workers, "--strategy", strategy, "--machine", "v100-16gb", "--engine", engine)
            return self.document(*words)["points"][0]["step_ms"]["value"] if code == 0 else self.run_it(*words, code=None).stderr

        for strategy in ("data", "sharded[level=3]", "hybrid[data=2,sharded=2,level=1]", "tensor", "local[every=4]", "pipeline", "pipeline[replicas=2/2,micro=8]"):
            for workers in ("emulated:v100-16gb:3,emulated:k80:1", "emulated:k80:1,emulated:v100-16gb:3", "emulated:v100-16gb:2,emulated:v100-16gb[slow=3]:2"):
                closed, simulated = step("closed", workers, strategy), step("simulated", workers, strategy)
                self.assertAlmostEqual(closed / simulated, 1, delta=0.02, msg=f"{strategy} {workers}")
        self.assertIn("no closed form of unlike workers that do not wait for each other", step("closed", "emulated:v100-16gb:3,emulated:k80:1", "parameter-server[async=on]", 6))

    def test_every_profile_that_ships_prices_a_step(self):
        machines = json.loads(self.run_it("list", "machines", "--json").stdout)["items"]
        self.assertLessEqual({"k80", "p40", "p100", "v100-16gb", "v100-32gb", "a100-40gb", "a100-80gb", "h100-80gb", "h200", "gh200", "rtx-3090", "rtx-4090", "cpu-avx2", "cpu-avx512", "cpu-amx"}, {machine["name"] for machine in machines})
        for machine in machines:
            name = machine["name"]
            profile = json.loads((ROOT / "machines" / f"{name}.json").read_text())
            device = profile["device"]
            # What a name promises; drivers say a few percent more or less.
            if size := re.search(r"-(\d+)gb$", name):
                self.assertAlmostEqual(device["memory_bytes"] / 2**30 / int(size[1]), 1, delta=0.08, msg=name)
            self.assertGreater(len(profile["source"]), 20, name)
            one, eight = (self.point(*self.RESNET[:-1], "fp32", "--batch", 32 * workers, "--workers", workers, "--machine", name) for workers in (1, 8))
            self.assertGreater(one["step_ms"]["value"], 0, name)
            # Three times 4.1 thousand million multiplications and additions an image; Winograd's algorithm does with fewer.
            self.assertGreater(one["step_ms"]["value"], 1e3 * 32 * 3 * 2 * 4.1e9 / (1.5 * device["peak_flops"]["fp32"]), name)
            self.assertGreaterEqual(eight["step_ms"]["value"], one["step_ms"]["value"], name)
        path = self.folder / "odd.json"
        profile = json.loads((ROOT / "machines/v100-32gb.json").read_text())
        profile["device"]["efficiency"] = {"compute": [[4, 0.2]], "memory": 0.6, "call_us": 4}
        path.write_text(json.dumps(profile))
        found = self.run_it(*self.RESNET, "--batch", 32, "--workers", 1, "--machine", path, code=None)
        self.assertIn("device.efficiency is of processors", found.stderr + found.stdout)

    def test_the_engine_that_was_used_is_told(self):
        document = self.document(*self.RESNET, "--batch", 256, "--workers", 4, "--machine", "v100-32gb")
        self.assertEqual((document["engine"], document["asked_engine"]), (document["points"][0]["engine"], "auto"))

    def test_a_device_s_driver_takes_memory_of_its_own(self):
        base = self.point(*self.RESNET, "--batch", 64, "--machine", "v100-32gb")
        path = self.folder / "small.json"
        machine = json.loads((ROOT / "machines/v100-32gb.json").read_text())
        for room, fits in ((base["memory_total_bytes"] + 590_000_000, False), (base["memory_total_bytes"] + 610_000_000, True)):
            machine["device"]["memory_bytes"] = room
            path.write_text(json.dumps(machine))
            self.assertEqual(self.point(*self.RESNET, "--batch", 64, "--machine", path)["fits"], fits, room)


class Storage(Case):
    ASKED = "predict --model resnet50 --dataset imagenet --batch 256 --workers 4 --machine v100-16gb".split()

    def test_slow_storage_is_a_wait_for_batches(self):
        free = self.document(*self.ASKED)["points"][0]
        slow = [self.document(*self.ASKED, "--storage-rate", "50MB/s", "--sample-bytes", "100kB", "--sample-time", "1ms", "--loader", 4, "--engine", engine)["points"][0] for engine in ("simulated", "closed")]
        self.assertEqual(free["ledger_ms"]["load"], 0)
        self.assertAlmostEqual(slow[0]["step_ms"]["value"], 256 * 100e3 / 50e6 * 1e3, delta=5)
        self.assertAlmostEqual(slow[1]["step_ms"]["value"] / slow[0]["step_ms"]["value"], 1, delta=0.02)
        self.assertAlmostEqual(slow[0]["ledger_ms"]["load"], slow[0]["step_ms"]["value"] - free["step_ms"]["value"], delta=0.02 * slow[0]["step_ms"]["value"])
        self.assertIn("load", self.run_it(*self.ASKED, "--storage-rate", "50MB/s", "--sample-time", "1ms").stdout)

    def test_more_threads_and_readers_than_were_measured_are_told(self):
        """By a datasheet, and by a profile of which one reader had what storage gives: with a loader beside the steps, and in them."""
        asked = (*self.ASKED, "--storage-rate", "50GB/s", "--sample-bytes", "1kB", "--sample-time", "20ms")
        one, four = (self.document(*asked, "--loader", count)["points"][0] for count in (1, 4))
        self.assertEqual(one["beyond"], [])
        self.assertIn("a loader of 4 threads was not measured", " ".join(four["beyond"]))
        relative = lambda point: point["step_ms"]["high"] / point["step_ms"]["value"]
        self.assertGreater(relative(four), 1.02 * relative(one))
        self.calibrate()
        profile = json.loads(self.machine.read_text())
        self.machine.write_text(json.dumps(profile | {"storage": [{"what": "read", "folder": "/data", "file_bytes": 1 << 24, "bytes_per_s": 1e6, "seconds": 0, "measured": "2026-01-01T00:00:00.000Z"}]}))
        words = ("predict", "--model", "mlp[hidden=64]", "--dataset", "fashion-mnist", "--batch", 32, "--sample-bytes", "785B", "--sample-time", "1us")
        for loader in (0, 1):
            given, found = (self.document(*words, "--workers", 2, "--loader", loader, "--storage-rate", rate)["points"][0] for rate in ("1MB/s", "measured"))
            self.assertNotIn("readers of one storage", " ".join(given["beyond"]))
            self.assertIn("2 readers of one storage were not measured", " ".join(found["beyond"]))
            self.assertGreater(relative(found), 1.01 * relative(given), loader)
        # By as many as were measured, but once.
        given, found = (self.document(*words, "--workers", 1, "--loader", 1, "--storage-rate", rate)["points"][0] for rate in ("1MB/s", "measured"))
        self.assertEqual((found["beyond"], found["step_ms"]["value"]), (given["beyond"], given["step_ms"]["value"]))
        self.assertGreater(relative(found), 1.01 * relative(given))

    def test_what_is_not_known_is_named_with_its_probe(self):
        self.assertIn("probe loader --dataset imagenet", self.run_it(*self.ASKED, "--storage-rate", "50MB/s", code=2).stderr)
        self.assertIn("probe storage", self.run_it(*self.ASKED, "--storage-rate", "measured", "--sample-time", "1ms", code=2).stderr)
        self.assertIn("made up", self.run_it(*self.ASKED, "--synthetic", "--storage-rate", "50MB/s", "--sample-time", "1ms", code=2).stderr)
        self.assertIn("--storage-rate", self.run_it(*self.ASKED, "--storage-rate", "50 apples", code=2).stderr)
        self.assertIn("--storage-rate", self.run_it(*self.ASKED, "--storage-shared", code=2).stderr)

    def test_storage_and_loaders_are_measured_into_the_profile(self):
        document = self.document("probe", "loader", "--dataset", "fashion-mnist", "--synthetic", "--batch", 16, "--budget", "20ms")
        self.assertEqual((document["kind"], document["state"]), ("loader", "ok"))
        self.assertGreater(document["loader"][0]["sample_us"], 0)
        document = self.document("probe", "storage", "--data", self.folder, "--file", "16MiB", "--budget", "100ms", code=None)
        if document["state"] == "failed":
            self.assertIn("stays in memory", document["failed"][0]["reason"])
        else:
            self.assertGreater(document["storage"][0]["bytes_per_s"], 0)
            self.assertEqual(json.loads(self.machine.read_text())["storage"], document["storage"])
        self.assertEqual(len(json.loads(self.machine.read_text())["loader"]), 1)
        self.assertEqual(sorted(os.listdir(self.folder)), ["config"], "nothing is left of what was written")
        self.assertIn("/no/such", self.run_it("probe", "storage", "--data", "/no/such", code=1).stderr)
        self.assertIn("--data", self.run_it("probe", "storage", code=2).stderr)


class Whole(Case):
    def test_a_probe_of_no_part_measures_what_predictions_need(self):
        document = self.document("probe", "--model", "mlp[hidden=64]", "--batch", 8, "--budget", "5ms", "--transport", "shm", "--collective", "all-reduce", "--sizes", "64B,4KiB,256KiB")
        self.assertEqual((document["schema"], document["kind"], document["state"]), ("ddlbench.probe/1", "all", "ok"))
        self.assertEqual([(part["kind"], part["machine"]) for part in document["parts"]], [("compute", str(self.machine)), ("comm", str(self.machine)), ("comm", str(self.machine))])
        # What has left the caches is of large buffers alone, and none was asked for.
        self.assertEqual({entry["memory"] for entry in json.loads(self.machine.read_text())["communication"]}, {"own", "outside"})
        point = self.document("predict", "--model", "mlp[hidden=64]", "--dataset", "fashion-mnist", "--synthetic", "--batch", 16, "--workers", 2)["points"][0]
        self.assertEqual(point["beyond"], [])
        # In words: both tables, and what no part of it is of.
        told = self.run_it("probe", "--model", "mlp[hidden=64]", "--batch", 8, "--budget", "2ms", "--transport", "shm", "--collective", "all-reduce", "--sizes", "4KiB")
        self.assertIn("layers forward", told.stdout)
        self.assertIn("bus GB/s", told.stdout)
        self.assertIn("ddlbench probe storage --data FOLDER", told.stdout + told.stderr)
        # What is wrong with the second part is said before the first is measured.
        self.machine.unlink()
        self.assertIn("--sizes", self.run_it("probe", "--model", "mlp[hidden=64]", "--budget", "2ms", "--sizes", "1B", code=2).stderr)
        self.assertFalse(self.machine.exists())


class OneH100(Case):
    """Its datasheet, held against steps that an H100 took (docs/measured/, passes as CUDA graphs): milliseconds of forward and backward passes together, and how far off they may be, %."""

    STEPS = [("resnet18", "cifar10", 32, "fp32", 5.53, 20), ("resnet18", "cifar10", 256, "fp32", 29.62, 10), ("resnet50", "imagenet", 64, "fp32", 72.93, 5),
             ("resnet18", "cifar10", 32, "bf16", 1.544, 20), ("resnet18", "cifar10", 256, "bf16", 4.808, 10),
             ("transformer[dropout=0]", "translation[vocabulary=8000,length=64]", 64, "bf16", 9.00, 35)]

    def test_its_datasheet_is_near_what_it_took(self):
        for model, data, batch, precision, measured, most in self.STEPS:
            with self.subTest(model=model, batch=batch, precision=precision):
                point = self.document("predict", "--machine", "h100-80gb", "--model", model, "--dataset", data, "--batch", batch, "--precision", precision, "--synthetic", "--workers", "cuda:1")["points"][0]
                passes = point["ledger_ms"]["forward"] + point["ledger_ms"]["backward"]
                self.assertLess(abs(passes / measured - 1), most / 100, f"predicted {passes}, measured {measured} ms")
                self.assertLess(point["step_ms"]["low"], measured)
                self.assertGreater(point["step_ms"]["high"], measured)


class Gpus(Case):
    """A profile in which a GPU was measured, made up: no test may need one."""
    MLP = ("--model", "mlp[hidden=64]", "--dataset", "fashion-mnist", "--synthetic")

    def setUp(self):
        super().setUp()
        self.calibrate()
        profile = json.loads(self.machine.read_text())
        profile["contention"], profile["jitter"] = [], []
        gpu = []
        # What layers take goes as the samples, and is far more than a step has besides: two measurements apart on a machine that others share may say anything of 8 samples beside 16.
        most = max(profile["compute"], key=lambda entry: entry["batch"])
        for entry in profile["compute"]:
            share = 20 * entry["batch"] / most["batch"]
            entry["layers"] = [{**row, **{key: row[key] * share for key in ("forward_us", "backward_input_us", "backward_weight_us") if row[key] is not None}} for row in most["layers"]]
            entry["correction"], entry["history"] = 1, []
            # Four times as fast.
            gpu.append({**entry, "device": "cuda", "clock": "device", "history": [], "layers": [{**row, **{key: row[key] / 4 for key in ("forward_us", "backward_input_us", "backward_weight_us") if row[key] is not None}} for row in entry["layers"]],
                        "update_us": entry["update_us"] / 4})
        profile["compute"] += gpu
        profile["memory"] += [{"device": "cuda", "what": what, "threads": 1, "bytes": 1 << 20, "bytes_per_s": 1e10} for what in ("copy", "download", "upload")]
        profile["launch"].append({"device": "cuda", "harness_us": 1, "memory_bytes": 16_000_000_000})
        self.machine.write_text(json.dumps(profile))

    def step(self, *words, batch=16):
        return self.document("predict", *self.MLP, "--batch", batch, *words)["points"][0]

    def test_a_gpu_that_was_measured_is_predicted_for(self):
        here, gpu = self.step("--workers", 1), self.step("--workers", "cuda:1", "--graphs", "off")
        # Of a step so short loading and bookkeeping are as much; they are the host's.
        computing = [point["ledger_ms"]["forward"] + point["ledger_ms"]["backward"] for point in (gpu, here)]
        self.assertLess(computing[0], 0.6 * computing[1])
        self.assertLess(gpu["step_ms"]["value"], here["step_ms"]["value"])
        self.assertTrue(gpu["fits"])
        graphs = self.step("--workers", "cuda:1")  # they are on
        self.assertEqual(graphs["step_ms"]["value"], gpu["step_ms"]["value"])
        self.assertTrue(any("CUDA graphs" in words for words in graphs["beyond"]), graphs["beyond"])
        self.assertFalse(any("CUDA graphs" in words for words in gpu["beyond"]), gpu["beyond"])
        self.assertTrue(any("probe compute --device cuda" in words for words in graphs["beyond"]), graphs["beyond"])
        profile = json.loads(self.machine.read_text())
        for entry in profile["compute"]:
            if entry["device"] == "cuda":
                entry["graphs"] = {"steps": 40, "correction": 0.25, "load_ms": 0, "copy_ms": 0.001, "update_ms": 0.001}
        self.machine.write_text(json.dumps(profile))
        by_graphs = self.step("--workers", "cuda:1")
        self.assertLess(by_graphs["ledger_ms"]["forward"] + by_graphs["ledger_ms"]["backward"], 0.3 * computing[0])
        self.assertFalse(any("CUDA graphs" in words for words in by_graphs["beyond"]), by_graphs["beyond"])
        # Passes of stages cannot be such: what was measured one by one stands.
        staged = [self.step("--workers", "cuda:2", "--strategy", "pipeline[micro=2]", "--graphs", way)["step_ms"]["value"] for way in ("on", "off")]
        self.assertEqual(*staged)
        two, shared = self.step("--workers", "cuda:2", batch=32), self.step("--workers", "cuda[index=0]:2", batch=32)
        self.assertGreater(shared["step_ms"]["value"], two["step_ms"]["value"])
        self.assertTrue(any("of workers on cuda in fp32" in words and "probe compute --device cuda" in words for words in two["beyond"]), two["beyond"])

    def test_workers_of_both_kinds_share_a_batch_by_what_each_takes(self):
        even, uneven = (self.step("--workers", "cpu:1,cuda:1", "--strategy", strategy, batch=20)["step_ms"]["value"] for strategy in ("data", "data[shares=1/3]"))
        self.assertLess(uneven, even)
        found = self.document("advise", *self.MLP, "--batch", 20, "--workers", "cpu:1,cuda:1")
        self.assertEqual(found["schema"], "ddlbench.advise/1")
        self.assertTrue(any("shares" in point["strategy"] for point in found["points"]), [point["strategy"] for point in found["points"]])

    def test_what_was_not_measured_names_its_probe(self):
        profile = json.loads(self.machine.read_text())
        profile["memory"] = [entry for entry in profile["memory"] if entry["what"] != "download"]
        self.machine.write_text(json.dumps(profile))
        for words, reason in ((("--workers", "cuda:2"), "what copies between cuda and the host take was not measured; run ddlbench probe compute --device cuda"),
                              (("--workers", "cuda:1", "--precision", "bf16"), "on cuda in bf16 by kernels fast was not measured; run ddlbench probe compute --model mlp[hidden=64] --dataset fashion-mnist --device cuda")):
            found = self.run_it("predict", *self.MLP, "--batch", 16, *words, code=None)
            self.assertIn(reason, found.stderr + found.stdout)


class Beyond(Case):
    def two_workers(self, *words):
        """What a prediction of two says lies beyond what was measured, and its step."""
        found = self.document("predict", "--model", "mlp[hidden=64]", "--dataset", "fashion-mnist", "--synthetic", "--batch", 32, "--workers", 2, *words)["points"][0]
        return " ".join(found["beyond"]), found["step_ms"]

    def test_what_was_not_measured_widens_the_interval_and_is_told(self):
        self.calibrate()

        def asked(*words, model="mlp[hidden=64]", batch=32):
            return ["predict", "--model", model, "--dataset", "fashion-mnist", "--synthetic", "--batch", batch, *words]

        def point(*words, **more):
            return self.document(*asked(*words, **more))["points"][0]

        def width(found):
            return found["step_ms"]["high"] / found["step_ms"]["low"]

        inside, larger = point("--workers", 2), point("--workers", 2, batch=4096)
        self.assertEqual(inside["beyond"], [])
        self.assertEqual(len(larger["beyond"]), 2)
        self.assertIn("other numbers of samples alone, fewer or more than 2048", larger["beyond"][0])
        self.assertIn("making a batch of 2048 samples was measured of less alone, 1.3e+02 times less at most", larger["beyond"][1])
        self.assertGreater(width(larger), 1.2 * width(inside))
        wider = point("--workers", 16, batch=256)
        self.assertIn("collectives of 16 ranks over shm were not measured: taken from what was measured between 2", " ".join(wider["beyond"]))
        other = point("--workers", 2, model="mlp[hidden=96]")
        self.assertIn("ddlbench probe compute --model mlp[hidden=96]", " ".join(other["beyond"]))
        told = self.run_it(*asked("--workers", 16, batch=256))
        self.assertIn("16 workers: collectives of 16 ranks", told.stderr)
        # The same rounds, had they been measured between as many; which algorithm was the fastest between two, and what is slower out of cache, is of two.
        profile = json.loads(self.machine.read_text())
        profile["communication"] = [entry | {"ranks": 16, "best": []} for entry in profile["communication"] if entry["memory"] == "own"]
        self.machine.write_text(json.dumps(profile))
        measured = point("--workers", 16, batch=256)
        self.assertNotIn("collectives of 16 ranks", " ".join(measured["beyond"]))
        self.assertEqual(measured["step_ms"]["value"], wider["step_ms"]["value"])
        self.assertGreater(width(wider), width(measured))
        # Two that compute at once were measured; of sixteen on a host that is carried on, until so many were.
        self.assertIn("16 workers that compute on one host were not measured", " ".join(wider["beyond"]))

    def test_each_number_of_ranks_that_exchange_is_told(self):
        self.calibrate()
        profile = json.loads(self.machine.read_text())
        told = lambda *words: " ".join(self.document("predict", "--model", "mlp[hidden=64]", "--dataset", "fashion-mnist", "--synthetic", "--batch", 32, *words)["points"][0]["beyond"])
        mesh = ("--workers", 8, "--strategy", "hybrid[data=4,tensor=2]")
        self.assertIn("collectives of 4 ranks over shm were not measured: taken from what was measured between 2", told(*mesh))
        self.assertNotIn("of 2 ranks over shm were not measured", told(*mesh))
        # Those of four say something of four alone.
        profile["communication"] = [entry | {"ranks": 4} for entry in profile["communication"]]
        self.machine.write_text(json.dumps(profile))
        self.assertIn("exchanges of 2 ranks over shm were not measured: taken from what was measured between 4", told(*mesh))
        self.assertNotIn("of 4 ranks over shm were not measured", told(*mesh))

    def test_hosts_whose_wires_nobody_measured_are_told(self):
        self.calibrate()
        none, inside = self.two_workers()
        told, apart = self.two_workers("--devices-per-node", 1)
        self.assertIn("wires between hosts of 1 worker were not measured", told)
        self.assertGreater(apart["high"] / apart["value"], inside["high"] / inside["value"])

    def test_an_optimizer_of_which_only_the_name_was_measured_is_told(self):
        self.calibrate()
        none, inside = self.two_workers()
        self.assertEqual(none, "")
        for words, said in ((("--optimizer", "sgd[nesterov=on]"), "an update by sgd[nesterov=on] was not measured: taken for one by sgd, and the interval is wider for it (ddlbench probe compute"),
                            (("--momentum", 0), "an update without momentum was not measured: taken for one with it")):
            told, other = self.two_workers(*words)
            self.assertIn(said, told)
            self.assertGreater(other["high"] / other["value"], inside["high"] / inside["value"])
        # Until it is.
        profile = json.loads(self.machine.read_text())
        profile["optimizer"] += [entry | {"optimizer": "sgd[nesterov=on]", "update_us": 50 * entry["update_us"]} for entry in profile["optimizer"] if entry["optimizer"] == "sgd"]
        self.machine.write_text(json.dumps(profile))
        told, other = self.two_workers("--optimizer", "sgd[nesterov=on]")
        self.assertEqual(told, "")
        self.assertGreater(other["value"], inside["value"])

    def test_company_that_was_not_measured_is_told(self):
        self.calibrate()
        point = self.two_workers
        none, inside = point()
        self.assertEqual(none, "")
        profile = json.loads(self.machine.read_text())
        measured = {part: profile.pop(part) for part in ("contention", "jitter")}
        self.machine.write_text(json.dumps(profile))
        words, alone = point()
        self.assertIn("what those that compute on one host take from each other, and how their steps vary, was not measured of workers with 1 thread in fp32", words)
        self.assertIn("ddlbench probe compute --threads 1 --precision fp32", words)
        self.assertGreater(alone["high"] / alone["value"], inside["high"] / inside["value"])
        # What is known of one precision, or of one number of threads, says nothing of others.
        self.machine.write_text(json.dumps(profile | {"contention": measured["contention"], "jitter": [entry | {"kernels": "torch"} for entry in measured["jitter"]]}))
        words, _ = point()
        self.assertTrue(words.startswith("how their steps vary was not measured"), words)
        # Where two have no cores of their own no probe is named.
        self.machine.write_text(json.dumps(profile | {"cpu": profile["cpu"] | {"usable_cores": 1}}))
        self.assertIn("two of them have no cores of their own here", point()[0])

    def test_a_collective_beside_computing_that_was_not_measured_is_told(self):
        self.calibrate()
        profile = json.loads(self.machine.read_text())
        none, inside = self.two_workers()
        self.assertEqual(none, "")
        self.machine.write_text(json.dumps(profile | {"contention": [entry for entry in profile["contention"] if entry["what"] != "collective"]}))
        words, alone = self.two_workers()
        self.assertIn("what computing and a collective over shm take from each other was not measured: each rank of one is taken to keep a core busy", words)
        self.assertGreater(alone["high"] / alone["value"], inside["high"] / inside["value"])
        # Where none goes on beside computing there is nothing to know.
        self.assertEqual(self.two_workers("--strategy", "data[overlap=off]")[0], "")
        # Threads of one process share memory as processes over shm do.
        self.machine.write_text(json.dumps(profile | {"communication": profile["communication"] + [entry | {"transport": "inproc"} for entry in profile["communication"]]}))
        self.assertEqual(self.two_workers("--transport", "inproc")[0], "")

    def test_a_worker_that_is_slower_than_its_processor(self):
        self.calibrate()
        job = ("--model", "mlp[hidden=64]", "--dataset", "fashion-mnist", "--synthetic", "--batch", 32)

        def computing(workers):
            ledger = self.document("predict", *job, "--workers", workers)["points"][0]["ledger_ms"]
            return ledger["forward"] + ledger["backward"]

        self.assertAlmostEqual(computing("cpu[slow=4]:1") / computing("cpu:1"), 4, delta=0.01)
        equal, uneven = (self.document("predict", *job, "--workers", workers)["points"][0]["step_ms"]["value"] for workers in ("cpu:2", "cpu:1,cpu[slow=4]:1"))
        self.assertGreater(uneven, 1.3 * equal)

    def test_larger_messages_and_buckets_than_were_measured(self):
        self.calibrate()
        point = self.two_workers
        none, inside = point()
        self.assertEqual(none, "")
        profile = json.loads(self.machine.read_text())
        for entry in profile["communication"]:
            self.assertGreaterEqual(entry["most_bytes"], 100e3)
            entry["most_bytes"] = 4096
        profile["compression"] = [{"device": "cpu", "compression": "fp16", "ranks": 2, "bytes": 4096, "measured": "2026-01-01T00:00:00.000Z", "call_us": 20, "own_us": 10}]
        self.machine.write_text(json.dumps(profile))
        words, larger = point()
        self.assertIn("messages over shm of ", words)
        self.assertIn("larger than any that were measured, 4 KiB: carried on from there, and the interval is wider for it (ddlbench probe comm --transport shm --ranks 2 --sizes", words)
        self.assertEqual(larger["value"], inside["value"])
        self.assertGreater(larger["high"], inside["high"])
        words, _ = point("--strategy", "data[compress=fp16]")
        self.assertIn("buckets under fp16 of ", words)
        self.assertIn("larger than any that were measured, 4 KiB", words)
        # Larger ones between other ranks say nothing of these: two price two.
        profile["communication"] += [entry | {"ranks": 8, "most_bytes": 1 << 30} for entry in profile["communication"]]
        profile["compression"] = [entry | {"ranks": 8, "bytes": 1 << 30} for entry in profile["compression"]]
        self.machine.write_text(json.dumps(profile))
        self.assertIn("larger than any that were measured, 4 KiB", point()[0])
        words, _ = point("--strategy", "data[compress=fp16]")
        self.assertIn("what fp16 takes of a bucket that 2 ranks sum was not measured: taken from 8, and the interval is wider for it (ddlbench probe compute --compression fp16)", words)
        self.assertNotIn("larger than any that were measured, 4 KiB", words)
        self.assertRegex(words, "buckets under fp16 of .* at most are smaller than any that were measured, 1 GiB: carried on from there")

    def test_smaller_messages_than_were_measured(self):
        self.calibrate()
        profile = json.loads(self.machine.read_text())

        def cost(latency, bytes_):
            """Of every piece, whatever this machine's were just now."""
            for entry in profile["communication"]:
                for costs in ("rounds", "one_shot"):
                    for piece in entry[costs]:
                        piece.update({unit: latency if unit == "alpha_us" else bytes_ if unit == "beta_ns_per_byte" else 0.0 for unit in piece if unit.endswith(("_us", "_ns_per_byte"))})
            self.machine.write_text(json.dumps(profile))

        cost(1.0, 0.5)
        none, inside = self.two_workers()
        self.assertEqual(none, "")
        for entry in profile["communication"]:
            for each in entry["timed"]:
                each["points"] = [point | {"bytes": 16 << 20} for point in each["points"][:1]]
        cost(1.0, 0.5)
        words, smaller = self.two_workers()
        self.assertRegex(words, "messages over shm of .* are smaller than any that were measured, 16 MiB, whose bytes take most of their time: .*the interval is wider for it .ddlbench probe comm --transport shm --ranks 2 --sizes")
        self.assertEqual(smaller["value"], inside["value"])
        self.assertGreater(smaller["high"], inside["high"])
        # A profile that starts where latency is all there is knows what smaller ones take.
        cost(1.0, 0.0)
        self.assertNotIn("are smaller than any", self.two_workers()[0])

    def test_larger_messages_of_another_place_than_were_measured(self):
        self.calibrate()
        profile = json.loads(self.machine.read_text())
        profile["communication"] = [entry for entry in profile["communication"] if entry["memory"] == "own"]
        profile["communication"] += [entry | {"memory": "outside", "most_bytes": 64} for entry in profile["communication"]]
        self.machine.write_text(json.dumps(profile))
        stages = ("--strategy", "pipeline[schedule=1f1b,micro=2]")
        words, wide = self.two_workers(*stages)
        self.assertRegex(words, "messages of what layers make over shm of .* are larger than any that were measured, 64 B")
        for entry in profile["communication"]:
            entry["most_bytes"] = 1 << 28
        self.machine.write_text(json.dumps(profile))
        words, known = self.two_workers(*stages)
        self.assertNotIn("are larger than any", words)
        self.assertGreater(wide["high"] / wide["low"], known["high"] / known["low"])

    def test_collectives_copies_and_closed_forms_that_were_never_measured(self):
        self.calibrate()
        wide = lambda step: step["high"] / step["low"]
        words, known = self.two_workers("--strategy", "sharded[level=3]")
        self.assertEqual(words, "")
        # All rounds are alike: what other collectives are made of prices these, too.
        profile = json.loads(self.machine.read_text())
        timed = profile | {"communication": [entry | {"best": [piece for piece in entry["best"] if piece["collective"] == "all-reduce"]} for entry in profile["communication"]]}
        self.machine.write_text(json.dumps(timed))
        words, untimed = self.two_workers("--strategy", "sharded[level=3]")
        for collective in ("reduce-scatter", "all-gather"):
            self.assertIn(f"{collective} between 2 ranks over shm was not timed: priced by the rounds that others are made of, and the interval is wider for it (ddlbench probe comm --transport shm --ranks 2 --collective {collective})", words)
        self.assertGreater(wide(untimed), wide(known))
        self.assertEqual(self.two_workers()[0], "", "all that it does was timed")
        self.machine.write_text(json.dumps(profile | {"memory": [entry | {"bytes": entry["bytes"] / 1024} if entry["what"] == "copy" else entry for entry in profile["memory"]]}))
        self.assertEqual(self.two_workers()[0], "", "what products make is made in its place")
        self.run_it("probe", "compute", "--model", "mlp[hidden=64]", "--batch", "8,16", "--budget", "50ms", "--kernels", "torch")
        by_torch = json.loads(self.machine.read_text())
        known = self.two_workers("--kernels", "torch")
        self.assertNotIn("copying", known[0])
        self.machine.write_text(json.dumps(by_torch | {"memory": [entry | {"bytes": entry["bytes"] / 1024} if entry["what"] == "copy" else entry for entry in by_torch["memory"]]}))
        words, copying = self.two_workers("--kernels", "torch")
        self.assertRegex(words, r"copying \S+ [KM]iB of gradients was measured of less alone, .* times less at most: carried on from there, and the interval is wider for it")
        self.machine.write_text(json.dumps(profile))
        self.assertGreater(wide(copying), wide(known[1]))
        words, closed = self.two_workers("--engine", "closed")
        self.assertIn("by its closed form what goes on at once has cores, memory, wires and servers each for itself, which the simulator shares: the interval is wider for it (--engine simulated)", words)
        self.assertGreater(wide(closed), wide(self.two_workers("--engine", "simulated")[1]))

    def test_a_test_network_was_not_measured(self):
        self.calibrate()
        profile = json.loads(self.machine.read_text())
        profile["communication"] += [entry | {"transport": "tcp"} for entry in profile["communication"]]
        self.machine.write_text(json.dumps(profile))
        plain, alone = self.two_workers("--transport", "tcp")
        words, wide = self.two_workers("--transport", "tcp", "--fabric", "hosts=2,bandwidth=1Gbps,latency=1ms")
        self.assertNotIn("fabric", plain)
        self.assertIn("exchanges over fabric hosts=2,bandwidth=1Gbps,latency=1ms were not measured", words)
        self.assertGreater(wide["high"] / wide["low"], alone["high"] / alone["low"])

    def test_memory_of_another_place_than_what_was_measured(self):
        self.calibrate()
        profile = json.loads(self.machine.read_text())
        profile["communication"] = [entry for entry in profile["communication"] if entry["memory"] == "own"]
        self.machine.write_text(json.dumps(profile))
        stages = ("--strategy", "pipeline[schedule=1f1b,micro=2]")
        words, alone = self.two_workers(*stages)
        self.assertIn("memory of what layers make, as messages between 2 ranks over shm was not measured: taken for the transport's own memory, and the interval is wider for it (ddlbench probe comm --transport shm --ranks 2 --memory outside)", words)
        self.assertEqual(self.two_workers()[0], "", "gradients lie in the transport's")
        profile["communication"] += [entry | {"memory": "outside"} for entry in profile["communication"]]
        self.machine.write_text(json.dumps(profile))
        words, known = self.two_workers(*stages)
        self.assertNotIn("memory of what layers make", words)
        self.assertEqual(known["value"], alone["value"])
        self.assertGreater(alone["high"], known["high"])
        # Gradients of more than the caches hold have left them.
        profile["device"]["cache_bytes"] = 4096
        self.machine.write_text(json.dumps(profile))
        self.assertIn("memory that has left the caches before it is exchanged between 2 ranks over shm was not measured", self.two_workers()[0])
        profile["communication"] += [entry | {"memory": "evicted"} for entry in profile["communication"] if entry["memory"] == "own"]
        self.machine.write_text(json.dumps(profile))
        self.assertNotIn("left the caches", self.two_workers()[0])

    def test_every_sort_of_worker_says_what_is_beyond_it(self):
        self.calibrate()
        words = self.document("predict", "--model", "mlp[hidden=64]", "--dataset", "fashion-mnist", "--synthetic", "--batch", 4096, "--workers", 2, "--strategy", "data[shares=1/255]")["points"][0]["beyond"]
        self.assertTrue(any(each.startswith("workers like 1 (cpu, 1 thread): ") and "fewer or more than 4080" in each for each in words), words)
        self.assertFalse(any("fewer or more than 16" in each for each in words), words)
        # Of workers that vary beside such that do not.
        left_out = "steps of those that compute vary as they were measured to, which beside emulated workers, whose waits do not, is left out"
        for workers, told in (("emulated:v100-16gb[slow=200]:1,cpu:1", True), ("emulated:v100-16gb[slow=200]:2", False), ("2", False)):
            words = self.document("predict", "--model", "mlp[hidden=64]", "--dataset", "fashion-mnist", "--synthetic", "--batch", 32, "--workers", workers)["points"][0]["beyond"]
            self.assertEqual(left_out in words, told, (workers, words))

    def test_emulated_workers_that_outnumber_cores(self):
        self.calibrate()
        profile = json.loads(self.machine.read_text())

        def asked(cores, slow=200):
            self.machine.write_text(json.dumps(profile | {"cpu": profile["cpu"] | {"usable_cores": cores}}))
            point = self.document("predict", "--model", "mlp[hidden=64]", "--dataset", "fashion-mnist", "--synthetic", "--batch", 64, "--workers", f"emulated:v100-16gb[slow={slow}]:8")["points"][0]
            return " ".join(point["beyond"]), point["step_ms"]

        (crowded, wide), (roomy, narrow) = asked(2), asked(8)
        self.assertIn("8 workers share 2 cores: what they wait for one before they exchange was not measured, and the interval is wider for it", crowded)
        self.assertNotIn("cores", roomy)
        # Of steps so long that what workers do between their waits is the same in both.
        self.assertGreater(wide["high"] / wide["value"], narrow["high"] / narrow["value"])
        # Of steps that are over before that is, too little is known.
        brief, short = asked(8, slow=1)
        self.assertLess(short["value"], 1)
        self.assertRegex(brief, r"a step of \S+ ms of several emulated workers: such steps took 1\.25 to 1\.6 times as long as was predicted, and the interval is wider for it")
        self.assertNotIn("several emulated workers", roomy)
        self.assertGreater(short["high"] / short["value"], 1.5)

    def test_a_profile_that_lacks_a_term_names_it_and_its_probe(self):
        self.calibrate()
        profile = json.loads(self.machine.read_text())
        told = ("predict", "--model", "mlp[hidden=64]", "--dataset", "fashion-mnist", "--synthetic", "--batch", 32)
        for part, term, probe in (("compute", "layers", "ddlbench probe compute --model mlp[hidden=64]"), ("communication", "best", "ddlbench probe comm --transport shm --ranks 2 measures it again"),
                                  ("communication", "transport", "ddlbench probe comm --ranks 2 measures it again"), ("optimizer", "update_us", "ddlbench probe compute --optimizer sgd")):
            broken = json.loads(json.dumps(profile))
            del broken[part][0][term]
            self.machine.write_text(json.dumps(broken))
            done = self.run_it(*told, code=None)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"{self.machine}: {part}, entry 0 (", done.stderr)
            self.assertIn(f"{term}; got nothing, expected ", done.stderr)
            self.assertIn(probe, done.stderr)
        # Measured again it is whole.
        self.measure()
        self.run_it(*told)


class Published(Case):
    def test_peaks_of_memory_that_others_published(self):
        document = self.document("validate", "sailor-memory")
        memory = document["summary"]["memory"]
        self.assertEqual((memory["rows"], memory["oom_rows"], memory["oom_right"]), (26, 26, 26))
        self.assertLess(memory["mape"], 4)
        self.assertEqual(document["skipped"], [])
        megatron = self.document("validate", "megatron-memory")
        memory = megatron["summary"]["memory"]
        self.assertLess(memory["mape"], 5)
        self.assertEqual((memory["rows"], memory["oom_rows"], memory["oom_right"]), (8, 9, 9))
        told = self.run_it("validate", "megatron-memory").stdout
        self.assertIn("memory: 8 rows", told)
        self.assertNotIn("FLOPs / constant", told, "rows of memory alone have no time")

    def test_a_row_whose_stages_do_not_add_up_is_told(self):
        table = self.folder / "rows.csv"
        table.write_text("model,hidden,layers,heads,seq,device,devices,stack,dp,tp,pp,stages,micro_batch,global_batch,measured_memory_bytes,memory_counts\n"
                         "gpt,2560,32,20,2048,gh200,16,sailor-gpt-neo,4,4,1,26,4,128,1e9,device\n"
                         "gpt,2560,32,20,2048,gh200,16,sailor-gpt-neo,4,4,1,34,4,128,1e9,all\n"
                         "gpt,2560,32,20,2048,gh200,16,sailor-gpt-neo,4,4,1,34,4,128,1e9,device\n")
        done = self.run_it("validate", table, code=4)
        self.assertIn(":2: skipped: [predict] gpt: stages; got 26 layers in all, expected 32, or 34", done.stderr)
        self.assertIn(":3: skipped:", done.stderr)
        self.assertIn("memory_counts; got 'all', expected device or tensors", done.stderr)
        self.assertIn("memory: 1 rows", done.stdout)
        self.assertIn("rows: 1 predicted, 2 skipped", done.stdout)
        self.assertIn(":3: skipped:", self.run_it("validate", table, "--quiet", code=4).stderr)
        self.assertEqual(self.document("validate", table, code=4)["skipped_rows"], 2)

    def test_speed_up_is_over_one_worker_at_the_same_batch(self):
        words = ["predict", "--model", "resnet50", "--dataset", "imagenet", "--synthetic", "--batch", 256, "--machine", "v100-16gb"]
        curve, alone = self.document(*words, "--workers", "1,4"), self.document(*words, "--workers", "4")
        one, four = curve["points"]
        self.assertAlmostEqual(one["speed_up"], 1, delta=1e-9)
        self.assertAlmostEqual(curve["one_worker_ms"], one["step_ms"]["value"], delta=1e-9)
        self.assertAlmostEqual(four["speed_up"], one["step_ms"]["value"] / four["step_ms"]["value"], delta=1e-9)
        self.assertTrue(1 < four["speed_up"] < 4)
        self.assertEqual(alone["points"][0]["speed_up"], four["speed_up"])

    def test_more_workers_are_predicted_than_are_run(self):
        words = ["--model", "lenet", "--dataset", "fashion-mnist", "--synthetic", "--batch", 100000, "--workers", 100000]
        point = self.document("predict", *words, "--machine", "a100-80gb")["points"][0]
        self.assertEqual((point["workers"], point["fits"]), (100000, True))
        self.assertIn("too many to run; got 100000, expected at most 4096", self.run_it("run", *words, "--steps", 1, code=2).stderr)


class Studies(Case):
    def test_a_study_is_predicted_on_a_machine_that_is_not_here(self):
        document = self.document("sweep", "first", "--predict-only", "--machine", "v100-16gb")
        self.assertEqual([point["case"] for point in document["points"]][:2], ["lenet, 1 worker", "lenet, 2 workers, shm"])
        self.assertEqual(len(document["points"]), 6)
        for point in document["points"]:
            self.assertTrue(point["step_ms"]["low"] < point["step_ms"]["value"] < point["step_ms"]["high"], point)
        done = self.run_it("sweep", "first", "--predict-only", "--machine", "v100-16gb")
        self.assertEqual(len(done.stdout.splitlines()), 7)
        self.assertIn("datasheet", done.stderr)
        self.assertFalse((self.folder / "ddlbench.db").exists())

    def test_bad_words(self):
        self.assertIn("--predict-only", self.run_it("sweep", "first", "--machine", "v100-16gb", code=2).stderr)
        self.assertIn("k8", self.run_it("sweep", "first", "--predict-only", "--machine", "k8", code=2).stderr)
        self.assertIn("probe compute", self.run_it("sweep", "first", "--predict-only", code=2).stderr)

    def test_hundreds_of_experiments_take_seconds(self):
        # No two are alike, so that nothing is priced once for several.
        study = self.folder / "large.yaml"
        study.write_text("study: large\nbase: {dataset: imagenet, synthetic: true}\nmatrix:\n  - [" +
                         ", ".join(f"{{model: {model}}}" for model in ("resnet50", "resnet101", "vgg16", "mobilenetv2", "alexnet")) + "]\n  - [" +
                         ", ".join(f"{{workers: {workers}}}" for workers in (1, 8, 32)) + "]\n  - [" + ", ".join(f"{{batch: {64 * number}}}" for number in range(1, 24)) + "]\n")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        document = self.document("sweep", study, "--predict-only", "--machine", "v100-16gb")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual(len({(point["case"], point["step_ms"]["value"]) for point in document["points"]}), 345)
        # Of a processor: others may be at work here.
        self.assertLess(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 5)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
