"""End to end through the binary: what advise says of shipped machines, and of this one, which it measures first.

usage: advise_test.py PATH-OF-DDLBENCH [unittest arguments]
"""
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile
import unittest

BINARY = pathlib.Path(sys.argv[1]).resolve()
ROOT = pathlib.Path(__file__).resolve().parent.parent
RESNET = ["--model", "resnet50", "--dataset", "imagenet", "--synthetic", "--batch", "256", "--budget", "4s"]
TINY = ["--model", "lenet", "--dataset", "fashion-mnist", "--synthetic", "--train-samples", "640", "--test-samples", "64", "--batch", "32", "--budget", "4s"]
#: so few samples that all candidates are looked at in seconds
ALL_OF_TINY = [*TINY[:-4], "--batch", "4", "--budget", "60s"]


class Case(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory(prefix="ddlbench-advise-")
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)
        self.environment = {**os.environ, "DDLBENCH_MACHINE": str(self.folder / "machine.json")}

    def run_it(self, *arguments, code=0, timeout=300):
        done = subprocess.run([BINARY, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, timeout=timeout, env=self.environment)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return done

    def advice(self, *arguments, code=0):
        return json.loads(self.run_it("advise", *arguments, "--json", code=code).stdout)

    probed = None  # this machine's profile, measured once for all tests

    def probe(self):
        if Case.probed is None:
            self.measure()
            Case.probed = (self.folder / "machine.json").read_text()
        (self.folder / "machine.json").write_text(Case.probed)

    def measure(self):
        self.run_it("probe", "compute", "--model", "lenet", "--dataset", "fashion-mnist", "--batch", "8,16,32", "--optimizer", "sgd", "--budget", "150ms", "--quiet")
        self.run_it("probe", "comm", "--transport", "shm,tcp,inproc", "--ranks", "2", "--sizes", "1KiB,64KiB,1MiB", "--budget", "20ms", "--quiet")


class Shipped(Case):
    def test_points_are_ranked_and_what_is_told_adds_up(self):
        told = self.advice(*RESNET, "--workers", "8", "--machine", "v100-16gb")
        self.assertEqual((told["schema"], told["source"], told["machine"], told["batch"]), ("ddlbench.advise/1", "datasheet", "v100-16gb", 256))
        ranked = [point for point in told["points"] if point["rank"] is not None]
        self.assertEqual([point["rank"] for point in ranked], sorted(point["rank"] for point in ranked))
        self.assertEqual([point["step_ms"]["value"] for point in ranked], sorted(point["step_ms"]["value"] for point in ranked))
        for point in ranked:
            self.assertTrue(point["fits"])
            self.assertLess(point["step_ms"]["low"], point["step_ms"]["value"])
            self.assertAlmostEqual(point["throughput"] * point["step_ms"]["value"] / 1e3, 256, delta=1e-6)
            if point["pareto"]:
                self.assertFalse([other for other in ranked if other["step_ms"]["value"] < point["step_ms"]["value"] and other["memory_total_bytes"] < point["memory_total_bytes"]])
        self.assertEqual({point["workers"] for point in ranked}, {1, 2, 4, 8})
        advice = told["advice"]
        self.assertTrue(advice["worth_it"])
        self.assertEqual(advice["fastest"], 1)
        alone = next(point for point in ranked if point["rank"] == advice["one_worker"])
        self.assertEqual((alone["workers"], alone["strategy"].split("[")[0]), (1, "single"))
        self.assertIn("Take ", advice["words"])
        self.assertGreater(told["searched"], 50)
        for refused in told["refused"]:
            self.assertTrue(refused["reason"])
            self.assertNotIn("stages is an option of", refused["reason"], "only what has stages to cut is cut")
        self.assertFalse({"local"} & {point["strategy"].split("[")[0] for point in told["points"]}, "results differ")

    def test_devices_that_nearly_divide_a_step_are_worth_it(self):
        """How far a datasheet is off one device and eight have alike."""
        for machine, workers in (("a100-80gb", 2), ("a100-80gb", 8), ("v100-16gb", 4)):
            with self.subTest(machine, workers=workers):
                told = self.advice(*RESNET, "--workers", workers, "--machine", machine)
                advice = told["advice"]
                taken = next(point for point in told["points"] if point["rank"] == advice["take"])
                self.assertEqual((advice["worth_it"], taken["workers"]), (True, workers), advice["words"])
                gain, alone = advice["times_one_worker"], next(point for point in told["points"] if point["rank"] == advice["one_worker"])
                self.assertAlmostEqual(gain["value"], alone["step_ms"]["value"] / taken["step_ms"]["value"], places=9)
                self.assertTrue(1 < gain["low"] < gain["value"] < gain["high"], gain)
                self.assertLess(gain["high"] / gain["low"], 0.5 * taken["step_ms"]["high"] / taken["step_ms"]["low"])
                self.assertRegex(advice["words"], r"times as fast as one worker \([\d.]+ to [\d.]+\)")
        # What exchanges cost more than they save is not.
        words = self.advice("--model", "vgg11", "--dataset", "cifar10", "--synthetic", "--batch", "32", "--budget", "4s", "--workers", "2", "--machine", "v100-16gb[devices_per_node=1,link_inter=1Gbps]")["advice"]
        self.assertFalse(words["worth_it"], words["words"])

    def test_predict_says_the_same_of_what_is_recommended(self):
        told = self.advice(*RESNET, "--workers", "4", "--machine", "v100-16gb")
        best = told["points"][0]
        keys = [word for key, value in best["keys"].items() for word in (["--" + key] if value == "true" else ["--" + key, value])]
        same = json.loads(self.run_it("predict", *RESNET[:-2], "--workers", best["workers"], "--strategy", best["strategy"], *keys, "--machine", "v100-16gb", "--engine", best["engine"], "--json").stdout)["points"][0]
        self.assertAlmostEqual(same["step_ms"]["value"], best["step_ms"]["value"], delta=1e-6 * best["step_ms"]["value"])
        self.assertEqual(same["memory_total_bytes"], best["memory_total_bytes"])

    def test_words_come_first_and_stale_ones_when_asked_for(self):
        done = self.run_it("advise", *RESNET, "--workers", "2", "--machine", "a100-80gb", "--allow-stale")
        self.assertTrue(done.stderr.startswith("Take ") or done.stderr.startswith("Distributing is not worth it"), done.stderr)
        self.assertIn("candidates looked at", done.stderr)
        self.assertRegex(done.stdout, r"rank +front +strategy +workers +step +90 % +samples/s +speed-up +a worker holds +largest loss")
        self.assertRegex(done.stdout, r"(?m)^\d+ .* (local|parameter-server)")

    def test_a_thousand_workers(self):
        told = self.advice("--model", "gpt[hidden=2048,layers=24,heads=16,seq=1024,vocab=51200]", "--dataset", "language", "--synthetic", "--batch", "1024", "--workers", "1024", "--machine", "a100-80gb", "--precision",
                           "bf16", "--budget", "5s")
        self.assertGreater(told["not_searched"], 1000)
        self.assertGreater(told["advice"]["take"], 0)
        self.assertLess(told["seconds"], 15)

    def test_bad_input(self):
        for arguments, code, words in ((["--machine", "v100-17gb"], 2, "v100-16gb"), (["--budget", "0s"], 2, "--budget"), (["--budget", "soon"], 2, "--budget"), (["--verify", "0"], 2, "--verify"),
                                       (["--strategy", "dota", "--machine", "v100-16gb"], 2, "did you mean 'data'"), ([], 2, "probe compute"), (["--machine", "v100-16gb", "--verify", "2"], 6, "datasheet"),
                                       (["--model", "resnet51", "--machine", "v100-16gb"], 2, "resnet50"), (["--machine", "v100-16gb", "--subject", "torch-ddp"], 6, "only ddlbench's own steps are predicted")):
            base = RESNET[2:] if "--model" in arguments else RESNET
            base = base[:-2] if "--budget" in arguments else base
            done = self.run_it("advise", *base, "--workers", "4", *arguments, code=code)
            self.assertIn(words, done.stderr, arguments)
            self.assertEqual(done.stdout, "", arguments)


class Here(Case):
    def test_the_best_are_run_and_held_against_what_was_predicted(self):
        self.probe()
        told = self.advice(*TINY, "--workers", "2", "--verify", "3")
        self.assertEqual(told["source"], "measured")
        ranks = [run["rank"] for run in told["verified"]]
        # The fastest, and, wherever they are, what is advised and one worker.
        self.assertEqual((ranks[0], ranks), (1, sorted(ranks)))
        self.assertLessEqual({told["advice"]["take"], told["advice"]["one_worker"]}, set(ranks))
        self.assertIn(len(ranks), (3, 4, 5))
        points = {point["rank"]: point for point in told["points"]}
        for run, point in ((run, points[run["rank"]]) for run in told["verified"]):
            self.assertEqual((run["state"], run["strategy"], run["workers"]), ("ok", point["strategy"], point["workers"]), run)
            self.assertGreater(run["measured_ms"]["median"], 0)
            self.assertAlmostEqual(run["error_pct"], 100 * (run["predicted_ms"]["value"] / run["measured_ms"]["median"] - 1), delta=1e-6)
        self.assertIn("Measured: ", told["advice"]["verified"])
        rows = sqlite3.connect(self.folder / "ddlbench.db").execute("select count(*) from runs").fetchone()
        self.assertEqual(rows[0], len(ranks), "kept as runs are")
        fastest = min(told["verified"], key=lambda run: run["measured_ms"]["median"])
        self.assertRegex(told["advice"]["verified"], rf"{re.escape(fastest['strategy'])}.* with {fastest['workers']} worker")
        self.assertEqual("What is advised, " in told["advice"]["verified"], fastest["rank"] != told["advice"]["take"], told["advice"]["verified"])

    def test_what_is_advised_beyond_what_was_measured_is_told(self):
        self.probe()
        # As if but one worker had been measured.
        path = self.folder / "machine.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"contention": [], "jitter": []}))
        told = self.advice(*TINY, "--workers", "2")
        for point in told["points"]:
            self.assertIn("waited", point)
            self.assertEqual(any("was not measured of workers" in words for words in point["beyond"]), point["workers"] > 1, point)
        taken = next(point for point in told["points"] if point["rank"] == told["advice"]["take"])
        printed = self.run_it("advise", *TINY, "--workers", "2").stderr
        for words in taken["beyond"]:
            self.assertIn(words, printed)

    def test_transports_threads_and_compressions_that_were_measured_are_looked_at(self):
        self.probe()
        plain = self.advice(*ALL_OF_TINY, "--workers", "2")
        # Which of them are among the points that are told depends on what was measured here; that they were looked at does not: each that is left out of the search leaves fewer.
        profile = json.loads((self.folder / "machine.json").read_text())
        (self.folder / "shm.json").write_text(json.dumps(profile | {"communication": [entry for entry in profile["communication"] if entry["transport"] == "shm"]}))
        (self.folder / "no_threads.json").write_text(json.dumps(profile | {"communication": [entry for entry in profile["communication"] if entry["transport"] != "inproc"]}))
        alone, processes = (self.advice(*ALL_OF_TINY, "--workers", "2", "--machine", self.folder / name) for name in ("shm.json", "no_threads.json"))
        self.assertEqual([each["not_searched"] for each in (plain, alone, processes)], [0, 0, 0])
        self.assertTrue(plain["searched"] > processes["searched"] > alone["searched"], [each["searched"] for each in (plain, alone, processes)])
        told = self.advice(*ALL_OF_TINY, "--workers", "2", "--allow-lossy")
        self.assertGreater(told["searched"], plain["searched"])
        self.assertEqual({point["differs"] for point in told["points"]}, {None, "lossy"})
        for point in told["points"]:
            self.assertEqual(point["differs"], "lossy" if "compress=" in point["strategy"] else None, point["strategy"])
        # Whatever is recommended runs as it is told, over whatever carries it.
        for point in ({"strategy": "data[compress=int8]", "keys": {}}, {"strategy": "data[in-process=mirrored]", "keys": {"transport": "inproc"}}, {"strategy": "data", "keys": {"transport": "tcp"}}):
            keys = [word for key, value in point["keys"].items() for word in ("--" + key, value)]
            predicted = json.loads(self.run_it("predict", *TINY[:-2], "--workers", "2", "--strategy", point["strategy"], *keys, "--json").stdout)["points"][0]
            self.assertGreater(predicted["step_ms"]["value"], 0)
            record = json.loads(self.run_it("run", *TINY[:-2], "--steps", "20", "--no-evaluate", "--workers", "2", "--strategy", point["strategy"], *keys, "--json").stdout)
            self.assertEqual(record["state"], "ok")
            self.assertIsNotNone(record["prediction"]["step_ms"], record["prediction"]["reason"])
        refused = self.run_it("predict", *TINY[:-2], "--workers", "2", "--strategy", "data[compress=top-k[ratio=0.3]]", code=2)
        self.assertIn("run ddlbench probe compute --compression top-k[ratio=0.3]", refused.stderr)

    def test_what_is_asked_for_leaves_the_prices_of_others_alone(self):
        """The strategy that is asked for is priced first; its algorithm is not that of others."""
        self.probe()

        def of(strategy, wanted):
            points = self.advice(*TINY, "--workers", 2, "--transport", "tcp", "--strategy", strategy)["points"]
            return next(point["step_ms"]["value"] for point in points if point["strategy"] == wanted and point["workers"] == 2 and not point["keys"])

        plain, star = of("data", "data"), of("data[collective=star,overlap=off]", "data[collective=star,overlap=off]")
        self.assertEqual(of("data[collective=star,overlap=off]", "data"), plain)
        self.assertNotEqual(star, plain)

    def test_what_was_asked_for_can_be_verified_with_all_else(self):
        """A size of buckets that one worker does not have; threads of one process, beside ways that have processes."""
        self.probe()
        told = self.advice(*TINY, "--workers", 2, "--bucket", "1MiB", "--verify", 2)
        self.assertEqual({run["state"] for run in told["verified"]}, {"ok"}, told["verified"])
        points = self.advice(*TINY, "--workers", 2, "--strategy", "data[in-process=mirrored]")["points"]
        plain = self.advice(*TINY, "--workers", 2)["points"]
        of = lambda points: next(point["step_ms"]["value"] for point in points if point["strategy"] == "data" and point["workers"] == 2 and not point["keys"])
        self.assertEqual(of(points), of(plain))

    def test_without_wires_nobody_knows_whether_more_workers_are_worth_it(self):
        self.probe()
        path = self.folder / "machine.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"communication": []}))
        advice = self.advice(*TINY, "--workers", 2)["advice"]
        self.assertIsNone(advice["worth_it"])
        self.assertIn("no way of more than one could be predicted: [measured] what all-reduce between 2 ranks over shm takes was not measured", advice["words"])

    def test_transports_that_are_for_comparison_are_not_advised(self):
        self.probe()
        profile = json.loads((self.folder / "machine.json").read_text())
        # Next to nothing, so that it would be the fastest.
        cheap = lambda pieces: [{key: value if key.endswith("_bytes") else value * 1e-3 for key, value in piece.items()} for piece in pieces]
        profile["communication"] += [entry | {"transport": "gloo", "rounds": cheap(entry["rounds"])} for entry in profile["communication"] if entry["transport"] == "tcp"]
        (self.folder / "machine.json").write_text(json.dumps(profile))
        told = self.advice(*TINY, "--workers", 2, "--transport", "tcp")
        self.assertTrue(told["points"])
        self.assertNotIn("gloo", json.dumps([told["points"], told["refused"]]))

    def test_on_a_test_network_nothing_goes_past_it(self):
        """Neither over another transport nor within a process; and what is advised is of those wires."""
        self.probe()
        words = [*ALL_OF_TINY, "--workers", 2, "--transport", "tcp"]
        plain, over = self.advice(*words), self.advice(*words, "--fabric", "hosts=2,bandwidth=10Mbps,latency=20ms")
        several = [point for point in over["points"] if point["workers"] == 2]
        self.assertTrue(several, over)
        for point in several:
            self.assertNotIn("transport", point["keys"])
            self.assertNotIn("in-process", point["strategy"])
            self.assertTrue(any(each.startswith("exchanges over fabric hosts=2,bandwidth=10Mbps,latency=20ms were not measured") for each in point["beyond"]), point["beyond"])
        of = lambda told: next(point["step_ms"]["value"] for point in told["points"] if point["strategy"] == "data" and point["workers"] == 2 and not point["keys"])
        # An all-reduce has two messages, one after the other.
        self.assertGreater(of(over), of(plain) + 20)
        self.assertFalse(over["advice"]["worth_it"], over["advice"]["words"])

    def test_unlike_workers_share_a_batch_by_what_they_do(self):
        self.probe()
        told = self.advice("--model", "smallcnn", "--dataset", "cifar10", "--synthetic", "--train-samples", "4096", "--test-samples", "64", "--batch", "1024", "--budget", "3s", "--workers",
                           "emulated:v100[slow=20]:1,emulated:v100[slow=40]:1", "--verify", "1")
        best = told["points"][0]
        self.assertRegex(best["strategy"], r"^data\[.*shares=\d+/\d+")
        plain = next(point for point in told["points"] if point["strategy"] == "data" and point["workers"] == 2)
        self.assertLess(best["step_ms"]["value"], 0.8 * plain["step_ms"]["value"])
        run = told["verified"][0]
        self.assertEqual((run["state"], run["strategy"]), ("ok", best["strategy"]), run)
        # As it runs it is faster than plain data is predicted, however late waits end.
        self.assertLess(run["measured_ms"]["median"], plain["step_ms"]["value"], run)

    def test_another_machines_profile_is_not_verified(self):
        self.probe()
        profile = json.loads((self.folder / "machine.json").read_text())
        profile["cpu"]["model"] = "another"
        (self.folder / "machine.json").write_text(json.dumps(profile))
        done = self.run_it("advise", *TINY, "--workers", "2", "--verify", "2", code=6)
        self.assertIn("another machine", done.stderr)

    def test_a_trace_becomes_a_profile_that_predicts_the_run(self):
        record = json.loads(self.run_it("run", *TINY[:-2], "--steps", "60", "--no-evaluate", "--workers", "1", "--strategy", "single", "--json").stdout)
        self.run_it("export", record["id"], "--format", "chakra", "-o", "traces", "--quiet")
        told = json.loads(self.run_it("probe", "import", "traces/ddlbench.0.et", "--machine", "other.json", "--json").stdout)
        self.assertEqual((told["kind"], told["left_out"]), ("import", 0))
        measured = {cause: record["ranks"][0]["ledger_ms"][cause] for cause in ("forward", "backward")}
        predicted = json.loads(self.run_it("predict", *TINY[:-2], "--workers", "1", "--strategy", "single", "--machine", "other.json", "--json").stdout)["points"][0]
        for cause, milliseconds in measured.items():
            self.assertAlmostEqual(predicted["ledger_ms"][cause] / milliseconds, 1, delta=0.03, msg=cause)
        again = self.run_it("probe", "import", "traces/ddlbench.0.et", "--machine", "other.json")
        self.assertIn("written: other.json", again.stderr)
        self.assertEqual(len(json.loads((self.folder / "other.json").read_text())["compute"]), 1, "in the place of the earlier one")

    def test_traces_of_one_run_alone_are_put_together(self):
        one, other = (json.loads(self.run_it("run", *TINY[:-2], "--steps", "20", "--no-evaluate", "--workers", workers, "--json").stdout)["id"] for workers in ("1", "2"))
        for folder, run in (("one", one), ("other", other)):
            self.run_it("export", run, "--format", "chakra", "-o", folder, "--quiet")
        both = ["other/ddlbench.0.et", "other/ddlbench.1.et"]
        self.run_it("probe", "import", *both, "--machine", "none")
        for files, reason in ((["one/ddlbench.0.et", both[0]], f"traces of several runs; got {one} and {other}"), ([both[0], both[0]], "two traces of rank 0 of " + other)):
            self.assertIn(reason, self.run_it("probe", "import", *files, "--machine", "none", code=2).stderr)
        refused = self.run_it("probe", "import", *both, "--batch", "8", "--machine", "none", code=2)
        self.assertIn("--batch: the trace says itself what was run; got 8", refused.stderr)

    def test_of_a_pipeline_without_a_flush_a_step_with_passes_both_ways_is_exported(self):
        record = json.loads(self.run_it("run", *TINY[:-2], "--steps", "20", "--no-evaluate", "--workers", "2", "--strategy", "pipeline[schedule=pipedream]", "--json").stdout)
        self.run_it("export", record["id"], "--format", "chakra", "-o", "traces", "--quiet")
        entry, = json.loads(self.run_it("probe", "import", "traces/ddlbench.0.et", "traces/ddlbench.1.et", "--machine", "none", "--json").stdout)["compute"]
        for direction in ("forward", "backward"):
            self.assertAlmostEqual(entry[f"{direction}_ms"] / sum(rank["ledger_ms"][direction] for rank in record["ranks"]), 1, delta=0.1, msg=direction)

    def test_a_predicted_trace_is_of_the_step_that_is_predicted(self):
        self.probe()
        # With it predictions are of the mean step.
        path = self.folder / "machine.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"jitter": []}))
        words = ["predict", *TINY[:-2], "--workers", "2"]
        ledger = json.loads(self.run_it(*words, "--json").stdout)["points"][0]["ledger_ms"]
        self.run_it(*words, "--export", "chakra", "-o", "traces", "--quiet")
        entry, = json.loads(self.run_it("probe", "import", "traces/ddlbench.0.et", "traces/ddlbench.1.et", "--machine", "none", "--json").stdout)["compute"]
        self.assertAlmostEqual((entry["forward_ms"] + entry["backward_ms"]) / (ledger["forward"] + ledger["backward"]), 1, delta=0.05)

    def test_files_that_are_no_traces(self):
        (self.folder / "page.et").write_text("<html>nothing of the kind</html>")
        done = self.run_it("probe", "import", "page.et", "--machine", "other.json", code=1)
        self.assertIn("page.et is no execution trace: byte 0", done.stderr)
        self.assertFalse((self.folder / "other.json").exists())
        self.run_it("probe", "import", "nothing.et", "--machine", "other.json", code=2)
        self.assertIn("no trace", self.run_it("probe", "import", "--machine", "other.json", code=2).stderr)
        self.assertIn("reads no file", self.run_it("probe", "comm", "page.et", code=2).stderr)


class MadeUp(Case):
    """Workers that compute by a datasheet, and wires that are made up: what is best follows from what was put in, and is the same on every machine."""

    #: of two workers there are few enough candidates to look at all of them
    JOB = ["--model", "resnet18", "--dataset", "cifar10", "--synthetic", "--budget", "8s"]
    WORKERS = "emulated:v100[slow=4]:2"
    #: what the profile says was fastest at sizes, which `auto` follows; of large messages not what these wires are best with
    DOUBLING, RING = ("recursive-doubling", "ring"), ("ring", "recursive-doubling")

    OF_NO_WORKER = {"threads": 0, "network": "lenet", "batch": 1, "correction": 1, "step": {"load_ms": 0, "copy_ms": 0}, "loader_us": 0, "layers": []}

    def wires(self, name, alpha_us, ns_per_byte, ns_per_byte_beside, best):
        """A measured profile of nothing but what rounds of collectives take, and of layers for workers that nobody has."""
        rounds = [{"from_bytes": 0, "to_bytes": 2**50, "alpha_us": alpha_us, "overhead_us": 0, "beta_ns_per_byte": ns_per_byte, "copy_ns_per_byte": 0, "gamma_ns_per_byte": 0, "local_ns_per_byte": ns_per_byte_beside}]
        fastest = [{"collective": "all-reduce", "from_bytes": begin, "to_bytes": end, "algorithm": algorithm} for (begin, end), algorithm in zip(((0, 65536), (65536, 2**50)), best)]
        profile = {"schema": "ddlbench.machine/1", "host": name, "cpu": {"model": "made up", "usable_cores": 8}, "device": {"memory_bytes": 2**40, "cache_bytes": 2**40}, "compute": [self.OF_NO_WORKER],
                   "communication": [{"transport": "shm", "ranks": 2, "memory": "own", "measured": "2026-11-23T00:00:00.000Z", "rounds": rounds, "one_shot": [], "best": fastest}]}
        (self.folder / f"{name}.json").write_text(json.dumps(profile))
        return f"{name}.json"

    def late(self):
        """60 ms a round, and hardly more for bytes."""
        return self.wires("late", 60_000, 0.02, 0.02, self.DOUBLING)

    def narrow(self):
        """2 s a gigabyte, as much again where an algorithm adds up beside the wire, and no latency to speak of."""
        return self.wires("narrow", 1, 2, 2, self.RING)

    def best(self, told, strategy):
        """The fastest of two workers that fits; its options and keys."""
        point = next(point for point in told["points"] if point["rank"] is not None and point["workers"] == 2 and point["strategy"].split("[")[0] == strategy)
        inside = point["strategy"].partition("[")[2].rstrip("]")
        return {**dict(option.split("=") for option in inside.split(",") if option), **point["keys"]}, point

    def check_front(self, told):
        ranked = [point for point in told["points"] if point["rank"] is not None]
        worth = lambda point: (point["step_ms"]["value"], point["memory_total_bytes"])
        self.assertEqual([point["step_ms"]["value"] for point in ranked], sorted(point["step_ms"]["value"] for point in ranked))
        front = [worth(point) for point in ranked if point["pareto"]]
        self.assertGreater(len(front), 1)
        # Faster first, each that follows holds less; nothing that was told beats any of it in one without losing in the other, and what nothing beats is on it.
        for (before, more), (after, less) in zip(front, front[1:]):
            self.assertLess(before, after)
            self.assertGreater(more, less)
        for point in ranked:
            time, held = worth(point)
            beaten = [other for other in map(worth, ranked) if other != (time, held) and other[0] <= time and other[1] <= held]
            if point["pareto"]:
                self.assertEqual(beaten, [], point["strategy"])
            else:
                self.assertTrue(beaten or (time, held) in front, point["strategy"])

    def test_buckets_and_algorithms_go_with_the_wires(self):
        late = self.advice(*self.JOB, "--batch", 256, "--workers", self.WORKERS, "--machine", self.late())
        narrow = self.advice(*self.JOB, "--batch", 256, "--workers", self.WORKERS, "--machine", self.narrow())
        self.check_front(late)
        self.check_front(narrow)
        # 25 MiB unless told: three buckets of 45 MiB. Late wires want few of them and one round (recursive doubling; a ring has two); narrow ones many, behind backward, and nothing added up beside the wire (a ring).
        options, _ = self.best(late, "data")
        self.assertEqual((options.get("bucket"), options.get("collective")), ("100MiB", "recursive-doubling"))
        options, _ = self.best(narrow, "data")
        self.assertIn(options.get("bucket"), ("1MiB", "5MiB"))
        self.assertEqual(options.get("collective"), "ring")
        for told in (late, narrow):
            self.assertTrue(told["advice"]["worth_it"])
            self.assertEqual(told["advice"]["fastest"], 1)

    def test_little_memory_is_made_up_for_by_smaller_passes(self):
        profile = json.loads((ROOT / "machines/v100-16gb.json").read_text())
        profile["device"]["memory_bytes"] = 350 * 2**20
        (self.folder / "tight.json").write_text(json.dumps(profile))
        machine = self.late()
        roomy, tight = (self.advice(*self.JOB, "--batch", 256, "--workers", workers, "--machine", machine) for workers in (self.WORKERS, "emulated:tight.json[slow=4]:2"))
        self.check_front(tight)
        self.assertGreater(tight["misfits"], 0)
        for point in tight["points"]:
            self.assertEqual(point["fits"], point["memory_total_bytes"] <= 350 * 2**20, point["strategy"])
        # All at once two workers hold 730 MiB each, one 1.2 GiB; run again 450 and more.
        taken, short = (next(point for point in told["points"] if point["rank"] == told["advice"]["take"]) for told in (roomy, tight))
        self.assertNotIn("accumulate", taken["keys"])
        self.assertGreater(taken["memory_total_bytes"], 350 * 2**20)
        self.assertGreaterEqual(int(short["keys"]["accumulate"]), 2)
        self.assertLessEqual(short["memory_total_bytes"], 350 * 2**20)
        # What fits by its plan alone is told: of GPUs' allocators more is known to be taken.
        profile["device"]["memory_bytes"] = int(1.02 * taken["memory_total_bytes"])
        (self.folder / "tight.json").write_text(json.dumps(profile))
        told = self.advice(*self.JOB, "--batch", 256, "--workers", "emulated:tight.json[slow=4]:2", "--machine", machine)
        chosen = next(point for point in told["points"] if point["rank"] == told["advice"]["take"])
        self.assertEqual((chosen["strategy"], chosen["fits"], chosen["fits_surely"]), (taken["strategy"], True, False))
        self.assertGreater(chosen["memory_interval_bytes"]["high"], profile["device"]["memory_bytes"])
        self.assertRegex(told["advice"]["words"], "A worker is planned to hold .*B; it may come to .*B, more than the .*B that there are for it")
        self.assertNotIn("it may come to", roomy["advice"]["words"])
        # Stages hold less of more micro-batches.
        self.assertLess(int(self.best(roomy, "pipeline")[0].get("micro", 8)), int(self.best(tight, "pipeline")[0].get("micro", 8)))

    def test_says_when_distributing_is_not_worth_it(self):
        told = self.advice(*self.JOB[:-1], "2s", "--batch", 16, "--workers", self.WORKERS, "--machine", self.late())
        advice = told["advice"]
        self.assertFalse(advice["worth_it"])
        self.assertEqual(advice["take"], advice["one_worker"])
        self.assertTrue(advice["words"].startswith("Distributing is not worth it: nothing that was looked at is faster than one worker. Take single"), advice["words"])
        taken = next(point for point in told["points"] if point["rank"] == advice["take"])
        self.assertEqual(taken["workers"], 1)
        self.assertIn("Distributing is not worth it", self.run_it("advise", *self.JOB[:-1], "2s", "--batch", 16, "--workers", self.WORKERS, "--machine", "late.json").stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
