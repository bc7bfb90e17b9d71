"""End to end through the binary: what collectives cost, the profile that comes of it, who follows it, test networks, compression.

usage: probe_test.py PATH-OF-DDLBENCH [unittest arguments]
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import probe_case
from probe_case import no_fabric

BINARY = pathlib.Path(sys.argv[1]).resolve()
QUICK = ["--synthetic", "--train-samples", "640", "--test-samples", "200", "--model", "lenet", "--batch", "64", "--no-evaluate"]
FEW = ["--sizes", "1KiB,64KiB", "--budget", "2ms"]


def children(pid):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(entry.name))
    return found


class Case(probe_case.Case):
    command = [BINARY]


class Probing(Case):
    def test_every_transport_and_collective_is_timed_checked_fitted_and_counted(self):
        document = self.document("probe", "comm", *FEW, "--ranks", "2,3")
        self.assertEqual((document["schema"], document["kind"], document["state"]), ("ddlbench.probe/1", "comm", "ok"))
        rows = document["results"]
        self.assertEqual({row["transport"] for row in rows}, {"inproc", "shm", "tcp"})
        self.assertEqual({row["ranks"] for row in rows}, {2, 3})
        self.assertEqual(len({row["collective"] for row in rows}), 10)
        for row in rows:
            self.assertLessEqual({"transport", "collective", "algorithm", "ranks", "bytes", "time_us", "bus_gbps", "fit_us", "limit_us"}, set(row))
            time_us = row["time_us"]
            self.assertTrue(0 < time_us["low"] <= time_us["median"] <= time_us["high"], row)
            self.assertGreaterEqual(len(time_us["samples"]), 7)
            # Counted by the transport, and by the schedule that was priced and simulated: the same bytes.
            self.assertTrue(row["bytes_equal"], row)
            self.assertEqual(row["bytes_sent"], row["priced_bytes"])
            if row["collective"] != "barrier":
                self.assertGreater(row["limit_us"], 0)
            self.assertAlmostEqual(row["simulated_us"], row["fit_us"], delta=1e-6 * row["fit_us"])
        for piece in document["fit"]:
            self.assertLessEqual({"alpha_us", "overhead_us", "beta_ns_per_byte", "gamma_ns_per_byte", "from_bytes", "to_bytes", "mean_error_pct", "held_out_error_pct"}, set(piece))
        self.assertEqual(document["machine"], str(self.machine))
        machine = json.loads(self.machine.read_text())
        self.assertEqual(machine["schema"], "ddlbench.machine/1")
        self.assertEqual(len(machine["communication"]), 6)
        # Measuring one again takes its place and leaves the others.
        self.document("probe", "comm", *FEW, "--transport", "tcp", "--collective", "all-reduce", "--algorithm", "ring,ring[segment=8KiB]")
        again = json.loads(self.machine.read_text())
        self.assertEqual(len(again["communication"]), 6)
        self.assertEqual(again["communication"][0], machine["communication"][0])
        # And what was measured of other collectives of that transport, whose choices and costs are still known.
        (before,), (after,) = ([part for part in profile["communication"] if part["transport"] == "tcp" and part["ranks"] == 2] for profile in (machine, again))
        chosen = [{piece["collective"] for piece in part["best"]} for part in (before, after)]
        self.assertEqual(*chosen)
        self.assertEqual(len(chosen[0]), 10)
        self.assertNotEqual(before["rounds"], after["rounds"])
        timed = [{(each["collective"], each["algorithm"]) for each in part["timed"]} for part in (before, after)]
        self.assertEqual(timed[1] - timed[0], {("all-reduce", "ring[segment=8KiB]")})

    def test_the_table_and_the_page(self):
        done = self.run_it("probe", "comm", *FEW, "--transport", "shm", "--machine", "none", "--report", "page.html")
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], r"transport +ranks +collective +algorithm +size +time us")
        self.assertTrue(any("halving-doubling" in line and "64 KiB" in line for line in lines))
        self.assertIn("all-reduce from 0 B", done.stderr)
        self.assertFalse(self.machine.exists())
        checked = subprocess.run([sys.executable, pathlib.Path(__file__).with_name("report_browser_test.py"), self.folder / "page.html",
                                  "--captions", "all-reduce over shm, 2 ranks", "broadcast over shm"], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_auto_follows_what_was_measured(self):
        self.document("probe", "comm", *FEW, "--transport", "tcp", "--collective", "all-reduce")
        machine = json.loads(self.machine.read_text())
        for piece in machine["communication"][0]["best"]:
            piece["algorithm"] = "star"
        self.machine.write_text(json.dumps(machine))
        record = self.document("run", *QUICK, "--steps", 2, "--workers", 2, "--transport", "tcp", "--store", "none")
        self.assertEqual(record["machine_profile"], str(self.machine))
        self.assertEqual({bucket["algorithm"] for bucket in record["buckets"]}, {"star"})
        # What was asked for by name, and what was not measured, go as ever.
        record = self.document("run", *QUICK, "--steps", 2, "--workers", 2, "--transport", "tcp", "--collective", "ring", "--store", "none")
        self.assertEqual((record["machine_profile"], record["buckets"][0]["algorithm"]), (None, "ring"))
        record = self.document("run", *QUICK, "--steps", 2, "--workers", 2, "--transport", "shm", "--store", "none")
        self.assertEqual((record["machine_profile"], record["buckets"][0]["algorithm"]), (None, "direct"))
        # A profile of another machine is not followed, one that cannot be read is told of; neither is written over.
        machine["cpu"]["model"] = "Another"
        self.machine.write_text(json.dumps(machine))
        record = self.document("run", *QUICK, "--steps", 2, "--workers", 2, "--transport", "tcp", "--store", "none")
        self.assertIsNone(record["machine_profile"])
        self.run_it("probe", "comm", *FEW, "--transport", "tcp", "--collective", "barrier", code=2)
        self.machine.write_text("{")
        record = self.document("run", *QUICK, "--steps", 2, "--workers", 2, "--transport", "tcp", "--store", "none")
        self.assertTrue(any("machine profile not followed" in message for message in record["messages"]))
        self.assertEqual(self.machine.read_text(), "{")

    def test_what_was_measured_is_told_where_it_cannot_be_kept(self):
        """Found when it is to be written, and all that was measured is printed."""
        document = json.loads(self.run_it("probe", "comm", *FEW, "--transport", "inproc", "--collective", "barrier", "--json", "--machine", "/proc/none/machine.json", code=4).stdout)
        self.assertEqual(document["state"], "partial")
        self.assertIn("/proc/none", document["failed"][0]["reason"])
        self.assertTrue(document["results"])

    def test_bad_words(self):
        for words, said in ((["--transport", "tpc"], "did you mean 'tcp'?"), (["--transport", "tcp[sokets=2]"], "did you mean 'sockets'?"),
                            (["--collective", "all-reduse"], "all-reduse"), (["--algorithm", "rign"], "did you mean 'ring'?"),
                            (["--algorithm", "ring[segmnt=4KiB]"], "segment"), (["--ranks", "1"], "expected 2 to 64"), (["--sizes", "12"], "unit"),
                            (["--memory", "mine"], "own"), (["--collective", "broadcast", "--algorithm", "ring"], "nothing to measure"),
                            (["--fabric", "hosts=2"], "a fabric carries tcp and mpi"), (["--fabric", "host=2"], "did you mean 'hosts'?")):
            done = self.run_it("probe", "comm", *words, code=2)
            self.assertEqual(done.stdout, "")
            self.assertIn(said, done.stderr)
        self.assertIn("--data: folders", self.run_it("probe", "storage", code=2).stderr)

    def start(self, *arguments, settle=1):
        process = subprocess.Popen([BINARY, "probe", "comm", "--json", *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=self.environment)
        self.addCleanup(process.kill)
        until = time.monotonic() + 20
        while len(children(process.pid)) < 2 and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(settle)
        return process

    def test_a_killed_rank_is_named_and_the_other_transports_are_measured(self):
        process = self.start("--transport", "shm,tcp", "--collective", "all-reduce", "--budget", "300ms")
        os.kill(children(process.pid)[0], signal.SIGKILL)
        output, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 4, errors)
        document = json.loads(output)
        self.assertEqual(document["state"], "partial")
        self.assertIn("shm with 2 ranks", document["failed"][0]["reason"])
        self.assertIn("signal 9", document["failed"][0]["reason"])
        self.assertIn("tcp", {row["transport"] for row in document["results"]})

    def test_a_stopped_rank_is_named_in_time_whatever_it_was_at(self):
        # Limits are measured before a size's cases, and for longer than those with a short budget.
        limits = ("--sizes", "64MiB,128MiB,256MiB", "--algorithm", "direct", "--budget", "10ms")
        cases = ("--sizes", "32MiB", "--budget", "1s")
        for what, after in ((limits, 0), (limits, 0.2), (limits, 0.5), (cases, 1.5)):
            with self.subTest(what=what, after=after):
                process = self.start("--transport", "shm", "--collective", "all-reduce", "--no-check", "--timeout", "2s", "--machine", "none", *what,
                                     settle=after)
                ranks = children(process.pid)
                if len(ranks) < 2:
                    self.fail("the ranks ended too soon to be stopped: " + process.communicate()[1])
                os.kill(ranks[1], signal.SIGSTOP)
                begin = time.monotonic()
                output, errors = process.communicate(timeout=100)
                took = time.monotonic() - begin
                self.assertEqual(process.returncode, 1, errors)
                reason = json.loads(output)["failed"][0]["reason"]
                # Stopped at once on a busy machine it may not have connected yet, for which ranks have a minute.
                if after > 0 or took < 50:
                    self.assertLess(took, 12)
                    self.assertRegex(reason, r"rank 0 waited 2 s; rank 1 did not come")
                else:
                    self.assertLess(took, 75)
                    self.assertRegex(reason, r"\b1\b")

    def test_an_interrupt_keeps_what_was_measured_and_writes_no_profile(self):
        process = self.start("--transport", "tcp", "--budget", "2s")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, errors)
        self.assertEqual(json.loads(output)["state"], "interrupted")
        self.assertFalse(self.machine.exists())


class Compressing(Case):
    def test_training_under_every_compression(self):
        names = [item["name"] for item in self.document("list", "compressions")["items"]]
        self.assertLessEqual({"none", "fp16", "bf16", "int8", "top-k", "random-k", "power-sgd"}, set(names))
        plain = self.document("run", *QUICK, "--steps", 20, "--workers", 2, "--store", "none")
        for name in names:
            with self.subTest(name):
                record = self.document("run", *QUICK, "--steps", 20, "--workers", 2, "--store", "none", "--strategy", f"data[compress={name}]")
                self.assertEqual(record["state"], "ok", record["reason"])
                if name == "none":
                    self.assertEqual(record["parameters_digest"], plain["parameters_digest"])
                    self.assertIsNone(record["ranks"][0]["compression"])
                    continue
                for rank in record["ranks"]:
                    said = rank["compression"]
                    self.assertLess(said["sent_bytes"], said["uncompressed_bytes"])
                    self.assertGreater(said["relative_error"], 0)
                    self.assertLess(rank["bytes_sent"], plain["ranks"][0]["bytes_sent"])
                if name in ("fp16", "bf16", "int8"):
                    for ours, theirs in zip(record["loss"]["steps"]["value"], plain["loss"]["steps"]["value"]):
                        self.assertAlmostEqual(ours, theirs, delta=0.05)

    def test_options_and_their_errors(self):
        record = self.document("run", *QUICK, "--steps", 5, "--workers", 2, "--store", "none", "--strategy", "data[compress=top-k[ratio=0.05],bucket=40kB]")
        self.assertGreater(len(record["buckets"]), 1)
        for option, said in (("topk", "did you mean 'top-k'?"), ("top-k[ratoi=1]", "ratio"), ("top-k[ratio=2]", "ratio")):
            done = self.run_it("run", *QUICK, "--workers", 2, "--strategy", f"data[compress={option}]", code=2)
            self.assertIn(said, done.stderr)
            self.assertIn("--strategy:", done.stderr)


@unittest.skipIf(no_fabric(), no_fabric())
class Fabrics(Case):
    def namespaces(self):
        return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout

    def test_training_between_hosts(self):
        before = self.namespaces()
        fast = self.document("run", *QUICK, "--steps", 5, "--workers", 2, "--transport", "tcp", "--store", "none")
        slow = self.document("run", *QUICK, "--steps", 5, "--workers", 2, "--transport", "tcp", "--fabric", "hosts=2,bandwidth=20Mbps", "--store", "none")
        self.assertEqual(slow["config"]["fabric"], "hosts=2,bandwidth=20Mbps")
        self.assertEqual(slow["parameters_digest"], fast["parameters_digest"])
        # 61,707 fp32 elements, once each way a step, at 20 Mbit/s: 99 ms, and no less.
        self.assertGreater(slow["step_ms"]["median"], 90)
        self.assertLess(slow["step_ms"]["median"], 300)
        self.assertEqual(self.namespaces(), before)

    def test_probing_between_hosts(self):
        document = self.document("probe", "comm", "--transport", "tcp", "--ranks", "4", "--collective", "all-reduce", "--algorithm", "ring,hierarchical",
                                 "--sizes", "4MiB", "--budget", "100ms", "--fabric", "hosts=2,bandwidth=1Gbps,latency=200us")
        self.assertNotIn("machine", document)
        for row in document["results"]:
            # Nothing beats 2(H-1)/H n between two hosts at their payload bandwidth.
            self.assertGreater(row["time_us"]["median"], 0.95 * 4 * 2**20 * 8 / 956.4)

    def test_what_cannot_be(self):
        self.assertIn("--fabric:", self.run_it("run", *QUICK, "--workers", 2, "--fabric", "hosts=2", code=2).stderr)  # over shm
        self.assertIn("did you mean", self.run_it("run", *QUICK, "--workers", 2, "--transport", "tcp", "--fabric", "hsots=2", code=2).stderr)
        self.run_it("run", *QUICK, "--workers", 2, "--transport", "tcp", "--fabric", "hosts=2", "--subject", "torch-ddp", code=6)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
